"""FedReG, by hand. Letters as in its file."""

import math
from collections import Counter, OrderedDict
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from contracts import Elsewhere, World
from one_weight import STEP, values, weights
from pluribus import spelling
from pluribus.client import Client
from pluribus.cohort import Join
from pluribus.engine import Round
from pluribus.errors import SettingError, UnknownName
from pluribus.examples import Examples
from pluribus.executors.scripted import Scripted
from pluribus.method import Server, Upload
from pluribus.methods import METHODS
from pluribus.methods.fedreg import FedReG
from pluribus.models import MODELS, ConvNet
from pluribus.readings.evaluate import evaluate, welcome
from pluribus.report.settings_table import settings_table
from pluribus.seeds import generator
from pluribus.stage import GENERIC, PERSONAL, WELCOME, Stage
from pluribus.state import Tensors, average, digest, num_scalars, of_parts, select, within
from pluribus.training import Training
from pluribus.turn import Place, Turn
from toy import CLASSES, FEATURES, PEOPLE, Net, Person, hashes, history, people, person, place
from worlds import NoHead, ThreeParts

WORLD = World()
QUICK = FedReG(original_epochs=1, rebalanced_epochs=1)  # the same lines, a fifth of the time
ROUND = Stage("round", 1, 1)
ROUGH = Training(lr=0.1, batch=8, momentum=0.9, weight_decay=0.01)
SIZES, THRESHOLD = Stage("sizes", 0, 1, everyone=True, send=False), Stage("threshold", 0, 1, reply=False)
NOTHING: Tensors = {}
LN3 = math.log(3)


def seated(
    at: Place,
    client: str = "c0",
    *,
    message: Tensors = NOTHING,
    kept: Tensors = NOTHING,
    stage: Stage = ROUND,
    number: int = 1,
) -> Client:
    return at.seat(Turn(number, stage, client, message, 0, kept))


def aware(t: float, **parts: Tensor) -> dict[str, Tensor]:
    """What a client keeps that was told this threshold."""
    return {"census/threshold": torch.tensor(t, dtype=torch.float64), **parts}


def labelled(*labels: int, t: float, **settings: Any) -> tuple[FedReG, Client]:
    """A client with these labels, told this threshold; inputs count 0, 6, 12, ... in their first column."""
    y = torch.tensor(labels)
    at = place(FedReG(**settings), clients={"c0": person("c0", (torch.arange(6.0 * len(y)).view(-1, 6), y))})
    return at.method, seated(at, kept=aware(t))


def pictures(seed: int, *labels: int, channels: int = 1) -> Examples:
    """A client's images of 8 x 8, no two of them alike."""
    size = (len(labels), channels, 8, 8)
    images = torch.randint(0, 256, size, generator=generator("pictures", seed), dtype=torch.uint8)
    return Examples(images, torch.tensor(labels), torch.arange(len(labels)), CLASSES)


def gallery(method: FedReG = QUICK, channels: int = 1, **changes: Any) -> Place:
    """Four clients with images: three classes; one class; one example; a class that nobody else has."""
    labels = ([0, 0, 0, 0, 0, 1, 2, 2], [1] * 5, [2], [3, 3, 0])
    data = {f"p{k}": pictures(k, *each, channels=channels) for k, each in enumerate(labels)}
    clients = {k: Person(k, k, d, d.take(torch.arange(0)), d) for k, d in data.items()}
    model = spelling.read("mlp:8", MODELS, "model")
    at = Place(method, clients, model, (channels, 8, 8), CLASSES, Training(lr=0.1, batch=4), 0, 0)
    return replace(at, **changes)


# an own head that says nothing ------------------------------------------------------------------------


@dataclass(frozen=True)
class DeepHead:
    """The toy network, with a head of two layers and something without weights behind them."""

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        network = Net().build(shape, classes)
        network.head = nn.Sequential(
            nn.Linear(FEATURES, 5), nn.ReLU(), nn.Linear(5, classes), nn.Hardtanh(-9, 9)
        )
        return network


@pytest.mark.parametrize("model", [Net(), DeepHead(), ThreeParts()])
def test_a_who_never_trained_predicts_what_everybody_predicts(model: Any) -> None:
    """5g.7: P = G to the bit, for who is told the threshold and was never selected."""
    client = seated(place(FedReG(), model=model), kept=aware(10))
    x = client.data.x

    (p,), (g,) = client_predicts(FedReG(), client, x), [client.parts(x)]

    assert torch.equal(p, g)
    assert not torch.equal(g, torch.zeros_like(g))


def client_predicts(method: FedReG, client: Client, x: Tensor) -> list[Tensor]:
    return [predict(x) for predict in method.personal(client).values()]


def test_a_only_the_last_layer_is_silent_so_that_those_before_can_learn() -> None:
    built = place(FedReG(), model=DeepHead()).built("c0").initial

    silent = {n for n, t in select(built, "head_personal").items() if not t.any()}

    assert silent == {"head_personal.2.weight", "head_personal.2.bias"}
    assert torch.equal(built["head_personal.0.weight"], built["head.0.weight"])
    assert built["head.2.weight"].any(), "the shared head is not silenced with it"


def test_a_it_may_begin_as_the_shared_head_did() -> None:
    built = place(FedReG(own_head="copy")).built("c0").initial

    own = {n.replace("head_personal", "head"): t for n, t in select(built, "head_personal").items()}
    assert digest(own) == digest(select(built, "head"))


def test_a_a_head_without_weights_is_left_as_it_is() -> None:
    assert history(place(QUICK, model=NoHead()), number=1, join=Join())[-1].heard == tuple(PEOPLE)


# the census -------------------------------------------------------------------------------------------


def test_b_everybody_says_its_size_and_is_told_the_mean() -> None:
    """Six clients have 45, 40, 35, 30, 25 and 20 examples: t = 195 / 6 = 32.5; eight bytes up, eight down."""
    sizes, told, first = history(place(QUICK), number=1)

    assert [now.stage.name for now in (sizes, told, first) if now.stage] == ["sizes", "threshold", "round"]
    assert [now.ends for now in (sizes, told, first)] == [False, True, True]
    assert sizes.heard == told.heard == tuple(PEOPLE)
    assert float(sizes.server.memory["census/threshold"]) == 32.5
    assert (set(sizes.down.values()), set(sizes.up.values())) == ({0}, {8})
    assert (set(told.down.values()), set(told.up.values())) == ({8}, {0})
    assert {float(told.held[k].kept["census/threshold"]) for k in PEOPLE} == {32.5}


@pytest.mark.parametrize("threshold", ["none", 7])
def test_b_where_no_statistic_is_asked_for_there_is_no_census(threshold: Any) -> None:
    plan = FedReG(threshold=threshold).plan(3, generator("plan"))

    assert [(stage.name, stage.round) for stage in plan] == [("round", 1), ("round", 2), ("round", 3)]


def absent(client: str, *, stages: int) -> Scripted:
    """A network on which a client does not answer the first so many turns of the stage `threshold`."""
    asked: Counter[str] = Counter()

    def fate(turn: Turn) -> Any:
        asked[turn.client] += turn.stage.name == "threshold"
        away = turn.client == client and turn.stage.name == "threshold" and asked[client] <= stages
        return "drop" if away else "ok"

    return Scripted(fate)


def test_b_who_misses_the_threshold_is_told_before_its_next_turn() -> None:
    """c1 is away for the three tries of the stage; eight bytes more when it comes back; no number differs."""
    usual = history(place(QUICK), number=2, join=Join())

    rounds = history(place(QUICK), number=2, join=Join(), executor=absent("c1", stages=3))

    assert "c1" not in rounds[1].heard
    assert rounds[2].down["c1"] == rounds[2].down["c0"] + 8
    assert hashes(rounds[-1]) == hashes(usual[-1])


@pytest.mark.parametrize(
    ("statistic", "sizes", "t"),
    [
        ("mean", [2, 1, 14, 3, 5], 5.0),
        ("median", [2, 1, 14, 3, 5], 3.0),
        ("max", [2, 1, 14, 3, 5], 14.0),
        ("sec-min", [2, 1, 14, 3, 5], 2.0),
        ("mean", [3, 4], 3.5),
        ("median", [9, 1, 2, 4], 3.0),
        ("sec-min", [4, 7, 4], 4.0),
        ("sec-min", [6], 6.0),
    ],
)
def test_c_each_statistic_of_the_sizes(statistic: Any, sizes: list[int], t: float) -> None:
    """In order: 25 / 5; 1, 2, [3], 5, 14; the largest; 1, [2], ...; 7 / 2; between 2 and 4; 4, [4]; alone."""
    uploads = {str(k): Upload({"census/size": torch.tensor(n)}, 99) for k, n in enumerate(sizes)}

    server = FedReG(threshold=statistic).aggregate(
        Server({"head.w": torch.zeros(1)}), uploads, SIZES, generator("aggregate")
    )

    assert float(server.memory["census/threshold"]) == t
    assert list(server.shared) == ["head.w"]


@given(sizes=st.lists(st.integers(1, 10**6), min_size=2, max_size=30))
def test_c_no_statistic_leaves_the_range_of_the_sizes(sizes: list[int]) -> None:
    """5g.10: average ≤ max; sec-min ≥ min."""
    uploads = {str(k): Upload({"census/size": torch.tensor(n)}, 1) for k, n in enumerate(sizes)}

    t = {
        name: float(
            FedReG(threshold=name)  # type: ignore[arg-type]
            .aggregate(Server({}), uploads, SIZES, generator("aggregate"))
            .memory["census/threshold"]
        )
        for name in ("mean", "median", "max", "sec-min")
    }

    assert min(sizes) <= t["sec-min"] <= t["max"] == max(sizes)
    assert min(sizes) <= t["mean"] <= t["max"]
    assert min(sizes) <= t["median"] <= t["max"]
    assert t["sec-min"] == sorted(sizes)[1]


# rebalanced data --------------------------------------------------------------------------------------


def first_columns(data: Examples) -> list[int]:
    """Which of a labelled client's examples these are."""
    return sorted(int(x) // 6 for x in data.x[:, 0])


def test_d_the_rebalanced_data_by_hand() -> None:
    """t = 7.9 and classes 0 and 2: ⌊7.9 / 2⌋ = 3 of each.  Of class 0 three originals of five; of class 2,
    with one example, that and two copies; E = 3 + 1 = 4 of 6 are no copies, D = 6.
    """
    method, client = labelled(0, 0, 2, 0, 0, 0, t=7.9)
    originals, copied = drawn = method.drawn(client)

    data = method.rebalanced(client, *drawn, 0)

    assert data.counts.tolist() == [3, 0, 3, 0]
    assert len(set(originals.tolist())) == len(originals) == 4
    assert copied.tolist() == [2, 2]
    assert Counter(first_columns(data))[2] == 3
    assert method.sizes(client, *drawn).tolist() == [6, 4]


LABELS = st.lists(st.integers(0, CLASSES - 1), min_size=1, max_size=30)


@given(labels=LABELS, t=st.floats(0.1, 60))
def test_d_the_laws_of_rebalanced_data(labels: list[int], t: float) -> None:
    """5g.2 and 5g.5: |r| = i · t_c, t_c of each class there is and no other; originals at most once;
    E = Σ min(n, t_c) ≤ min(D, i t_c).
    """
    method, client = labelled(*labels, t=t)
    counts = Counter(labels)
    each = max(1, math.floor(t / len(counts)))

    originals, copied = drawn = method.drawn(client)
    data = method.rebalanced(client, *drawn, 0)

    assert Counter(data.y.tolist()) == dict.fromkeys(counts, each)
    assert len(originals) == sum(min(n, each) for n in counts.values()) <= min(len(labels), len(data))
    assert len(data) == len(originals) + len(copied) == len(counts) * each
    assert len(set(originals.tolist())) == len(originals)
    assert set(copied.tolist()) <= set(range(len(labels)))
    assert {labels[i] for i in copied.tolist()} == {c for c, n in counts.items() if n < each}


@given(labels=st.permutations([0, 0, 0, 1, 1, 1, 3, 3, 3]))
def test_d_a_balanced_client_has_its_own_data(labels: list[int]) -> None:
    """5g.1: t = i n, so r is d as a multiset, E = D, and nothing is a copy."""
    method, client = labelled(*labels, t=9)

    originals, copied = drawn = method.drawn(client)

    assert first_columns(method.rebalanced(client, *drawn, 0)) == list(range(9))
    assert (len(originals), len(copied)) == (9, 0)


@given(labels=LABELS, more=st.floats(0, 5))
def test_d_a_threshold_above_all_counts_keeps_every_original(labels: list[int], more: float) -> None:
    """5g.3: t_c ≥ max n, so E = D."""
    counts = Counter(labels)
    method, client = labelled(*labels, t=len(counts) * max(counts.values()) + more)

    originals, copied = method.drawn(client)

    assert sorted(originals.tolist()) == list(range(len(labels)))
    assert method.sizes(client, originals, copied).tolist() == [len(labels)] * 2


@given(labels=LABELS, portion=st.floats(0, 1))
def test_d_a_threshold_below_all_counts_copies_nothing(labels: list[int], portion: float) -> None:
    """5g.4: t_c ≤ min n, so E = i · t_c and r is balanced without a copy."""
    counts = Counter(labels)
    each = max(1, math.floor(portion * min(counts.values())))
    method, client = labelled(*labels, t=each * len(counts))

    originals, copied = drawn = method.drawn(client)

    assert len(copied) == 0
    assert len(originals) == each * len(counts)
    assert Counter(method.rebalanced(client, *drawn, 0).y.tolist()) == dict.fromkeys(counts, each)


@pytest.mark.parametrize(("n", "t", "size", "effective"), [(5, 3.9, 3, 3), (2, 4.5, 4, 2), (1, 1.0, 1, 1)])
def test_d_a_client_with_one_class_has_the_whole_threshold_of_it(
    n: int, t: float, size: int, effective: int
) -> None:
    """5g.10: t_c = ⌊t⌋, E = min(n, t_c)."""
    method, client = labelled(*[2] * n, t=t)

    originals, copied = method.drawn(client)

    assert (len(originals), len(originals) + len(copied)) == (effective, size)


def test_d_a_number_is_a_threshold_too() -> None:
    """t = 4 over two classes, though another was kept."""
    method, client = labelled(0, 0, 0, 1, t=100, threshold=4)

    assert [len(rows) for rows in method.drawn(client)] == [3, 1]


def test_d_which_originals_is_drawn_and_not_simply_the_first() -> None:
    method, client = labelled(*[0] * 30, t=10)

    originals, _ = method.drawn(client)

    assert sorted(originals.tolist()) != list(range(10))
    assert originals.max() > 19


def test_d_which_are_copied_is_drawn_among_all_of_the_class() -> None:
    method, client = labelled(1, *[0] * 9, t=2000)

    _, copied = method.drawn(client)

    tally = Counter(copied.tolist())
    assert tally[0] == 999
    assert all(70 < tally[i] < 155 for i in range(1, 10)), "991 copies of nine: about 110 each"


def test_d_clients_draw_apart_and_each_always_the_same() -> None:
    """In every round and stage; another seed draws anew."""
    data = PEOPLE["c0"].train
    twins = {k: Person(k, k, data, data, data) for k in ("a", "b")}
    at = place(FedReG(), clients=twins)

    def drawn(client: str, number: int = 1, seed: int = 0) -> list[list[int]]:
        where = replace(at, seed=seed)
        stage = Stage("round", number, 9)
        found = where.method.drawn(seated(where, client, kept=aware(20), stage=stage))  # type: ignore[attr-defined]
        return [rows.tolist() for rows in found]

    assert drawn("a") == drawn("a", number=5)
    assert drawn("a") != drawn("b")
    assert drawn("a") != drawn("a", seed=1)


# copies -----------------------------------------------------------------------------------------------


def images_of(
    method: FedReG, *, number: int = 1, epoch: int = 0, channels: int = 1
) -> tuple[Tensor, Tensor, Examples]:
    """Of p0, told t = 18 (six of each of its three classes): what is drawn, and r as images."""
    at = gallery(method, channels)
    client = seated(at, "p0", kept=aware(18), stage=Stage("round", number, 9))
    drawn = method.drawn(client)
    return *drawn, method.rebalanced(client, *drawn, epoch)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("augmentation", ["simple", "auto", "auto:svhn", "auto:imagenet"])
def test_d_copies_are_changed_images_and_originals_are_not(augmentation: str, channels: int) -> None:
    originals, copied, data = images_of(FedReG(augmentation=augmentation), channels=channels)
    images = gallery(channels=channels).clients["p0"].train.inputs

    assert (len(originals), len(copied)) == (5 + 1 + 2, 1 + 5 + 4)
    assert data.inputs.dtype == torch.uint8
    assert torch.equal(data.inputs[: len(originals)], images[originals])
    differs = (data.inputs[len(originals) :] != images[copied]).flatten(1).any(1)
    assert differs.sum() >= len(copied) - 3, "a policy may leave an image as it is, now and then"


def test_d_copies_of_one_image_differ() -> None:
    originals, copied, data = images_of(FedReG())

    copies = data.inputs[len(originals) :][copied == 5]

    assert len(copies) == 5
    assert len({str(image.tolist()) for image in copies}) == 5


def test_d_copies_are_the_same_in_every_round_and_epoch() -> None:
    *_, one = images_of(FedReG())
    *_, two = images_of(FedReG(), number=4, epoch=3)

    assert torch.equal(one.inputs, two.inputs)


def test_d_or_they_are_changed_anew_in_every_epoch() -> None:
    """Which are copied stays; only what becomes of them differs, between epochs and between rounds."""
    method = FedReG(redraw=True)
    drawn = {(n, e): images_of(method, number=n, epoch=e) for n, e in ((1, 0), (1, 1), (2, 0), (1, 0))}
    first = drawn[1, 0]

    for key in ((1, 1), (2, 0)):
        assert torch.equal(drawn[key][1], first[1])
        assert torch.equal(drawn[key][2].inputs[: len(first[0])], first[2].inputs[: len(first[0])])
        assert not torch.equal(drawn[key][2].inputs, first[2].inputs)
    assert torch.equal(images_of(method)[2].inputs, first[2].inputs)


def test_d_without_an_augmentation_copies_equal_their_originals() -> None:
    originals, copied, data = images_of(FedReG(augmentation="none"))

    images = gallery().clients["p0"].train.inputs
    assert torch.equal(data.inputs, images[torch.cat([originals, copied])])


def test_d_what_is_no_image_is_copied_as_it_is() -> None:
    """The toy's vectors, with the usual augmentation."""
    method, client = labelled(0, 0, 2, t=8)
    drawn = method.drawn(client)

    data = method.rebalanced(client, *drawn, 0)

    assert torch.equal(data.x, client.data.batch(torch.cat(drawn))[0])


def test_every_epoch_trains_on_what_was_made_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made once and used five times, or made five times and each used once."""
    for redraw, made in ((False, [0]), (True, [0, 1, 2])):
        asked, trained = [], []
        method = FedReG(original_epochs=0, rebalanced_epochs=3, redraw=redraw)
        make, batches = FedReG.rebalanced, Client.batches

        def rebalanced(self: Any, client: Client, one: Tensor, two: Tensor, epoch: int) -> Examples:
            asked.append(epoch)  # noqa: B023
            return make(self, client, one, two, epoch)  # noqa: B023

        def watched(self: Any, *args: Any, on: Any = None, **more: Any) -> Any:
            trained.append(id(on.inputs))  # noqa: B023
            return batches(self, *args, on=on, **more)  # noqa: B023

        with monkeypatch.context() as patch:
            patch.setattr(FedReG, "rebalanced", rebalanced)
            patch.setattr(Client, "batches", watched)
            method.learn(seated(gallery(method), "p0", kept=aware(18)))

        assert asked == made
        assert len(trained) == 3
        assert len(set(trained)) == len(made)


# two phases -------------------------------------------------------------------------------------------


class Odds(nn.Module):
    """Logits (0, v z) of two classes: their odds are exp(v z)."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, dtype=torch.float64))

    def forward(self, z: Tensor) -> Tensor:
        return torch.cat([torch.zeros_like(z), self.weight * z], 1)


class Gain(Odds):
    """Its input times u."""

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x


@dataclass(frozen=True)
class Scales:
    """u, then v: the logit of class 1 is v u x."""

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return nn.Sequential(OrderedDict(encoder=Gain(), head=Odds()))


def turn_of_scales(
    method: FedReG, *, training: Training = STEP, own: float = -LN3
) -> tuple[dict[str, float], Any]:
    """One client with x = 1 and labels 1, 0, 0, 0, told t = 2; u = 1 and v = 2 ln 3 received, w its own."""
    x, y = torch.ones(4, 1, dtype=torch.float64), torch.tensor([1, 0, 0, 0])
    data = Examples(x, y, torch.arange(4), 2)
    at = Place(method, {"a": Person("a", "a", data, data, data)}, Scales(), (1,), 2, training, 0, 0)
    kept = aware(2, **({} if method.own_head == "none" else weights(head_personal=own)))
    outcome = at.take(Turn(1, ROUND, "a", weights(encoder=1.0, head=2 * LN3), 0, kept))
    sent = outcome.tensors or {}
    parts = values({**of_parts(sent), **of_parts(outcome.kept)})
    return parts, sent["census/sizes"].tolist()


def sigmoid(o: float) -> float:
    return 1 / (1 + math.exp(-o))


def test_e_f_each_phase_takes_its_step_by_hand() -> None:
    """
    Of a logit o, with p = σ(o), the slope of the loss is p - 1/4 on d (one of four is of class 1) and
    p - 1/2 on r (one of each).  η = 0.1; u = 1, v = 2 ln 3, w = -ln 3.
    (e)  o = u (v + w) = ln 3, p = 3/4:   u: 1 - 0.1 · 1/2 · (v + w) = 1 - 0.05 ln 3
                                          w: -ln 3 - 0.1 · 1/2 · 1
    (f)  o = u v:   u: u - 0.1 (p - 1/2) v;   v: v - 0.1 (p - 1/2) u
    """
    u, v, w = 1 - 0.05 * LN3, 2 * LN3, -LN3 - 0.05
    slope = 0.1 * (sigmoid(u * v) - 1 / 2)

    parts, sizes = turn_of_scales(QUICK)

    assert parts == pytest.approx(
        {"encoder": u - slope * v, "head": v - slope * u, "head_personal": w}, abs=1e-12
    )
    assert sizes == [4, 2]


def test_e_a_phase_keeps_its_momentum_over_its_epochs_and_begins_without() -> None:
    """Two epochs of one step each: m = g, then m = 0.9 m + g; (f) begins anew."""
    u, v, w, mu, mw = 1.0, 2 * LN3, -LN3, 0.0, 0.0
    for _ in range(2):
        slope = sigmoid(u * (v + w)) - 1 / 4
        mu, mw = 0.9 * mu + slope * (v + w), 0.9 * mw + slope * u
        u, w = u - 0.1 * mu, w - 0.1 * mw
    mu = mv = 0.0
    for _ in range(2):
        slope = sigmoid(u * v) - 1 / 2
        mu, mv = 0.9 * mu + slope * v, 0.9 * mv + slope * u
        u, v = u - 0.1 * mu, v - 0.1 * mv

    parts, _ = turn_of_scales(
        FedReG(original_epochs=2, rebalanced_epochs=2), training=replace(STEP, momentum=0.9)
    )

    assert parts == pytest.approx({"encoder": u, "head": v, "head_personal": w}, abs=1e-12)


def test_e_f_in_turns_each_phase_goes_on_with_its_own_momentum() -> None:
    """(e), (f), (e): three epochs, the second of (e) with what (e) had before (f)."""
    u, v, w = 1.0, 2 * LN3, -LN3
    moments = {"e": [0.0, 0.0], "f": [0.0, 0.0]}
    for phase in "efe":
        own = phase == "e"
        slope = sigmoid(u * (v + own * w)) - (1 / 4 if own else 1 / 2)
        old = moments[phase]
        moments[phase] = [0.9 * old[0] + slope * (v + own * w), 0.9 * old[1] + slope * u]
        u -= 0.1 * moments[phase][0]
        v, w = v - 0.1 * moments["f"][1] * (not own), w - 0.1 * moments["e"][1] * own

    method = FedReG(original_epochs=2, rebalanced_epochs=1, interleaved=True)
    parts, _ = turn_of_scales(method, training=replace(STEP, momentum=0.9))

    assert parts == pytest.approx({"encoder": u, "head": v, "head_personal": w}, abs=1e-12)


def test_moments_are_kept_over_rounds_where_the_experiment_says_so() -> None:
    training = replace(STEP, momentum=0.9, keep_moments=True)

    held = history(place(QUICK, training=training), number=1, join=Join())[-1].held["c0"].kept

    phases = {n.split("/")[1] for n in held if n.startswith("moments/")}
    assert phases == {"original", "rebalanced"}


def trained(method: FedReG, message: Tensors = NOTHING, kept: Tensors = NOTHING) -> dict[str, Tensor]:
    """c0's parts after a turn, told t = 20, that began with these."""
    at = place(method, training=ROUGH)
    turn = Turn(1, ROUND, "c0", {**select(at.built("c0").initial, "encoder", "head"), **message}, 0,
                aware(20, **kept), watch=True)  # fmt: skip
    return dict(at.take(turn).trained or {})


HEAD_ZERO = {"head.weight": torch.zeros(CLASSES, FEATURES), "head.bias": torch.zeros(CLASSES)}


def test_e_own_data_move_encoder_and_own_head_and_the_shared_head_matters() -> None:
    """5g.6: not a bit of HeadG moves, with momentum and weight decay; yet another HeadG, another step."""
    method = FedReG(original_epochs=2, rebalanced_epochs=0)
    initial = place(method).built("c0").initial

    one, two = trained(method), trained(method, message=HEAD_ZERO)

    moved = {n.partition(".")[0] for n, t in one.items() if not torch.equal(t, initial[n])}
    assert moved == {"encoder", "head_personal"}
    assert all(torch.equal(one[n], t) for n, t in select(initial, "head").items())
    assert not torch.allclose(one["encoder.first.weight"], two["encoder.first.weight"], atol=1e-3)


def test_f_rebalanced_data_move_encoder_and_shared_head_alone() -> None:
    """5g.6: not a bit of HeadP moves, and it does not matter what it is."""
    method = FedReG(original_epochs=0, rebalanced_epochs=2)
    initial = place(method).built("c0").initial
    own = {n: torch.ones_like(t) for n, t in select(initial, "head_personal").items()}

    one, two = trained(method), trained(method, kept=own)

    moved = {n.partition(".")[0] for n, t in one.items() if not torch.equal(t, initial[n])}
    assert moved == {"encoder", "head"}
    assert all(torch.equal(two[n], t) for n, t in own.items())
    assert digest(select(one, "encoder", "head")) == digest(select(two, "encoder", "head"))


def test_e_with_a_silent_shared_head_it_is_ordinary_training() -> None:
    """5g.7: HeadG ≡ 0, so encoder and own head go where plain SGD takes them."""
    at = place(FedReG(own_head="copy"), training=ROUGH)
    network, data = at.build(Net()).parts, PEOPLE["c0"].train

    own = trained(FedReG(original_epochs=2, rebalanced_epochs=0, own_head="copy"), message=HEAD_ZERO)

    params = [*network.encoder.parameters(), *network.head_personal.parameters()]
    optimiser = torch.optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=0.01)
    for e in range(2):
        for rows in order("c0", f"original {e}", len(data)):
            loss = F.cross_entropy(network.head_personal(network.encoder(data.x[rows])), data.y[rows])
            descend(optimiser, params, loss)
    for name, t in select(network.state_dict(), "encoder", "head_personal").items():
        assert torch.allclose(own[name], t, atol=1e-6), name


def order(client: str, phase: str, examples: int, number: int = 1) -> tuple[Tensor, ...]:
    """The minibatches of this client in this round and phase."""
    return torch.split(torch.randperm(examples, generator=generator(0, "round", number, client, phase)), 8)


def descend(optimiser: torch.optim.Optimizer, params: list[nn.Parameter], loss: Tensor) -> None:
    for p, g in zip(params, torch.autograd.grad(loss, params), strict=True):
        p.grad = g
    optimiser.step()


def test_what_one_head_gains_the_other_may_lose() -> None:
    """5g.7: Δ onto HeadG and off HeadP changes neither the loss of (e) nor P; only G."""
    at = place(FedReG(own_head="copy"))
    initial, data = at.built("c0").initial, PEOPLE["c0"].train
    delta = {n: torch.randn(t.shape, generator=generator(n)) for n, t in select(initial, "head").items()}
    message = {n: initial[n] + t for n, t in delta.items()}
    kept = {n.replace("head", "head_personal"): initial[n] - t for n, t in delta.items()}

    seen = []
    for client in (at_first := seated(at)), seated(replace(at, networks={}), message=message, kept=kept):
        logits = client_predicts(FedReG(), client, data.x)[0].detach()
        seen.append((logits, float(F.cross_entropy(logits, data.y)), client.parts(data.x).detach()))

    (p, loss, g), (p_too, loss_too, g_too) = seen
    assert at_first.data is data
    assert torch.allclose(p, p_too, atol=1e-5)
    assert loss == pytest.approx(loss_too, abs=1e-5)
    assert not torch.allclose(g, g_too, atol=0.1)


# the server -------------------------------------------------------------------------------------------


def sent(encoder: float, head: float, sizes: list[int]) -> Upload:
    return Upload({**weights(encoder=encoder, head=head), "census/sizes": torch.tensor(sizes)}, 99)


def test_g_h_each_part_is_weighed_by_its_own_size() -> None:
    """φ: (1 · 0 + 3 · 4) / 4 = 3;  h: (3 · 0 + 1 · 4) / 4 = 1.  What the server remembers stays."""
    before = Server(weights(encoder=7.0, head=7.0), aware(5))

    server = FedReG().aggregate(
        before, {"a": sent(0, 0, [1, 3]), "b": sent(4, 4, [3, 1])}, ROUND, generator("aggregate")
    )

    assert values(server.shared) == {"encoder": 3.0, "head": 1.0}
    assert dict(server.memory) == dict(before.memory)


def test_g_h_both_weight_vectors_sum_to_one_and_equal_sizes_are_plain_means() -> None:
    """5g.9: what all send alike is what comes out; and (0.1 + 0.4 + 1) / 3 = 0.5."""
    uploads = {str(n): sent(0.1, -0.7, [n, 2 * n + 1]) for n in (3, 7, 11)}
    equal = {str(v): sent(v, -v, [5, 4]) for v in (0.1, 0.4, 1.0)}
    before = Server(weights(encoder=7.0, head=7.0))

    same, mean = (
        FedReG().aggregate(before, each, ROUND, generator("aggregate")) for each in (uploads, equal)
    )

    assert values(same.shared) == pytest.approx({"encoder": 0.1, "head": -0.7}, abs=1e-15)
    assert values(mean.shared) == pytest.approx({"encoder": 0.5, "head": -0.5}, abs=1e-15)


@pytest.mark.parametrize(
    ("head_weight", "sizes"),
    [("effective-size", [6, 4]), ("rebalanced-size", [6, 6]), ("original-size", [6, 6])],
)
def test_h_by_what_the_head_weighs(head_weight: Any, sizes: list[int]) -> None:
    """Six examples, four of them in r, which has six; with t = 5 two of each class, one of them a copy."""
    method, client = labelled(0, 0, 2, 0, 0, 0, t=7.9, head_weight=head_weight)
    smaller, other = labelled(0, 0, 2, 0, 0, 0, t=5, head_weight=head_weight)

    assert method.sizes(client, *method.drawn(client)).tolist() == sizes
    last = {"effective-size": 3, "rebalanced-size": 4, "original-size": 6}[head_weight]
    assert smaller.sizes(other, *smaller.drawn(other)).tolist() == [6, last]


def run(method: FedReG, **changes: Any) -> list[Round]:
    return history(place(method, **changes), number=3)


def test_where_nothing_is_left_out_the_aggregation_is_fedavgs_and_variant_a_the_same() -> None:
    """5g.3 and B, to the bit: t above everybody's i · max n, so E = D."""
    method = replace(QUICK, threshold=1000)
    watched = history(place(method), number=3, watch=1)

    for one, a in zip(watched, run(replace(method, head_weight="original-size")), strict=True):
        assert digest(one.server.shared) == digest(a.server.shared)
        models = [select(one.trained[k], "encoder", "head") for k in one.heard]
        mean = average(models, [len(PEOPLE[k].train) for k in one.heard])
        assert digest(one.server.shared) == digest(mean)
    usual = run(QUICK)[-1].server.shared
    assert digest(usual) != digest(run(replace(QUICK, head_weight="original-size"))[-1].server.shared)


# variants ---------------------------------------------------------------------------------------------


def by_plain_sgd(client: str, own_epochs: int, more_epochs: int, *, alone: bool) -> nn.Module:
    """Encoder and HeadP (or, alone, the head), then encoder and head, all on the client's own data."""
    network, data = place(FedReG(own_head="copy"), training=ROUGH).build(Net()).parts, PEOPLE[client].train
    for p in network.head_personal.parameters():
        nn.init.zeros_(p)
    for phase, epochs in (("original", own_epochs), ("rebalanced", more_epochs)):
        own = phase == "original" and not alone
        params = [
            *network.encoder.parameters(),
            *(network.head_personal if own else network.head).parameters(),
        ]
        optimiser = torch.optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=0.01)
        for e in range(epochs):
            for rows in order(client, f"{phase} {e}", len(data)):
                z = network.encoder(data.x[rows])
                logits = network.head(z) + network.head_personal(z) if own else network.head(z)
                descend(optimiser, params, F.cross_entropy(logits, data.y[rows]))
    return network


@pytest.mark.parametrize(("own_head", "alone"), [("zeros", False), ("none", True)])
def test_c_without_rebalanced_data_both_phases_are_on_ones_own(own_head: Any, alone: bool) -> None:
    """5g.11, variant c; and with b besides, one network that learns from its data twice."""
    method = FedReG(original_epochs=2, rebalanced_epochs=3, threshold="none", own_head=own_head)
    at = place(method, training=ROUGH)

    outcome = at.take(Turn(1, ROUND, "c3", select(at.built("c3").initial, "encoder", "head"), 0, {}))

    network, found = by_plain_sgd("c3", 2, 3, alone=alone), {**(outcome.tensors or {}), **outcome.kept}
    assert found["census/sizes"].tolist() == [30, 30]
    for name, t in network.state_dict().items():
        assert name not in found or torch.allclose(found[name], t, atol=1e-5), name
    assert ("head_personal.weight" in found) is not alone


def test_b_of_one_head_p_is_g_and_nothing_personal_is_kept() -> None:
    at = place(replace(QUICK, own_head="none"), newcomers=people(1))
    now = history(at, number=3)[-1]

    readings = evaluate(at, now)

    assert {n for held in now.held.values() for n in held.kept} == {"census/threshold"}
    assert readings.scores["personal/network"] == readings.scores["generic/network"]
    assert welcome(at, now, epochs=2).accuracy("adapted") is not None


def test_d_without_own_data_the_shared_model_knows_nothing_of_own_heads_and_p_is_g() -> None:
    """5g.11, variant d, to the bit: however own heads begin."""
    method = FedReG(original_epochs=0, rebalanced_epochs=2)
    one, two = run(method), run(replace(method, own_head="copy"))
    at = place(method)

    readings = evaluate(at, one[-1])

    assert [digest(now.server.shared) for now in one] == [digest(now.server.shared) for now in two]
    assert readings.scores["personal/both heads"] == readings.scores["generic/network"]


def test_what_makes_it_another_method_is_said() -> None:
    dull = FedReG(
        original_epochs=0, rebalanced_epochs=0, threshold="none", head_weight="original-size", own_head="none"
    ).dull()

    assert dull == [
        "original_epochs = 0: the paper's variant d, h_k never learns",
        "rebalanced_epochs = 0: h never learns",
        "threshold = none: the paper's variant c, nothing is rebalanced",
        "head_weight = original-size: the paper's variant a, h weighs as φ does",
        "own_head = none: the paper's variant b, there is one head and P is G",
    ]


# readings ---------------------------------------------------------------------------------------------


def test_i_generic_is_the_shared_network_and_personal_the_sum_of_both_heads() -> None:
    """u = 2, v = 3, w = -4, x = 5: G says 30; P says 30 - 40 = -10, with u and v as received."""
    data = Examples(torch.full((1, 1), 5.0, dtype=torch.float64), torch.tensor([1]), torch.arange(1), 2)
    at = Place(FedReG(), {"a": Person("a", "a", data, data, data)}, Scales(), (1,), 2, STEP, 0, 0)
    server = Server(weights(encoder=2.0, head=3.0), aware(5))

    said = {}
    for stage, answer in ((GENERIC, FedReG().generic), (PERSONAL, FedReG().personal)):
        message = FedReG().message(server, "a", stage)
        client = at.seat(Turn(0, stage, "a", message, 0, weights(head_personal=-4.0)))
        ((name, predict),) = answer(client).items()
        said[name] = predict(data.x).tolist()
        assert message.keys() == server.shared.keys()

    assert said == {"network": [[0.0, 30.0]], "both heads": [[0.0, -10.0]]}


def test_a_newcomer_gets_the_shared_model_until_it_has_trained_a_head_of_its_own() -> None:
    """However own heads begin; adapting moves its own head and nothing else."""
    for own_head in ("zeros", "copy"):
        method = replace(QUICK, own_head=own_head)
        at = place(method, newcomers=people(2, 30))
        message = dict(history(at, number=2)[-1].server.shared)
        at = replace(at, networks={})

        fresh = seated(at, message=message, stage=WELCOME)
        zero_shot = method.welcome(fresh, 0)
        assert torch.equal(zero_shot["network"](fresh.data.x), fresh.parts(fresh.data.x))

        before = {n: t.clone() for n, t in fresh.parts.state_dict().items()}
        adapted = method.welcome(fresh, 2)
        moved = {
            n.partition(".")[0] for n, t in fresh.parts.state_dict().items() if not torch.equal(t, before[n])
        }
        assert list(adapted) == ["both heads"]
        assert moved == {"head_personal"}


@pytest.mark.parametrize("name", ["fedavg", "fedprox", "feddyn"])
def test_of_a_method_with_one_model_g_is_p_in_every_round(name: str) -> None:
    """5g.8: over the union of all test sets, every example counting the same."""
    at = place(METHODS[name]())
    for now in history(at, number=3):
        readings = evaluate(at, now)
        assert readings.accuracy("generic") == readings.accuracy("personal")


# what travels, and images -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "classes", "scalars"),
    [
        ((1, 28, 28), 10, 573_578),
        ((1, 28, 28), 47, 580_719),
        ((3, 32, 32), 10, 797_962),
        ((3, 32, 32), 100, 815_332),
    ],
)
@pytest.mark.parametrize("head_layers", [1, 3])
def test_the_network_travels_and_two_sizes(shape: Any, classes: int, scalars: int, head_layers: int) -> None:
    """5a and 5b: |base| + |HeadG| both ways and two whole numbers up, wherever the network is cut."""
    data = Examples(torch.zeros(2, *shape, dtype=torch.uint8), torch.arange(2), torch.arange(2), classes)
    clients = {"a": Person("a", "a", data, data, data)}
    at = Place(QUICK, clients, ConvNet(head_layers=head_layers), shape, classes, Training(lr=0.01), 0, 0)

    now = history(at, number=1, join=Join())[-1]

    assert num_scalars(now.server.shared) == scalars
    assert now.down == {"a": 4 * scalars}
    assert now.up == {"a": 4 * scalars + 2 * 8}


def test_a_run_on_images_is_the_same_elsewhere_and_finite_for_every_kind_of_client() -> None:
    """Three classes; one class; one example; a class nobody else has."""
    for method in (QUICK, replace(QUICK, redraw=True, augmentation="auto")):
        here = history(gallery(method), number=2, join=Join())
        there = history(gallery(method), number=2, join=Join(), executor=Elsewhere())

        assert [hashes(now) for now in here] == [hashes(now) for now in there]
        assert not any(now.refused for now in here)
        assert all(bool(torch.isfinite(t).all()) for t in here[-1].server.shared.values())
        assert set(evaluate(gallery(method), here[-1]).scores["personal/both heads"]) == {
            "p0",
            "p1",
            "p2",
            "p3",
        }


def test_copies_matter() -> None:
    one, two = (history(gallery(replace(QUICK, augmentation=a)), number=1) for a in ("simple", "none"))

    assert digest(one[-1].server.shared) != digest(two[-1].server.shared)


def test_who_was_not_asked_keeps_its_head() -> None:
    for before, now in pairwise(run(QUICK)):
        for client in PEOPLE.keys() - set(now.cohort):
            assert now.held.of(client) is before.held.of(client)


def test_running_statistics_move_in_both_phases_and_are_averaged_with_the_encoder() -> None:
    now = history(place(QUICK, model=Net(norm=True)), number=1, join=Join(), watch=1)[-1]

    name = "encoder.norm.running_mean"
    mean = average([{name: t[name]} for t in now.trained.values()], [len(PEOPLE[k].train) for k in now.heard])
    assert torch.allclose(now.server.shared[name], mean[name], atol=1e-7)
    assert within("census", now.held["c0"].kept).keys() == {"threshold"}


# settings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "threshold"),
    [("median", "median"), ("500", 500.0), ("12.5", 12.5), ("sec-min", "sec-min"), ("none", "none")],
)
def test_a_threshold_is_a_word_or_a_number(text: str, threshold: Any) -> None:
    assert spelling.read(f"fedreg:threshold={text}", METHODS, "method") == FedReG(threshold=threshold)


@pytest.mark.parametrize("wrong", ["average", "", True, None])
def test_a_threshold_that_is_neither_is_an_error(wrong: Any) -> None:
    with pytest.raises(SettingError, match="one of: 'mean', 'median', 'max', 'sec-min', 'none', or a number"):
        FedReG(threshold=wrong)


def test_a_wrong_setting_is_said_in_words() -> None:
    with pytest.raises(SettingError, match="one of mean, median, max, sec-min, none, or a number"):
        spelling.read("fedreg:threshold=average", METHODS, "method")
    with pytest.raises(SettingError, match="threshold is 0.5; it should be at least 1"):
        FedReG(threshold=0.5)
    with pytest.raises(UnknownName, match="no augmentation 'wild'"):
        FedReG(augmentation="wild")


def test_its_card_lists_the_words_and_that_a_number_will_do() -> None:
    (row,) = (row for row in settings_table(FedReG()).rows if row["name"] == "threshold")

    assert row["type"] == "mean | median | max | sec-min | none | float"
    assert (row["default"], row["limits"]) == ("mean", "at least 1")
