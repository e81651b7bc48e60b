"""The gate: methods that strain the protocol, each small and true to its sheet; others are in the library."""

from contracts import ENCODER, HEAD, NORM, World
from pluribus.method import Method
from pluribus.training import Training
from toy import Net

from .fedreg import FedReG
from .fedrir import FedRIR
from .perfedavg import PerFedAvg
from .pfedpm import PFedPM


def two_networks(client: str) -> Net:
    """The first three clients have a network of another width; features have the same size."""
    return Net(width=5 if client < "c3" else 7)


def statistics(*modules: str) -> frozenset[str]:
    """What moves in these batch normalisations although nothing learns."""
    names = ("running_mean", "running_var", "num_batches_tracked")
    return frozenset(f"{module}.{name}" for module in modules for name in names)


ALL = ENCODER + HEAD
DECAY = Training(lr=0.1, batch=8, weight_decay=1e-3)  # moves the bias before pFedPM's batch normalisation too

GATE: dict[str, tuple[type[Method], World]] = {
    "fedreg": (FedReG, World()),
    "fedrir": (
        FedRIR,
        World(
            model=Net(norm=True),
            training=Training(lr=5e-3, batch=16),
            moves=statistics("encoder.norm", "encoder_own.0.0.norm"),
            down=ENCODER + NORM,
            up=ENCODER + NORM,
        ),
    ),
    "perfedavg": (PerFedAvg, World(resting={"alpha": 0.0, "beta": 0.0}, down=ALL, up=ALL)),
    "pfedpm": (
        PFedPM,
        World(model=two_networks, training=DECAY, rounds=5, averages=False, moves=statistics("relation.1")),
    ),
}

QUICK: dict[str, Method] = {  # the same lines, a fraction of the time
    "fedreg": FedReG(epochs=1),
    "perfedavg": PerFedAvg(beta=0.05, steps=3),
}
