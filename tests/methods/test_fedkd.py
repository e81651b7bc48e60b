"""FedKD, by hand. Letters as in its file."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from contracts import ENCODER, EVERYBODY, HEAD, World, lossy
from gate.by_hand import near, seated, upload
from pluribus import usual
from pluribus.client import Parts
from pluribus.method import Server
from pluribus.methods.fedavg import FedAvg
from pluribus.methods.fedkd import FedKD, cut, mentor, rank, whole
from pluribus.methods.local import Local
from pluribus.seeds import generator
from pluribus.stage import GENERIC, PERSONAL, WELCOME, Stage
from pluribus.state import add, average, digest, num_bytes, under, within
from pluribus.training import Training
from pluribus.turn import Turn
from toy import FEATURES, PEOPLE, Net, history, place

WORLD = World(averages=False)
ROUND = Stage("round", 1, 4)
FULL_BATCH = Training(lr=0.1, batch=1000)


# (a) the loss -------------------------------------------------------------------------------------------


def test_equal_predictions_teach_each_other_nothing() -> None:
    """C15-L5: the mentor begins as the mentee, and with W = I twice the cross entropy is all there is."""
    client = seated(place(FedKD()), kept={"bridge.weight": torch.eye(FEATURES)})
    x, y = client.data.x, client.data.y

    loss = FedKD().loss(client.parts, x, y)

    assert torch.isclose(loss, 2 * F.cross_entropy(client.parts(x), y))


def by_hand(w: float = 3.0) -> Parts:
    """Features are 1; scores of the mentor (0, 0), of the mentee (ln 3, 0); W = 3."""

    def linear(*rows: float) -> nn.Linear:
        layer = nn.Linear(1, len(rows), bias=False)
        layer.weight.data = torch.tensor(rows)[:, None]
        return layer

    parts = {"encoder": linear(1.0), "head": linear(1.0986123, 0.0), "bridge": linear(w)}
    return Parts(
        parts | {"mentor_encoder": linear(1.0), "mentor_head": linear(0.0, 0.0)}, ("encoder", "head")
    )


@pytest.mark.parametrize(
    ("settings", "kls", "features"),
    [({}, 1.0, 8.0), ({"kl": "mean"}, 0.5, 8.0), ({"distil": 0.5}, 0.5, 4.0), ({"detach": "yes"}, 1.0, 8.0)],
)
def test_a_the_mutual_loss_by_hand(settings: Any, kls: float, features: float) -> None:
    """y = 0, p_t = (½, ½), p_s = (¾, ¼).

    q = ln 2 + ln 4/3 = ln 8/3.   KL(p_t ‖ p_s) + KL(p_s ‖ p_t) = Σ (p_s - p_t) ln p_s/p_t
    = ¼ ln 3/2 - ¼ ln 1/2 = ¼ ln 3, of two classes.   W = 3: MSE = (1 - 3)² = 4, twice is 8.
    """
    loss = FedKD(**settings).loss(by_hand(), torch.ones(1, 1), torch.tensor([0]))

    ln3, q = torch.tensor(3.0).log(), torch.tensor(8 / 3).log()
    assert torch.isclose(loss, q + (kls * ln3 / 4 + features) / q)


def test_a_the_gradient_goes_through_both_unless_detached() -> None:
    """Of 8 / q by W: 2 · 2 · (3 - 1) = 8 through both, 4 where the mentor's side is told only."""
    q = float(torch.tensor(8 / 3).log())
    for detach, slope in (("no", 8.0), ("yes", 4.0)):
        parts = by_hand()

        loss = FedKD(detach=detach).loss(parts, torch.ones(1, 1), torch.tensor([0]))  # type: ignore[arg-type]

        (found,) = torch.autograd.grad(loss, [parts["bridge"].weight])
        assert found.item() == pytest.approx(slope / q, rel=1e-5)


def test_a_detached_each_moves_towards_what_the_other_says() -> None:
    """By the mentor's first score: of KL(p_s ‖ p_t) alone p_t - p_s, (½ - ¾), with q's own beside it."""
    parts, x, y = by_hand(w=1.0), torch.ones(1, 1), torch.tensor([0])
    q = float(torch.tensor(8 / 3).log())

    loss = FedKD(detach="yes").loss(parts, x, y)

    (found,) = torch.autograd.grad(loss, [parts["mentor_head"].weight])
    kls = float(torch.tensor(3.0).log()) / 4
    by_q = (0.5 - 1) * (1 - kls / q**2)  # q = CE: its slope is p_t - y
    assert found[0].item() == pytest.approx(by_q + (0.5 - 0.75) / q, rel=1e-5)


def test_a_without_loss_nothing_is_divided_by_zero() -> None:
    """Both are sure and right: q is 0 in float32."""
    parts = by_hand()
    parts["head"].weight.data = parts["mentor_head"].weight.data = torch.tensor([[200.0], [0.0]])

    assert torch.isfinite(FedKD().loss(parts, torch.ones(1, 1), torch.tensor([0])))


def test_a_mentor_mentee_and_bridge_move_at_once() -> None:
    """One full batch: each by its slope of the loss; two epochs are two steps."""
    at = place(FedKD(energy_start=1.0, energy_end=1.0), training=FULL_BATCH)
    client = seated(at)
    x, y = client.data.x, client.data.y
    names, params = zip(*client.parts.named_parameters(), strict=True)
    slopes = torch.autograd.grad(FedKD().loss(client.parts, x, y), params)
    expected = {n: p.detach() - 0.1 * g for n, p, g in zip(names, params, slopes, strict=True)}

    outcome = at.take(Turn(1, ROUND, "c0", {}, 0, {}, watch=True))

    assert outcome.trained is not None
    assert near(outcome.trained, expected)
    assert {n.split(".")[0] for n in names} == {"encoder", "head", "mentor_encoder", "mentor_head", "bridge"}
    twice = place(FedKD(epochs=2), training=FULL_BATCH).take(Turn(1, ROUND, "c0", {}, 0, {}))
    assert twice.samples == 2 * outcome.samples


def test_the_mentor_is_a_network_like_the_mentee_and_begins_as_its_copy() -> None:
    client = seated(place(FedKD()))
    x = client.data.x

    features, scores = mentor(client.parts, x)

    assert torch.equal(scores, client.parts(x))
    assert torch.equal(features, client.parts.features(x))
    assert client.parts["mentor_head"] is not client.parts["head"]


def test_without_teaching_mentees_are_fedavg_and_mentors_local() -> None:
    """C15-L4, to 1e-5: T = 1 and no distillation."""
    uniform: Any = type("Uniform", (FedAvg,), {"aggregate": usual.mean})
    method = FedKD(distil=0.0, energy_start=1.0, energy_end=1.0)
    now, fedavg, local = (
        history(place(m, training=Training(lr=0.1, batch=1000)), number=3, join=EVERYBODY)[-1]
        for m in (method, uniform(), Local())
    )

    assert near(now.server.shared, fedavg.server.shared, atol=1e-5)
    for k in PEOPLE:
        mine = {n.removeprefix("mentor_"): t for n, t in now.held[k].kept.items() if n.startswith("mentor_")}
        assert near(mine, local.held[k].kept, atol=1e-5)


# (b) the cut --------------------------------------------------------------------------------------------


def matrix(*singular: float) -> torch.Tensor:
    """A matrix of this spectrum, 20 x 30."""
    u = torch.linalg.qr(torch.randn(20, len(singular), generator=generator("u")))[0]
    v = torch.linalg.qr(torch.randn(30, len(singular), generator=generator("v")))[0]
    return u * torch.tensor(singular) @ v.T


@pytest.mark.parametrize(("energy", "k"), [(0.5, 1), (0.95, 3), (0.98, 4), (1.0, 4)])
def test_b_the_rank_is_the_smallest_that_holds_the_energy(energy: float, k: int) -> None:
    """C15-L3: squares 16, 9, 4, 1 of 30: 0.53, 0.83, 0.97, 1."""
    assert rank(torch.tensor([4.0, 3.0, 2.0, 1.0]), energy) == k


def test_b_equal_singular_values_are_all_needed() -> None:
    """0.95 of ten equal ones takes ten: the loop of the authors' code leaves none."""
    assert rank(torch.ones(10), 0.95) == 10


def test_b_what_is_cut_off_is_the_energy_that_is_not_held() -> None:
    """C15-L2: of squares 16, 9, 4, 1 the last goes; three ranks of 20 + 30 + 1 numbers travel."""
    m = matrix(4.0, 3.0, 2.0, 1.0)

    packed = cut({"m": m, "bias": torch.ones(3)}, 0.95)

    assert num_bytes(packed) == 4 * (3 * 51 + 3)
    lost = (m - whole(packed, {"m": m})["m"]).square().sum()
    assert torch.isclose(lost, torch.tensor(1.0), atol=1e-4)
    assert torch.equal(packed["bias"], torch.ones(3))


def test_b_nothing_is_lost_at_full_energy() -> None:
    """C15-L1; a kernel is the matrix of its output channels and all else."""
    for t in (matrix(4.0, 3.0, 2.0, 1.0), torch.randn(6, 3, 5, 5, generator=generator("kernel"))):
        assert near(whole(cut({"t": t}, 1.0), {"t": t}), {"t": t}, atol=1e-5)


def test_b_a_matrix_that_would_be_longer_in_pieces_travels_whole() -> None:
    t = torch.randn(4, 4, generator=generator("square"))

    assert set(cut({"t": t}, 1.0)) == {"t"}


def test_b_no_change_costs_nothing_and_stays_none() -> None:
    """C15-L7."""
    packed = cut({"m": torch.zeros(5, 7)}, 0.95)

    assert num_bytes(packed) == 0
    assert torch.equal(whole(packed, {"m": torch.zeros(5, 7)})["m"], torch.zeros(5, 7))


def test_b_the_energy_goes_from_start_to_end_with_the_finished_rounds() -> None:
    """C15-L6."""
    method = FedKD(energy_start=0.9, energy_end=0.98)

    assert [method.energy(t, 4) for t in (0, 2, 4)] == pytest.approx([0.9, 0.94, 0.98])


def test_b_the_change_is_since_the_mentee_that_was_received() -> None:
    """With T = 1 what is sent, put together, leads from there to the trained mentee."""
    at = place(FedKD(energy_start=1.0, energy_end=1.0))
    there = {n: t + 0.5 for n, t in at.built("c0").initial.items() if n.startswith(("encoder", "head"))}

    outcome = at.take(Turn(1, ROUND, "c0", there, 0, {}, watch=True))

    change = whole(within("cut", outcome.tensors or {}), there)
    assert outcome.trained is not None
    assert near(outcome.trained, add(there, change), atol=1e-5)
    assert near(within("mentee", outcome.kept), there, atol=0)


@pytest.mark.parametrize(("t", "energy"), [(1, 0.6), (3, 0.8)])
def test_b_and_c_a_client_cuts_by_the_rounds_before_and_the_server_by_this_one_too(
    t: int, energy: float
) -> None:
    """Four rounds from 0.6 to 1: before round 1 it is 0.6, before round 3 it is 0.8; after them 0.7, 0.9."""
    method = FedKD(energy_start=0.6, energy_end=1.0)
    at, stage = place(method), Stage("round", t, 4)
    initial = {n: v for n, v in at.built("c0").initial.items() if n.startswith(("encoder", "head"))}

    outcome = at.take(Turn(1, stage, "c0", initial, 0, {}, watch=True))

    assert outcome.trained is not None
    change = add({n: outcome.trained[n] for n in initial}, initial, -1)
    assert digest(within("cut", outcome.tensors or {})) == digest(cut(change, energy))
    raw = under("cut", change)
    server = method.aggregate(Server(initial), {"c0": upload(raw)}, stage, generator("x"))
    assert digest(within("cut", server.memory)) == digest(cut(change, energy + 0.1))


# (c) and (d) the server and its messages ------------------------------------------------------------


def test_d_who_was_there_gets_the_change_and_all_others_the_mentee() -> None:
    change, mentee = {"cut/w": torch.ones(2)}, {"w": torch.ones(2)}
    server = Server(mentee, change, {"a": {"there": torch.tensor(1)}})
    stages = [Stage(name, 3, 9) for name in ("round", "round", "personal", "generic", "welcome")]

    sent = [FedKD().message(server, k, stage) for k, stage in zip("abaaa", stages, strict=True)]

    assert [set(message) for message in sent] == [{"cut/w"}, {"w"}, {"w"}, {"w"}, {"w"}]


def test_c_and_d_the_server_adds_the_mean_change_and_remembers_who_was_there() -> None:
    """(1 + 5) / 2 = 3, whatever the numbers of examples."""
    uploads = {"a": upload({"cut/w": [1.0]}, 1), "b": upload({"cut/w": [5.0]}, 9)}
    server = Server({"w": torch.tensor([10.0])}, {}, {"c": {"there": torch.tensor(1)}})

    new = FedKD().aggregate(server, uploads, Stage("round", 1, 2), generator("aggregate"))

    assert (float(new.shared["w"]), float(new.memory["cut/w"]), set(new.of)) == (13.0, 3.0, {"a", "b"})


def test_d_a_change_is_added_to_the_mentee_as_received_before() -> None:
    """To the bit the server's mentee: it was at 1, the change is 2."""
    at = place(FedKD())
    initial = {n: t for n, t in at.built("c0").initial.items() if n.startswith(("encoder", "head"))}
    before, change = ({n: torch.full_like(t, v) for n, t in initial.items()} for v in (1.0, 2.0))

    outcome = at.take(Turn(1, ROUND, "c0", under("cut", change), 0, under("mentee", before)))

    assert near(
        within("mentee", outcome.kept), {n: torch.full_like(t, 3.0) for n, t in before.items()}, atol=0
    )


def test_d_everybody_who_is_heard_has_the_servers_mentee_whatever_is_lost() -> None:
    rounds = history(place(FedKD()), executor=lossy(), number=12)

    changes = 0
    for then, now in pairwise(rounds):
        for k in now.heard:
            mentee = within("mentee", now.held[k].kept)
            assert all(torch.equal(mentee[n], t) for n, t in then.server.shared.items())
            changes += now.down[k] < ENCODER + HEAD
    assert changes, "some were sent a change"
    assert changes < sum(len(now.heard) for now in rounds[1:]), "and others the mentee"


def test_the_mentees_running_statistics_travel_uncut_and_the_mentors_stay() -> None:
    at = place(FedKD(), model=Net(norm=True))
    now = history(at, number=1, join=EVERYBODY, watch=1)[-1]

    mean = average(list(now.trained.values()), [1] * len(PEOPLE))
    name = "encoder.norm.running_mean"
    assert torch.allclose(now.server.shared[name], mean[name], atol=1e-6)
    assert "mentor_encoder.norm.running_mean" in now.held["c0"].kept


# (e) and (f) who predicts -------------------------------------------------------------------------------


def test_e_a_client_predicts_with_its_mentor_and_anybody_with_the_mentee() -> None:
    now = history(place(FedKD()), number=2, join=EVERYBODY)[-1]
    at, message = place(FedKD()), FedKD().message(now.server, "c0", PERSONAL)
    client = seated(at, message=message, kept=now.held["c0"].kept, stage=PERSONAL)
    x = client.data.x

    (mine,) = FedKD().personal(client).values()
    (everybodys,) = FedKD().generic(seated(at, message=message, stage=GENERIC)).values()

    kept = now.held["c0"].kept
    z = torch.relu(F.linear(x, kept["mentor_encoder.first.weight"], kept["mentor_encoder.first.bias"]))
    client = seated(at, message=message, kept=kept, stage=PERSONAL)
    assert torch.allclose(
        mine(x), F.linear(z, kept["mentor_head.weight"], kept["mentor_head.bias"]), atol=1e-6
    )
    assert not torch.allclose(mine(x), everybodys(x), atol=1e-3)


def test_f_a_newcomers_mentor_begins_as_the_mentee_and_learns() -> None:
    now = history(place(FedKD()), number=2)[-1]
    for epochs in (0, 2):
        client = seated(place(FedKD()), message=now.server.shared, stage=WELCOME)

        (predict,) = FedKD().welcome(client, epochs).values()

        found = predict(client.data.x)
        by_hand = seated(place(FedKD()), message=now.server.shared, stage=WELCOME)
        by_hand.load({f"mentor_{n}": t for n, t in by_hand.tensors().items()})
        by_hand.fit(FedKD().loss, epochs=epochs)
        assert torch.equal(found, mentor(by_hand.parts, client.data.x)[1])
        assert torch.allclose(found, by_hand.parts(client.data.x)) is (epochs == 0)


def test_without_teaching_is_said() -> None:
    (sentence,) = replace(FedKD(), distil=0.0).dull()

    assert sentence.startswith("distil = 0.0: nobody teaches")
