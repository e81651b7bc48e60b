"""FedKD's cuts, its two kinds of message and its mutual loss, worked out."""

from itertools import pairwise

import pytest
import torch

from contracts import ENCODER, HEAD, lossy
from gate.by_hand import near, run, seated, upload
from gate.fedkd import FedKD, cut, mutual, rank, whole
from pluribus.client import Parts
from pluribus.method import Server
from pluribus.seeds import generator
from pluribus.stage import Stage
from pluribus.state import num_bytes, within
from toy import FEATURES, place


def matrix(*singular: float) -> torch.Tensor:
    """A matrix of this spectrum, 20 x 30."""
    u = torch.linalg.qr(torch.randn(20, len(singular), generator=generator("u")))[0]
    v = torch.linalg.qr(torch.randn(30, len(singular), generator=generator("v")))[0]
    return u * torch.tensor(singular) @ v.T


@pytest.mark.parametrize(("energy", "k"), [(0.5, 1), (0.95, 3), (0.98, 4), (1.0, 4)])
def test_the_rank_is_the_smallest_that_holds_the_energy(energy, k):
    """C15-L3: squares 16, 9, 4, 1 of 30: 0.53, 0.83, 0.97, 1."""
    assert rank(torch.tensor([4.0, 3.0, 2.0, 1.0]), energy) == k


def test_equal_singular_values_are_all_needed():
    """0.95 of ten equal ones takes ten: the loop of the authors' code leaves none."""
    assert rank(torch.ones(10), 0.95) == 10


def test_what_is_cut_off_is_the_energy_that_is_not_held():
    """C15-L2: of squares 16, 9, 4, 1 the last goes; three ranks of 20 + 30 + 1 numbers travel."""
    m = matrix(4.0, 3.0, 2.0, 1.0)

    packed = cut({"m": m, "bias": torch.ones(3)}, 0.95)

    assert num_bytes(packed) == 4 * (3 * 51 + 3)
    lost = (m - whole(packed, {"m": m})["m"]).square().sum()
    assert torch.isclose(lost, torch.tensor(1.0), atol=1e-4)
    assert torch.equal(packed["bias"], torch.ones(3))


def test_nothing_is_lost_at_full_energy():
    """C15-L1; a kernel is the matrix of its output channels and all else."""
    for t in (matrix(4.0, 3.0, 2.0, 1.0), torch.randn(6, 3, 5, 5, generator=generator("kernel"))):
        assert near(whole(cut({"t": t}, 1.0), {"t": t}), {"t": t}, atol=1e-5)


def test_a_matrix_that_would_be_longer_in_pieces_travels_whole():
    t = torch.randn(4, 4, generator=generator("square"))

    assert set(cut({"t": t}, 1.0)) == {"t"}


def test_no_change_costs_nothing_and_stays_none():
    """C15-L7."""
    packed = cut({"m": torch.zeros(5, 7)}, 0.95)

    assert num_bytes(packed) == 0
    assert torch.equal(whole(packed, {"m": torch.zeros(5, 7)})["m"], torch.zeros(5, 7))


def test_the_energy_goes_from_start_to_end_with_the_finished_rounds():
    """C15-L6."""
    method = FedKD(energy_start=0.9, energy_end=0.98)

    assert [method.energy(t, 4) for t in (0, 2, 4)] == pytest.approx([0.9, 0.94, 0.98])


def test_equal_predictions_teach_each_other_nothing():
    """C15-L5: the mentor begins as the mentee, and with W = I twice the cross entropy is all there is."""
    client = seated(place(FedKD()), kept={"bridge.weight": torch.eye(FEATURES)})
    x, y = client.data.x, client.data.y

    loss = mutual(client.parts, x, y)

    assert torch.isclose(loss, 2 * torch.nn.functional.cross_entropy(client.parts(x), y))


def test_the_mutual_loss_by_hand():
    """Features are 1, y = 0, scores of mentor (0, 0), of mentee (ln 3, 0): p_t = (½, ½), p_s = (¾, ¼).

    q = ln 2 + ln 4/3 = ln 8/3.   KL(p_t || p_s) + KL(p_s || p_t) = Σ (p_s - p_t) ln p_s/p_t
    = ¼ ln 3/2 - ¼ ln 1/2 = ¼ ln 3.   W = 3: MSE = (1 - 3)² = 4, twice is 8.
    """
    one = torch.nn.Linear(1, 1, bias=False)
    heads = [torch.nn.Linear(1, 2, bias=False) for _ in range(2)]
    bridge = torch.nn.Linear(1, 1, bias=False)
    for layer, values in (
        (one, [[1.0]]),
        (bridge, [[3.0]]),
        (heads[0], [[0.0], [0.0]]),
        (heads[1], [[1.0986123], [0.0]]),
    ):
        layer.weight.data = torch.tensor(values)
    parts = Parts(
        {"encoder": one, "head": heads[1], "mentor_encoder": one, "mentor_head": heads[0], "bridge": bridge},
        ("encoder", "head"),
    )

    loss = mutual(parts, torch.ones(1, 1), torch.tensor([0]))

    ln3, q = torch.tensor(3.0).log(), torch.tensor(8 / 3).log()
    assert torch.isclose(loss, q + (ln3 / 4 + 8) / q)


def test_who_was_there_gets_the_change_and_all_others_the_mentee():
    change, mentee = {"cut/w": torch.ones(2)}, {"w": torch.ones(2)}
    server = Server(mentee, change, {"a": {"there": torch.tensor(1)}})
    stages = [Stage(name, 3, 9) for name in ("round", "round", "personal", "generic", "welcome")]

    sent = [FedKD().message(server, k, stage) for k, stage in zip("abaaa", stages, strict=True)]

    assert [set(message) for message in sent] == [{"cut/w"}, {"w"}, {"w"}, {"w"}, {"w"}]


def test_the_server_adds_the_mean_change_and_remembers_who_was_there():
    """(1 + 5) / 2 = 3, whatever the numbers of examples."""
    uploads = {"a": upload({"cut/w": [1.0]}, 1), "b": upload({"cut/w": [5.0]}, 9)}
    server = Server({"w": torch.tensor([10.0])}, {}, {"c": {"there": torch.tensor(1)}})

    new = FedKD().aggregate(server, uploads, Stage("round", 1, 2), generator("aggregate"))

    assert (float(new.shared["w"]), float(new.memory["cut/w"]), set(new.of)) == (13.0, 3.0, {"a", "b"})


def test_everybody_who_is_heard_has_the_servers_mentee_whatever_is_lost():
    rounds = run("fedkd", executor=lossy(), number=12)

    changes = 0
    for then, now in pairwise(rounds):
        for k in now.heard:
            mentee = within("mentee", now.held[k].kept)
            assert all(torch.equal(mentee[n], t) for n, t in then.server.shared.items())
            changes += now.down[k] < ENCODER + HEAD
    assert changes, "some were sent a change"
    assert changes < sum(len(now.heard) for now in rounds[1:]), "and others the mentee"
