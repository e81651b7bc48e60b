"""Local, by hand. Letters as in its file."""

import torch

import one_weight
from contracts import World
from one_weight import One, values, weights
from pluribus.cohort import Join
from pluribus.methods.fedper import FedPer
from pluribus.methods.local import Local
from pluribus.seeds import generator
from pluribus.stage import PERSONAL, Stage
from pluribus.state import digest, of_parts
from pluribus.training import Training
from pluribus.turn import Turn
from pluribus.usual import network_as_received
from toy import PEOPLE, Net, Person, history, place
from worlds import AllHead

WORLD = World(down=0, up=0)
ALONE = Stage("round", 1, 2, everyone=True, send=False, reply=False)


def test_a_everybody_trains_in_every_round_whatever_the_cohort() -> None:
    rounds = history(place(Local()), number=3, join=Join(number=1))

    assert [now.cohort for now in rounds] == [tuple(PEOPLE)] * 3
    assert [now.heard for now in rounds] == [tuple(PEOPLE)] * 3
    assert [now.stage for now in rounds] == [
        Stage("round", t, 3, everyone=True, send=False, reply=False) for t in (1, 2, 3)
    ]


def test_b_two_epochs_from_its_own_weight_by_hand() -> None:
    """
    L(w) = ½ (w - 5)², η = 0.1.
    From the initial w = 2:       2   - 0.1 (2   - 5) = 2.3,   2.3  - 0.1 (2.3  - 5) = 2.57
    From its own w = 4, kept:     4   - 0.1 (4   - 5) = 4.1,   4.1  - 0.1 (4.1  - 5) = 4.19
    """
    first = one_weight.turn(Local(epochs=2), One(w=2.0), stage=ALONE)
    second = one_weight.turn(Local(epochs=2), One(w=2.0), stage=ALONE, kept=weights(head=4.0))

    assert torch.isclose(first.kept["head.weight"], torch.tensor(2.57, dtype=torch.float64))
    assert torch.isclose(second.kept["head.weight"], torch.tensor(4.19, dtype=torch.float64))
    assert first.tensors is None


def test_c_a_client_predicts_with_its_own_weight() -> None:
    at = one_weight.place(Local(), One(w=2.0), a=[5.0])
    client = at.seat(Turn(0, PERSONAL, "a", {}, 0, weights(head=4.0)))
    x = torch.tensor([[5.0]], dtype=torch.float64)

    predictors = Local().personal(client)

    expected = one_weight.logits(torch.tensor([0.5], dtype=torch.float64))  # ½ (4 - 5)²
    assert list(predictors) == ["network"]
    assert torch.allclose(predictors["network"](x), expected)
    assert Local().generic(client) == {}


def test_without_momentum_rounds_are_one_long_training() -> None:
    """C1-L1, to the bit: three rounds of two epochs, and plain gradient steps over the same batches."""
    now = history(place(Local(epochs=2)), number=3)[-1]

    network = place(Local()).build(Net()).parts
    data = PEOPLE["c2"].train
    for t in (1, 2, 3):
        rng = generator(0, "round", t, "c2", "all")
        for _ in range(2):
            for positions in torch.split(torch.randperm(len(data), generator=rng), 8):
                x, y = data.batch(positions)
                loss = torch.nn.functional.cross_entropy(network(x), y)
                gradients = torch.autograd.grad(loss, list(network.parameters()))
                with torch.no_grad():
                    for p, g in zip(network.parameters(), gradients, strict=True):
                        p.add_(g, alpha=-0.1)

    assert digest(of_parts(now.held["c2"].kept)) == digest(network.state_dict())


def test_it_is_fedper_with_everything_in_the_head() -> None:
    """C1-L2 and C10-L2, to the bit, also with momentum."""
    training = Training(lr=0.1, batch=8, momentum=0.9)
    alone = history(place(Local(), model=AllHead(), training=training), number=3)
    fedper = history(place(FedPer(), model=AllHead(), training=training), number=3, join=Join())

    for one, two in zip(alone, fedper, strict=True):
        assert {k: digest(h.kept) for k, h in one.held.items()} == {
            k: digest(h.kept) for k, h in two.held.items()
        }


def test_nothing_travels() -> None:
    """C1-L3."""
    for now in history(place(Local()), number=3):
        assert not any(now.down.values())
        assert not any(now.up.values())
        assert now.server.shared == {}


def test_other_data_of_one_client_never_change_another() -> None:
    """C1-L4."""
    victim = PEOPLE["c1"]
    changed: dict[str, Person] = {
        **PEOPLE,
        "c1": Person("c1", "c1", *3 * [victim.train.take(torch.arange(5))]),
    }

    one, two = history(place(Local()))[-1], history(place(Local(), clients=changed))[-1]

    differ = {k for k in PEOPLE if digest(one.held[k].kept) != digest(two.held[k].kept)}
    assert differ == {"c1"}


def test_everybody_starts_from_the_same_network() -> None:
    now = history(place(Local(epochs=0)), number=1)[-1]

    assert len({digest(held.kept) for held in now.held.values()}) == 1


def test_a_newcomer_trains_all_of_the_initial_network() -> None:
    """2 - 0.1 (2 - 5) = 2.3 after one epoch; 2 after none."""
    after = {}
    for epochs in (0, 1):
        client = one_weight.place(Local(), One(w=2.0), a=[5.0]).seat(Turn(0, PERSONAL, "a", {}, 0, {}))
        Local().welcome(client, epochs)
        after[epochs] = values(client.parts.state_dict())["head"]

    assert after[0] == 2.0
    assert round(after[1], 12) == 2.3
    assert Local.personal is network_as_received
