"""What every method of the catalogue must do; a new line there is covered by its name alone."""

from collections.abc import Callable

import pytest

from contracts import CONTRACTS, World
from pluribus.method import Method
from pluribus.methods import METHODS
from pluribus.methods.fedrep import FedRep
from toy import CLASSES, FEATURES, INPUTS

ENCODER = 4 * (INPUTS * FEATURES + FEATURES)  # bytes of float32: 4 (6·8 + 8) = 224
HEAD = 4 * (FEATURES * CLASSES + CLASSES)  # 4 (8·4 + 4) = 144
PAYLOAD = {  # bytes of a client in a round, each way, from the sheets
    "local": 0,
    "fedavg": ENCODER + HEAD,
    "fedprox": ENCODER + HEAD,
    "fedper": ENCODER,
    "fedrep": ENCODER,
}
WORLDS = {name: World(down=bytes_, up=bytes_) for name, bytes_ in PAYLOAD.items()}
USUAL = World()
QUICK = {"fedrep": FedRep(head_epochs=2)}  # the same lines, a fifth of the time


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda f: f.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", METHODS)
def test_every_method(name: str, contract: Callable[[Method, World], None]) -> None:
    contract(QUICK.get(name) or METHODS[name](), WORLDS.get(name, USUAL))
