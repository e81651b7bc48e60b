"""FeSEM, by hand. Letters as in its file."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import one_weight
from contracts import ENCODER, EVERYBODY, HEAD, World
from one_weight import One, values
from pluribus import usual
from pluribus.client import Client
from pluribus.errors import ModelError
from pluribus.method import Server, Upload
from pluribus.methods.fedavg import FedAvg
from pluribus.methods.fesem import FeSEM, loss_at, nearest
from pluribus.methods.local import Local
from pluribus.seeds import generator
from pluribus.stage import GENERIC, PERSONAL, WELCOME, Stage
from pluribus.state import Tensors, average, digest, num_bytes, square_distance, within
from pluribus.training import Training
from pluribus.turn import Turn
from toy import PEOPLE, Net, history, place

BOTH = ENCODER + HEAD
WORLD = World(averages=False, down=BOTH, up=BOTH)
ROUND = Stage("round", 2, 4)
TWO = {"centre0/head.weight": torch.tensor([0.0]), "centre1/head.weight": torch.tensor([10.0])}
ROUNDS = history(place(FeSEM()))


@dataclass(frozen=True, kw_only=True)
class Uniform(FedAvg):
    """FedAvg in which every client counts the same."""

    aggregate = usual.mean


def sent(value: float, examples: int = 1) -> Upload:
    return Upload({"head.weight": torch.tensor([value])}, examples)


def after(uploads: Mapping[str, Upload], before: Server = Server({}, TWO), **settings: Any) -> Server:
    return FeSEM(**settings).aggregate(before, uploads, ROUND, generator("aggregate"))


def belongs(server: Server) -> dict[str, int]:
    return {k: int(of["centre"]) for k, of in server.of.items()}


def centres(server: Server) -> list[float]:
    return [server.memory[f"centre{r}/head.weight"].item() for r in range(len(server.memory))]


def seated(stage: Stage, message: Tensors, client: str = "c0") -> Client:
    return place(FeSEM()).seat(Turn(1, stage, client, message, 0, {}))


# (a) the client -----------------------------------------------------------------------------------------


def test_a_epochs_from_its_centre_by_hand() -> None:
    """L(w) = ½ (w - 5)², η = 0.1, from 2: 2.3, then 2.57."""
    outcome = one_weight.turn(FeSEM(epochs=2), One(w=9.0), head=2.0)

    assert values(outcome.tensors) == pytest.approx({"head": 2.57}, abs=1e-12)
    assert outcome.kept == {}


# (b) the first centres ----------------------------------------------------------------------------------


def test_b_the_first_centres_are_far_from_each_other() -> None:
    """Among 0, 0, 0 and 10 the second is always the other of the two values, whichever is first."""
    uploads = [sent(0.0), sent(0.0), sent(0.0), sent(10.0)]
    firsts = set()
    for seed in range(20):
        one, two = FeSEM().far_apart(uploads, generator("far", seed))
        firsts.add(one["head.weight"].item())

        assert {one["head.weight"].item(), two["head.weight"].item()} == {0.0, 10.0}
    assert firsts == {0.0, 10.0}, "the first by chance"


def test_b_the_chance_of_the_next_is_the_square_of_its_distance_to_the_nearest() -> None:
    """Models 0, 3 and 4. From 0 the second is 4 in 16 of 25 cases, from 4 it is 0 in 16 of 17, from 3 it is
    0 in 9 of 10; of 600 draws at least 40 each, and the shares are those within four deviations.
    """
    seen: dict[float, list[float]] = {}
    for seed in range(600):
        drawn = FeSEM().far_apart([sent(0.0), sent(3.0), sent(4.0)], generator("chance", seed))
        one, two = (t["head.weight"].item() for t in drawn)
        seen.setdefault(one, []).append(two)

    for first, second, share in ((0.0, 4.0, 16 / 25), (4.0, 0.0, 16 / 17), (3.0, 0.0, 9 / 10)):
        n = len(seen[first])
        assert n > 140
        assert abs(seen[first].count(second) / n - share) < 4 * (share * (1 - share) / n) ** 0.5


def test_b_a_third_is_far_from_both() -> None:
    for seed in range(20):
        uploads = [sent(0.0), sent(0.0), sent(10.0), sent(-7.0)]
        drawn = FeSEM(centres=3).far_apart(uploads, generator("far", seed))

        assert {t["head.weight"].item() for t in drawn} == {0.0, 10.0, -7.0}


def test_b_equal_models_have_equal_centres() -> None:
    new = after({k: sent(3.0) for k in "ab"}, Server({}))

    assert set(belongs(new).values()) == {0}
    assert centres(new) == [3.0, 3.0]


def test_b_centres_that_there_are_stay_where_they_are() -> None:
    assert centres(after({"a": sent(4.0)})) == [4.0, 10.0]


# (c) and (d) one step of each kind ----------------------------------------------------------------------


def test_c_and_d_each_belongs_to_the_nearest_and_the_centre_is_the_mean_of_its_members_by_hand() -> None:
    """Centres 0 and 10: 9 and 8 belong to 10, whose mean is 8.5; 1 belongs to 0; examples do not count.
    (e)  (1 · 1 + 2 · 8.5) / 3 = 6.
    """
    new = after({"a": sent(9.0, 5), "b": sent(1.0), "c": sent(8.0)})

    assert belongs(new) == {"a": 1, "b": 0, "c": 1}
    assert centres(new) == [1.0, 8.5]
    assert new.shared["head.weight"].item() == 6.0


def test_d_members_may_weigh_by_examples() -> None:
    """(3 · 9 + 1 · 5) / 4 = 8 near 10."""
    uploads = {"a": sent(9.0, 3), "b": sent(5.5)}

    assert centres(after(uploads, weights="examples")) == [0.0, (3 * 9 + 5.5) / 4]
    assert centres(after(uploads)) == [0.0, (9 + 5.5) / 2]


def test_d_who_was_not_heard_stays_and_a_centre_without_members_stays() -> None:
    new = after({"a": sent(2.0)}, Server({}, TWO, {"z": {"centre": torch.tensor(1)}}))

    assert belongs(new) == {"a": 0, "z": 1}
    assert centres(new) == [2.0, 10.0]
    assert new.shared["head.weight"].item() == 6.0, "both have one member"


def test_c_who_comes_nearer_to_another_moves_there() -> None:
    new = after({"a": sent(9.0)}, Server({}, TWO, {"a": {"centre": torch.tensor(0)}}))

    assert belongs(new) == {"a": 1}


def test_c_the_distance_may_be_of_one_part() -> None:
    """The encoder says centre 0, the head centre 1; over both the encoder wins, 1 + 64 < 81 + 4."""
    memory = {
        "centre0/encoder.weight": torch.tensor([0.0]), "centre0/head.weight": torch.tensor([0.0]),
        "centre1/encoder.weight": torch.tensor([10.0]), "centre1/head.weight": torch.tensor([10.0]),
    }  # fmt: skip
    upload = {"a": Upload({"encoder.weight": torch.tensor([1.0]), "head.weight": torch.tensor([8.0])}, 1)}

    found = [
        belongs(after(upload, Server({}, memory), nearest_by=by))["a"]
        for by in ((), ("encoder",), ("head",), ("encoder", "head"))
    ]

    assert found == [0, 0, 1, 0]


def test_c_a_part_there_is_not_is_said() -> None:
    with pytest.raises(ModelError, match="FeSEM needs the part"):
        place(FeSEM(nearest_by=("tail",))).built("c0")


def test_c_running_statistics_do_not_count_in_a_distance_and_are_averaged() -> None:
    """By all numbers 8 is nearer to 10, by the weight alone 1 is nearer to 0."""
    memory = {
        "centre0/w": torch.tensor([0.0]), "centre0/mean": torch.tensor([0.0]),
        "centre1/w": torch.tensor([10.0]), "centre1/mean": torch.tensor([10.0]),
    }  # fmt: skip
    tensors = {"w": torch.tensor([1.0]), "mean": torch.tensor([30.0])}

    new = after({"a": Upload(tensors, 1, frozenset({"mean"}))}, Server({}, memory))

    assert belongs(new) == {"a": 0}
    assert new.memory["centre0/mean"].item() == 30.0
    assert belongs(after({"a": Upload(tensors, 1)}, Server({}, memory))) == {"a": 1}


def test_both_steps_never_increase_the_objective() -> None:
    """C22-L2: Σ_k min_r (w_k - c_r)², with the w_k held, over six rounds of both steps."""
    w = {k: sent(v) for k, v in zip("abcdefg", (0.0, 1.0, 3.5, 5.2, 6.0, 9.0, 11.0), strict=True)}
    server = Server(
        {}, {"centre0/head.weight": torch.tensor([5.0]), "centre1/head.weight": torch.tensor([5.5])}
    )
    objectives = []
    for _ in range(6):
        objectives.append(
            sum(min((u.tensors["head.weight"].item() - c) ** 2 for c in centres(server)) for u in w.values())
        )
        server = after(w, server)

    assert objectives == sorted(objectives, reverse=True)
    assert objectives[1] < objectives[0]


def test_permuted_centres_permute_labels_only() -> None:
    """C22-L3."""
    uploads = {"a": sent(9.0), "b": sent(1.0), "c": sent(8.0)}
    swapped = {"centre0/head.weight": torch.tensor([10.0]), "centre1/head.weight": torch.tensor([0.0])}

    one, two = after(uploads), after(uploads, Server({}, swapped))

    assert belongs(two) == {k: 1 - r for k, r in belongs(one).items()}
    assert centres(two) == centres(one)[::-1]
    assert digest(one.shared) == digest(two.shared)


def test_everybody_belongs_to_the_nearest_of_the_centres_before() -> None:
    """C22-L5, on the toy network: of all centres the squared distance of what was sent is least."""
    at = place(FeSEM())
    for then, now in pairwise(ROUNDS):
        there = [within(f"centre{r}", then.server.memory) for r in (0, 1)]
        for k in now.heard:
            message = FeSEM().message(then.server, k, now.stage or ROUND)
            w = at.take(Turn(1, now.stage or ROUND, k, message, 0, {})).tensors or {}
            distances = [square_distance(w, centre) for centre in there]
            assert int(now.server.of[k]["centre"]) == distances.index(min(distances)) == nearest(w, there)


def test_a_stable_centre_is_fedavg_among_its_members() -> None:
    """C22-L6, to the bit: from the centre, a round of those members alone with equal weights."""
    rounds = history(place(FeSEM()), number=5, join=EVERYBODY)
    compared = 0
    for then, now in pairwise(rounds):
        for r in (0, 1):
            members = [k for k in PEOPLE if int(now.server.of[k]["centre"]) == r]
            stable = members == [k for k in PEOPLE if int(then.server.of[k]["centre"]) == r]
            if members and stable:
                compared += 1
                centre = within(f"centre{r}", then.server.memory)
                at = place(Uniform())
                alone = [
                    at.take(Turn(1, now.stage or ROUND, k, centre, 0, {})).tensors or {} for k in members
                ]
                assert digest(within(f"centre{r}", now.server.memory)) == digest(
                    average(alone, [1] * len(alone))
                )
    assert compared


@pytest.mark.parametrize("weigh", ["uniform", "examples"])
def test_one_centre_is_fedavg(weigh: Any) -> None:
    """C22-L1, to the bit."""
    fedavg = Uniform() if weigh == "uniform" else FedAvg()

    one, other = history(place(FeSEM(centres=1, weights=weigh))), history(place(fedavg))

    assert digest(one[-1].server.shared) == digest(other[-1].server.shared)


def test_as_many_centres_as_clients_is_local() -> None:
    """C22-L4, to the bit: a long first step apart makes each a centre; short steps keep each at its own."""
    training = Training(lr=0.3, batch=8, lr_at=((2, 0.001),))
    now = history(place(FeSEM(centres=6), training=training), number=3, join=EVERYBODY)[-1]
    local = history(place(Local(), training=training), number=3, join=EVERYBODY)[-1]

    assert sorted(belongs(now.server).values()) == list(range(6))
    for k, r in belongs(now.server).items():
        assert digest(within(f"centre{r}", now.server.memory)) == digest(local.held[k].kept)


# (e) and (f) who predicts -------------------------------------------------------------------------------


def test_e_everybody_trains_and_predicts_with_its_own_centre() -> None:
    server = ROUNDS[-1].server
    for stage in (ROUND, PERSONAL):
        for k in PEOPLE:
            its = within(f"centre{belongs(server)[k]}", server.memory) if k in server.of else server.shared
            assert digest(FeSEM().message(server, k, stage)) == digest(its)
    assert set(belongs(server).values()) == {0, 1}


def test_e_anybody_predicts_with_the_mean_of_centres() -> None:
    server = ROUNDS[-1].server
    client = seated(GENERIC, FeSEM().message(server, "c0", GENERIC))

    assert digest(client.tensors()) == digest(server.shared)
    for question in (FeSEM().generic, FeSEM().personal):
        (predict,) = question(client).values()
        assert predict is client.parts


def test_e_who_was_never_heard_gets_the_mean_of_centres() -> None:
    assert digest(FeSEM().message(after({"a": sent(9.0)}), "z", PERSONAL)) == digest(
        after({"a": sent(9.0)}).shared
    )


def test_f_a_newcomer_downloads_every_centre_and_takes_the_one_of_least_loss() -> None:
    server = ROUNDS[-1].server
    message = FeSEM().message(server, "new", WELCOME)
    there = [within(f"centre{r}", server.memory) for r in (0, 1)]
    taken = set()
    for k in PEOPLE:
        client = seated(WELCOME, message, k)
        losses = [loss_at(centre, client) for centre in there]
        best = losses.index(min(losses))
        taken.add(best)

        (predict,) = FeSEM().welcome(client, 0).values()

        assert digest(client.tensors()) == digest(there[best])
        assert predict is client.parts
    assert num_bytes(message) == 2 * BOTH
    assert taken == {0, 1}


def test_f_it_is_adapted_from_there_on() -> None:
    server = ROUNDS[-1].server
    client = seated(WELCOME, FeSEM().message(server, "new", WELCOME))
    FeSEM().welcome(client, 0)
    its = client.tensors()

    adapted = seated(WELCOME, FeSEM().message(server, "new", WELCOME))
    FeSEM().welcome(adapted, 2)

    by_hand = seated(WELCOME, its)
    by_hand.fit(epochs=2)
    assert digest(adapted.tensors()) == digest(by_hand.tensors()) != digest(its)


def test_f_before_any_centre_there_is_the_initial_network() -> None:
    initial = place(FeSEM()).built("c0").initial
    client = seated(WELCOME, FeSEM().message(Server(initial), "new", WELCOME))

    FeSEM().welcome(client, 0)

    assert digest(client.tensors()) == digest(initial)


def test_f_the_loss_at_a_centre_is_over_all_data_in_evaluation_mode() -> None:
    """200 examples in batches of 128 and 72; running statistics stay as they were."""
    first = PEOPLE["c0"]
    many = replace(first, train=first.train.take(torch.arange(200) % len(first.train)))
    at = place(FeSEM(), clients={"c0": many}, model=Net(norm=True))
    client = at.seat(Turn(1, WELCOME, "c0", {}, 0, {}))
    before = digest(dict(client.parts.named_buffers()))

    found = loss_at(client.tensors(), client)

    with torch.no_grad():
        total: Tensor = F.cross_entropy(client.parts.eval()(many.train.x), many.train.y, reduction="sum")
    assert found == pytest.approx(total.item(), rel=1e-5)
    assert digest(dict(client.parts.named_buffers())) == before


def test_one_centre_is_said() -> None:
    assert FeSEM(centres=1).dull() == ["centres = 1: with one centre this is FedAvg"]
