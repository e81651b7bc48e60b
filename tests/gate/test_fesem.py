"""FeSEM's centres, worked out."""

from itertools import pairwise

import pytest
import torch
from torch.nn import functional as F

from contracts import ENCODER, HEAD
from gate.by_hand import ROUND, run, seated, upload
from gate.fesem import FeSEM, loss_at
from pluribus import usual
from pluribus.method import Server
from pluribus.methods.fedavg import FedAvg
from pluribus.seeds import generator
from pluribus.stage import WELCOME
from pluribus.state import digest, num_bytes, within
from toy import history, place

TWO = {"centre0/w": torch.tensor([0.0]), "centre1/w": torch.tensor([10.0])}


def after(uploads, server=None):
    new = FeSEM().aggregate(server or Server({}, TWO), uploads, ROUND, generator("aggregate"))
    return new, {k: int(of["centre"]) for k, of in new.of.items()}


def test_each_client_belongs_to_the_nearest_centre_and_the_centre_to_its_members():
    """Centres 0 and 10: 9 and 8 belong to 10, whose mean is 8.5; 1 belongs to 0; examples do not count.
    Generic: (1 · 1 + 2 · 8.5) / 3 = 6.
    """
    new, belongs = after({"a": upload({"w": [9.0]}, 5), "b": upload({"w": [1.0]}), "c": upload({"w": [8.0]})})

    assert belongs == {"a": 1, "b": 0, "c": 1}
    assert (float(new.memory["centre0/w"]), float(new.memory["centre1/w"])) == (1.0, 8.5)
    assert float(new.shared["w"]) == 6.0


def test_who_was_not_heard_stays_and_an_empty_centre_stays():
    new, belongs = after({"a": upload({"w": [2.0]})}, Server({}, TWO, {"z": {"centre": torch.tensor(1)}}))

    assert belongs == {"a": 0, "z": 1}
    assert (float(new.memory["centre0/w"]), float(new.memory["centre1/w"])) == (2.0, 10.0)
    assert float(new.shared["w"]) == 6.0, "both have one member"


def test_the_first_centres_are_far_from_each_other():
    """Among 0, 0, 0 and 10 the second is always the other of the two values."""
    models = {str(k): upload({"w": [0.0 if k < 3 else 10.0]}) for k in range(4)}
    for seed in range(20):
        new = FeSEM().aggregate(Server({}), models, ROUND, generator("far", seed))

        assert {float(new.memory[f"centre{r}/w"]) for r in (0, 1)} == {0.0, 10.0}


def test_equal_models_have_equal_centres():
    new, belongs = after({k: upload({"w": [3.0]}) for k in "ab"}, Server({}))

    assert set(belongs.values()) == {0}
    assert {float(new.memory[f"centre{r}/w"]) for r in (0, 1)} == {3.0}


def test_everybody_receives_its_own_centre():
    rounds = run("fesem")

    for then, now in pairwise(rounds):
        for k in now.cohort:
            known = then.server.of.get(k)
            its = within(f"centre{int(known['centre'])}", then.server.memory) if known else then.server.shared
            assert digest(FeSEM().message(then.server, k, now.stage)) == digest(its)
    ends = [digest(within(f"centre{r}", rounds[-1].server.memory)) for r in (0, 1)]
    assert ends[0] != ends[1]


def test_one_centre_is_fedavg_of_equal_weights():
    """C22-L1, to the bit."""
    uniform = type("Uniform", (FedAvg,), {"aggregate": usual.mean})()

    one, other = run("fesem", method=FeSEM(centres=1))[-1], history(place(uniform))[-1]

    assert digest(one.server.shared) == digest(other.server.shared)


def test_a_newcomer_downloads_every_centre_and_takes_the_one_of_least_loss():
    server = run("fesem")[-1].server
    message = FeSEM().message(server, "new", WELCOME)
    client = seated(place(FeSEM()), "c4", message=message, stage=WELCOME)
    centres = [within(f"centre{r}", server.memory) for r in (0, 1)]
    losses = [loss_at(centre, client) for centre in centres]

    FeSEM().welcome(client, 0)

    assert num_bytes(message) == 2 * (ENCODER + HEAD)
    assert losses[0] != losses[1]
    assert digest(client.tensors()) == digest(centres[losses.index(min(losses))])


def test_the_loss_at_a_centre_is_over_all_data():
    client = seated(place(FeSEM()))
    mean = F.cross_entropy(client.parts(client.data.x), client.data.y).item()

    assert loss_at(client.tensors(), client) == pytest.approx(len(client.data) * mean, rel=1e-5)
