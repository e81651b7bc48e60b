"""pFedPM, by hand. Letters as in its file."""

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from contracts import EVERYBODY, Recording, World
from methods.test_fedproto import ROUND, Plain, having, models_of, plain_place, rows, seated
from pluribus.client import Client
from pluribus.engine import Round
from pluribus.errors import MethodError, SettingError
from pluribus.examples import Examples
from pluribus.method import Server, Upload
from pluribus.methods.fedproto import FedProto
from pluribus.methods.local import Local
from pluribus.methods.pfedpm import PFedPM, relation_loss
from pluribus.models.pfedpm_cnn import PFedPMCNN
from pluribus.readings.evaluate import evaluate
from pluribus.seeds import generator
from pluribus.side_networks import relate
from pluribus.stage import PERSONAL
from pluribus.state import Tensors, digest, of_parts, select, under, within
from pluribus.training import Training
from pluribus.turn import Place, Turn
from toy import CLASSES, FEATURES, PEOPLE, Net, Person, history, place

MOVES = frozenset(f"relation.1.{n}" for n in ("running_mean", "running_var", "num_batches_tracked"))
WORLD = World(averages=False, rounds=5, moves=MOVES, idle=frozenset({"relation.0.bias"}))
TWO = Plain(size=2)  # features are 2 x


def own(classes: list[int], vectors: list[list[float]]) -> Tensors:
    return under("own", rows(classes, vectors, [1] * len(classes)))


def known(classes: list[int], vectors: list[list[float]], counts: list[int] | None = None) -> Tensors:
    return rows(classes, vectors, counts or [1] * len(classes))


def networks(now: Round) -> dict[str, str]:
    """What φ and h are; ψ left out."""
    return {k: digest(select(held.kept, "encoder", "head")) for k, held in sorted(now.held.items())}


# a client: mixing -----------------------------------------------------------------------------------


def one_client(method: PFedPM, kept: Tensors, global_: Tensors) -> Client:
    return seated(plain_place(method, having([[1.0, 1.0]], [2]), model=TWO), known=global_, kept=kept)


@pytest.mark.parametrize(("a", "mixed"), [(0.4, 2.0), (0.0, 0.0), (1.0, 5.0)])
def test_a_own_and_global_are_mixed_class_by_class_by_hand(a: float, mixed: float) -> None:
    """Class 2: 0.4 · 5 + 0.6 · 0 = 2; class 3 it has not: 3; class 0 the server does not know."""
    client = one_client(
        PFedPM(a=a), own([2, 0], [[5.0, 5.0], [8.0, 8.0]]), known([3, 2], [[3.0, 3.0], [0, 0]])
    )

    found = PFedPM(a=a).mixed(client)

    assert found["class"].tolist() == [3, 2]
    assert found["prototype"].tolist() == [[3.0, 3.0], [mixed, mixed]]


def test_a_without_own_prototypes_the_global_ones_are_taken_and_without_those_none() -> None:
    global_ = known([2], [[7.0, 7.0]])

    assert PFedPM().mixed(one_client(PFedPM(), {}, global_))["prototype"].tolist() == [[7.0, 7.0]]
    assert PFedPM().mixed(one_client(PFedPM(), own([2], [[5.0, 5.0]]), {})) == {}


@pytest.mark.parametrize("a", [0.0, 0.3, 0.7, 1.0])
def test_a_the_mixture_lies_between_and_its_distance_goes_with_a(a: float) -> None:
    """2g.4: ‖C̃ - C_i‖ = (1 - a) ‖C̄ - C_i‖, on the segment; and where both are one, C̃ is that for every a."""
    rng = generator("mixture")
    mine, all_ = torch.randn(1, 2, generator=rng).double(), torch.randn(1, 2, generator=rng).double()

    mixed, alone = (
        PFedPM(a=a).mixed(one_client(PFedPM(a=a), own([2], mine.tolist()), known([2], c.tolist())))[
            "prototype"
        ]
        for c in (all_, mine)
    )

    assert torch.allclose(mixed - mine, (1 - a) * (all_ - mine), atol=1e-12)
    assert torch.equal(alone, mine)


def test_a_what_is_mixed_is_what_was_sent_last_and_what_is_received() -> None:
    at = place(PFedPM(a=0.3))
    run = history(at, number=3, join=EVERYBODY)
    for before, now in pairwise(run):
        for k, held in now.held.items():
            sent, received = within("own", before.held[k].kept), within("global", before.server.shared)
            mixed = within("mixed", held.kept)
            for c, vector in zip(mixed["class"], mixed["prototype"], strict=True):
                want = received["prototype"][received["class"] == c][0]
                if c in sent["class"]:
                    want = 0.3 * sent["prototype"][sent["class"] == c][0] + 0.7 * want
                assert torch.allclose(vector, want, atol=1e-6)
    assert not within("mixed", run[0].held["c0"].kept)


# a client: the body ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("lam", "w"), [(1.0, 1.9), (0.5, 1.95), (0.0, 2.0)])
def test_b_features_are_pulled_to_the_mixture_by_hand(lam: float, w: float) -> None:
    """
    f = w x, w = 2, x = (1, 1) of class 1; a = 0.25: C̃ = 0.25 · 4 + 0.75 · 0 = 1.  The head is 0.
    R = ((2 - 1)² + (2 - 1)²) / 2, its slope by w is 1 + 1 = 2; x = (0, 0) of class 3 halves it:
    w ← 2 - 0.1 λ
    """
    method = PFedPM(a=0.25, lam=lam)
    client = seated(
        plain_place(method, having([[1.0, 1.0], [0.0, 0.0]], [1, 3]), model=TWO),
        known=known([1], [[0.0, 0.0]]),
        kept=own([1], [[4.0, 4.0]]),
    )

    method.train(client)

    assert client.parts.encoder.weight.item() == pytest.approx(w, abs=1e-12)


def test_b_the_head_learns_by_cross_entropy_alone_by_hand() -> None:
    """f = (2, 2) of class 1, four classes alike: the slope of row j is (1/4 - 1[j = 1]) · 2."""
    client = one_labelled(PFedPM())

    PFedPM().train(client)

    assert client.parts.head.weight[:, 0].tolist() == pytest.approx([-0.05, 0.15, -0.05, -0.05])


def one_labelled(method: PFedPM, **more: Any) -> Client:
    return seated(
        plain_place(method, having([[1.0, 1.0]], [1]), model=TWO), known=known([1], [[0.0, 0.0]]), **more
    )


F = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 2.0], [9.0, 9.0]], dtype=torch.float64)
Y = torch.tensor([0, 0, 2, 1])  # class means (2, 0) and (0, 2); class 1 has no prototype
TOWARDS = {**known([2, 0], [[0.0, 0.0], [0.0, 0.0]]), "share": torch.tensor([0.25, 0.5])}


@pytest.mark.parametrize(
    ("settings", "r"),
    [
        ({}, (1 + 9 + 4) / 8),
        ({"reg": "class_l2"}, 0.5 * 2 + 0.25 * 2),
        # live, a = 0.5: C̃ is (1, 0) and (0, 1): f - C̃ is 0, 2 and 1
        ({"mix": "live", "a": 0.5}, (0 + 4 + 1) / 8),
        ({"mix": "live", "a": 0.5, "reg": "class_l2"}, 0.5 * 1 + 0.25 * 1),
        # live, a = 1: the variance within class 0, and nothing at all
        ({"mix": "live", "a": 1.0}, (1 + 1) / 8),
        ({"mix": "live", "a": 1.0, "reg": "class_l2"}, 0.0),
    ],
)
def test_b_all_readings_of_the_pull_by_hand(settings: Mapping[str, Any], r: float) -> None:
    assert PFedPM(**settings).pull(F, Y, TOWARDS).item() == pytest.approx(r, abs=1e-12)


def test_b_the_distance_of_class_means_has_a_slope_at_zero_and_it_is_zero() -> None:
    f = torch.zeros(2, 2, dtype=torch.float64, requires_grad=True)

    PFedPM(reg="class_l2").pull(f, torch.tensor([0, 0]), TOWARDS).backward()

    assert f.grad is not None
    assert f.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize(("mix", "prototype"), [("fixed", 2.0), ("live", 0.0)])
def test_b_towards_what_and_with_which_share(mix: Any, prototype: float) -> None:
    """a = 0.4, own 5, global 0; of 8 examples of class 2 one is its own, of class 3 none."""
    client = one_client(
        PFedPM(mix=mix), own([2], [[5.0, 5.0]]), known([2, 3], [[0.0, 0.0], [1.0, 1.0]], [8, 4])
    )

    towards = PFedPM(a=0.4, mix=mix).anchors(client)

    assert towards["prototype"].tolist() == [[prototype, prototype], [1.0, 1.0]]
    assert towards["share"].tolist() == [1 / 8, 0.0]


@pytest.mark.parametrize(
    "settings", [{"lam": 0.0}, {"a": 1.0, "mix": "live", "reg": "class_l2"}], ids=["lam", "live"]
)
@pytest.mark.parametrize("model", [Net(), Net(norm=True), Net(width=5)])
def test_without_the_pull_it_is_local(settings: Mapping[str, Any], model: Net) -> None:
    """2g.1 and 2g.2, to the bit, with a last batch of one and batch normalisation."""
    training = Training(lr=0.1, batch=11, momentum=0.5)
    local, without, with_ = (
        history(place(m, model=model, training=training), number=3, join=EVERYBODY)[-1]
        for m in (Local(epochs=2), PFedPM(epochs=2, **settings), PFedPM(epochs=2))
    )

    assert networks(without) == models_of(local)
    assert networks(with_) != models_of(local)


def images(client: str, classes: int = 3) -> Person:
    rng = generator("images", client)
    y = torch.arange(9) % classes
    data = Examples(torch.randn(9, 1, 16, 16, generator=rng), y, torch.arange(9), 4)
    return Person(client, client, data, data.take(torch.arange(0)), data)


def image_place(
    method: Any, model: Any, clients: int = 2, training: Training = Training(lr=0.05, batch=4)
) -> Place:
    everybody = {f"c{k}": images(f"c{k}") for k in range(clients)}
    return Place(method, everybody, model, (1, 16, 16), 4, training, 0, 0)


def test_without_the_pull_it_is_local_whose_network_draws_noise() -> None:
    """2g.1 and 2g.6 on the paper's network: ψ takes nothing from the noise of φ's dropout."""
    local, without = (
        history(image_place(m, PFedPMCNN()), number=3, join=EVERYBODY)[-1] for m in (Local(), PFedPM(lam=0.0))
    )

    assert networks(without) == models_of(local)


def others_negated(of: str) -> dict[str, Person]:
    return {
        k: p if k == of else replace(p, train=replace(p.train, inputs=-p.train.inputs))
        for k, p in PEOPLE.items()
    }


def test_with_its_own_prototypes_alone_a_client_needs_nobody() -> None:
    """2g.2: a = 1, to the bit; and with a = 0.4 it does."""
    for a, same in ((1.0, True), (0.4, False)):
        one, two = (
            history(place(PFedPM(a=a), clients=clients), number=3, join=EVERYBODY)[-1]
            for clients in (PEOPLE, others_negated("c0"))
        )
        assert (networks(one)["c0"] == networks(two)["c0"]) is same
        assert networks(one)["c1"] != networks(two)["c1"]


@pytest.mark.parametrize("source", ["after", "running"])
def test_at_a_zero_and_with_plain_means_it_is_fedproto(source: Any) -> None:
    """2g.3, to the bit."""
    pm = history(place(PFedPM(a=0.0, agg="uniform", proto_source=source)), number=4)
    proto = history(place(FedProto(proto_source=source)), number=4)

    for one, two in zip(pm, proto, strict=True):
        assert networks(one) == models_of(two)
        for name in ("class", "prototype"):
            assert torch.equal(one.server.shared[f"global/{name}"], two.server.shared[f"global/{name}"])


# a client: the relation module ----------------------------------------------------------------------


class Still(nn.Module):
    """ψ of one weight: the score of every pair is σ(v)."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def forward(self, pairs: Tensor) -> Tensor:
        return torch.sigmoid(self.weight).expand(len(pairs), 1)


def test_c_the_relation_takes_a_step_by_hand() -> None:
    """
    σ(0) = ½ for classes 1, 2, 3 and 0, of which one is right: the slope of the mean of (½ - 1[y = j])² by v
    is 2 (3 · ½ - ½) / 4 · σ'(0) = ½ · ¼:  v ← 0 - 0.1 / 8
    """
    method = PFedPM()
    client = seated(
        plain_place(method, having([[1.0, 1.0]], [1]), model=TWO),
        known=known([1, 2, 3, 0], [[float(n), 0.0] for n in range(4)]),
    )
    client.parts.relation = Still()

    method.train(client)

    assert client.parts.relation.weight.item() == pytest.approx(-0.1 / 8, abs=1e-12)


def test_c_before_there_are_prototypes_the_relation_does_not_learn_and_then_it_does() -> None:
    fresh = place(PFedPM()).built("c0").initial

    first, second = (now.held["c0"].kept for now in history(place(PFedPM()), number=2, join=EVERYBODY))

    assert digest(select(first, "relation")) == digest(select(fresh, "relation"))
    assert digest(select(second, "relation")) != digest(select(fresh, "relation"))


def test_c_the_loss_is_zero_for_scores_that_say_which_class_it_is() -> None:
    """2g.10, on given scores; a class that is not of the client has a target of zeros."""
    client = seated(plain_place(PFedPM(), having([[1.0, 1.0], [2.0, 2.0]], [1, 3]), model=TWO))
    x, y = client.data.x, client.data.y
    towards = known([3, 0, 1], [[0.0, 0.0]] * 3)
    right = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], dtype=torch.float64)

    for scores, loss in ((right, 0.0), (1 - right, 1.0), (right * 0, 2 / 6)):
        client.parts.relation = Given(scores)
        assert relation_loss(client.parts, x, y, towards).item() == pytest.approx(loss)


class Given(nn.Module):
    def __init__(self, scores: Tensor):
        super().__init__()
        self.scores = scores

    def forward(self, pairs: Tensor) -> Tensor:
        return self.scores.reshape(-1, 1)


def test_c_its_features_are_those_of_prediction_and_nothing_of_the_body_moves() -> None:
    """2g.6: without dropout, running statistics as they were, no slope; afterwards training goes on."""
    client = image_place(PFedPM(), PFedPMCNN()).seat(Turn(1, ROUND, "c0", {}, 0, {}))
    client.parts["encoder"] = nn.Sequential(client.parts["encoder"], nn.BatchNorm1d(50), nn.Dropout(0.5))
    x, y = client.data.x, client.data.y
    before = digest(client.parts.encoder.eval().state_dict())
    seen: list[Tensor] = []
    client.parts["relation"].register_forward_hook(lambda module, pairs, scores: seen.append(pairs[0]))
    f = client.parts.features(x)
    client.parts.train()

    loss = relation_loss(client.parts, x, y, {"class": torch.tensor([1]), "prototype": torch.ones(1, 50)})
    loss.backward()  # type: ignore[no-untyped-call]

    assert torch.allclose(seen[0][:, 0], f)
    assert torch.equal(seen[0][:, 1], torch.ones(9, 50))
    assert digest(client.parts.encoder.state_dict()) == before
    assert client.parts.training
    assert all(p.grad is None for n, p in client.parts.named_parameters() if not n.startswith("relation"))


def test_c_another_relation_changes_no_prototype() -> None:
    """2g.6: other weights of ψ, and a ψ that has learnt, to the bit."""
    at, global_ = place(PFedPM()), under("global", {"class": torch.arange(4), "count": torch.ones(4).long()})
    message = {**global_, "global/prototype": torch.ones(4, FEATURES)}
    other = {n: t + 1 for n, t in select(at.built("c0").initial, "relation").items() if t.is_floating_point()}

    one, two = (at.take(Turn(1, ROUND, "c0", message, 0, kept)) for kept in ({}, other))

    assert digest(one.tensors or {}) == digest(two.tensors or {})
    assert digest(select(one.kept, "relation")) != digest(select(two.kept, "relation"))


# a client: what it sends ----------------------------------------------------------------------------


def test_d_prototypes_are_of_the_model_as_trained_and_kept_too() -> None:
    """2 (1 + 3) / 2 = 4 of class 1, of two examples."""
    method = PFedPM(epochs=0)
    client = seated(plain_place(method, having([[1.0, 0.0], [3.0, 0.0], [5.0, 5.0]], [1, 1, 3]), model=TWO))

    sent = within("own", method.train(client))

    assert sent["class"].tolist() == [1, 3]
    assert sent["prototype"].tolist() == [[4.0, 0.0], [10.0, 10.0]]
    assert sent["count"].tolist() == [2, 1]
    assert digest(within("own", client.kept)) == digest(sent)


def test_d_running_prototypes_are_of_features_as_seen() -> None:
    """In the first step w = 2; the step takes it to 1.6 = 2 - 0.1 · 2 (2 + 2) / 2, which `after` sees."""
    for source, mean in (("running", 2.0), ("after", 1.6)):
        method = PFedPM(proto_source=source)  # type: ignore[arg-type]

        sent = within("own", method.train(one_labelled(method)))

        assert sent["prototype"].tolist() == [[pytest.approx(mean), pytest.approx(mean)]]


def test_only_prototypes_classes_and_counts_travel() -> None:
    """Both ways; 4 d and twice 8 bytes a class."""
    executor = Recording()
    run = history(place(PFedPM()), number=3, join=EVERYBODY, executor=executor)

    for stage in executor.stages:
        for turn, outcome in stage.values():
            assert set(outcome.tensors or {}) == {"own/class", "own/prototype", "own/count"}
            assert set(turn.message) in (set(), {"global/class", "global/prototype", "global/count"})
    for before, now in zip([None, *run], run, strict=False):
        classes = len(before.server.shared["global/class"]) if before else 0
        assert set(now.down.values()) == {(4 * FEATURES + 16) * classes}
        for k, up in now.up.items():
            assert up == (4 * FEATURES + 16) * len(PEOPLE[k].train.y.unique())


# the server -----------------------------------------------------------------------------------------


def aggregated(method: PFedPM, before: Tensors, **sent: Tensors) -> Tensors:
    uploads = {k: Upload(under("own", tensors), 1) for k, tensors in sent.items()}
    server = Server(under("global", before), {"memory/x": torch.ones(1)})
    new = method.aggregate(server, uploads, ROUND, generator("aggregate"))
    assert list(new.memory) == ["memory/x"]
    return within("global", new.shared)


@pytest.mark.parametrize(("agg", "mean"), [("sample", 3.0), ("uniform", 2.0), ("literal", 1.5)])
def test_e_the_global_mean_by_hand(agg: Any, mean: float) -> None:
    """Class 2: (1 · 0 + 3 · 4) / 4, its half, or (0 + 4) / 2; class 5 has one owner, class 7 none now."""
    new = aggregated(
        PFedPM(agg=agg),
        known([2, 7], [[9.0], [8.0]], [5, 6]),
        a=known([2], [[0.0]], [1]),
        b=known([2, 5], [[4.0], [6.0]], [3, 9]),
    )

    assert new["class"].tolist() == [2, 5, 7]
    assert new["prototype"].tolist() == [[mean], [6.0], [8.0]]
    assert new["count"].tolist() == [4, 9, 6]


@pytest.mark.parametrize(("agg", "factor"), [("sample", 1.0), ("uniform", 1.0), ("literal", 1 / 3)])
def test_e_equal_prototypes_give_themselves_but_in_the_literal_reading(agg: Any, factor: float) -> None:
    """2g.5: equation 7 as printed shrinks by the number of owners."""
    sent = {k: known([1], [[0.3, -7.0]], [n]) for k, n in (("a", 3), ("b", 7), ("c", 11))}

    new = aggregated(PFedPM(agg=agg), {}, **sent)

    assert new["prototype"][0].tolist() == pytest.approx([0.3 * factor, -7.0 * factor], abs=1e-12)


def test_e_clients_in_another_order_and_one_with_twice_the_data() -> None:
    """2g.11: of two equal owners 1/2 each, then 2/3 and 1/3."""
    a, b, twice = known([1], [[0.0]], [4]), known([1], [[6.0]], [4]), known([1], [[6.0]], [8])

    assert aggregated(PFedPM(), {}, a=a, b=b)["prototype"].item() == 3.0
    assert aggregated(PFedPM(), {}, b=b, a=a)["prototype"].item() == 3.0
    assert aggregated(PFedPM(), {}, a=a, b=twice)["prototype"].item() == pytest.approx(4.0)


# readings -------------------------------------------------------------------------------------------


def test_f_the_head_and_the_relation_are_read_of_one_run() -> None:
    at = place(PFedPM())
    now = history(at, number=3)[-1]

    readings = evaluate(at, now)

    assert list(readings.scores) == ["personal/head", "personal/relation"]
    assert all(set(each) == set(PEOPLE) for each in readings.scores.values())
    assert "nobody shares weights" in readings.missing["generic"]


def test_f_relation_scores_known_classes_between_0_and_1_and_others_below() -> None:
    """2g.10; by the mixture as it was kept, not by what is received now, 64 examples and the rest."""
    at = place(PFedPM())
    mixture = {"class": torch.tensor([3, 1]), "prototype": torch.stack([torch.zeros(8), torch.ones(8)])}
    received = {"class": torch.tensor([0]), "prototype": torch.ones(1, 8)}
    client = at.seat(Turn(1, PERSONAL, "c0", under("global", received), 0, under("mixed", mixture)))
    client.parts.eval()
    x = torch.cat([client.data.x, client.data.x])

    found = PFedPM().personal(client)
    scores = found["relation"](x)

    assert found["head"] is client.parts
    assert scores.shape == (90, CLASSES)
    assert set(scores[:, [0, 2]].flatten().tolist()) == {-1.0}
    assert bool(((scores[:, [1, 3]] > 0) & (scores[:, [1, 3]] < 1)).all())
    alone = relate(client.parts.relation, client.parts.features(x), torch.ones(1, 8))
    assert torch.allclose(scores[:, 1], alone[:, 0])


def test_f_who_never_took_part_compares_with_what_it_receives_or_has_no_relation() -> None:
    at = place(PFedPM())
    received = under("global", {"class": torch.tensor([2]), "prototype": torch.ones(1, 8)})

    some, none = (
        PFedPM().personal(at.seat(Turn(1, PERSONAL, "c0", message, 0, {}))) for message in (received, {})
    )

    assert some["relation"](PEOPLE["c0"].test.x).argmax(1).unique().tolist() == [2]
    assert list(none) == ["head"]


# the paper's settings -------------------------------------------------------------------------------


def many(d: int, each: int = 4) -> tuple[Place, dict[str, Person]]:
    """Twenty clients of four classes each, and a network of d features."""
    clients = {
        f"c{k:02}": having([[0.1 * k] * d] * each, [(k + n) % 10 for n in range(each)], f"c{k:02}")
        for k in range(20)
    }
    shape, training = (d,), Training(lr=0.01, batch=10)
    ten = {k: replace(p, train=replace(p.train, classes=10)) for k, p in clients.items()}
    return Place(PFedPM(), ten, Plain(size=d), shape, 10, training, 0, 0), ten


@pytest.mark.parametrize(("d", "scalars"), [(50, 4_000), (320, 25_600), (512, 40_960), (1024, 81_920)])
def test_twenty_clients_of_four_classes_send_as_many_scalars_as_the_paper_prints(
    d: int, scalars: int
) -> None:
    """
    2g.7: 4 thousand for fc1 of the small CNN.  The paper's 82 thousand for CIFAR-10 is 81,920: layer4's 512
    features counted both ways, or layer3's 1,024 counted up.
    """
    at, clients = many(d)

    uploads = [at.take(Turn(1, ROUND, k, {}, 0, {})).tensors or {} for k in clients]

    assert sum(u["own/prototype"].numel() for u in uploads) == scalars


def test_clients_with_other_networks_exchange_prototypes() -> None:
    """2g.9: 18, 20 and 22 channels; features are 50 numbers for all."""
    models = {"c0": PFedPMCNN(channels=18), "c1": PFedPMCNN(), "c2": PFedPMCNN(channels=22)}
    at = image_place(PFedPM(), models.__getitem__, clients=3)

    run = history(at, number=2, join=EVERYBODY)

    assert [len(now.heard) for now in run] == [3, 3]
    channels = {k: len(h.kept["encoder.conv2.weight"]) for k, h in run[-1].held.items()}
    assert channels == {"c0": 18, "c1": 20, "c2": 22}
    readings = evaluate(at, run[-1])
    assert list(readings.scores) == ["personal/head", "personal/relation"]
    assert "networks differ" in readings.missing["generic"]


def test_features_of_different_sizes_are_said() -> None:
    """2g.9: behind the convolutions 18 and 20 channels are not as many numbers."""
    models = {k: PFedPMCNN(head_layers=2, channels=c) for k, c in (("c0", 18), ("c1", 20))}

    with pytest.raises(MethodError, match="one size from everybody; there are"):
        history(image_place(PFedPM(), models.__getitem__), number=1, join=EVERYBODY)


def test_features_behind_the_convolutions_are_maps() -> None:
    """16 x 16 pixels leave 20 maps of 1 x 1, 28 x 28 leave 20 of 4 x 4; so 24 x 24: 3 x 3."""
    clients = {f"c{k}": resized(f"c{k}", 24) for k in range(2)}
    model = PFedPMCNN(head_layers=2)
    at = Place(PFedPM(map=(20, 3, 3)), clients, model, (1, 24, 24), 4, Training(lr=0.05, batch=4), 0, 0)

    run = history(at, number=2, join=EVERYBODY)

    assert run[-1].server.shared["global/prototype"].shape == (3, 180)
    assert not run[-1].refused


def resized(client: str, side: int) -> Person:
    person = images(client)
    data = replace(person.train, inputs=torch.randn(9, 1, side, side, generator=generator(client)))
    return replace(person, train=data, test=data, val=data.take(torch.arange(0)))


def test_moments_are_kept_if_the_experiment_keeps_them() -> None:
    training = Training(lr=0.01, batch=8, optimiser="adam", keep_moments=True)

    kept = history(place(PFedPM(), training=training), number=2, join=EVERYBODY)[-1].held["c0"].kept

    phases = {n.split("/")[1] for n in kept if n.startswith("moments/")}
    assert phases == {"body", "relation"}


def test_a_class_that_nobody_else_has_is_pulled_to_itself() -> None:
    """Its C̄ and C̃ are what its one owner sent, though others send theirs."""
    clients = {
        **PEOPLE,
        "c0": replace(PEOPLE["c0"], train=replace(PEOPLE["c0"].train, labels=PEOPLE["c0"].train.labels * 0)),
        "c1": replace(
            PEOPLE["c1"], train=replace(PEOPLE["c1"].train, labels=PEOPLE["c1"].train.labels * 0 + 1)
        ),
    }
    two = {k: clients[k] for k in ("c0", "c1")}

    first, second = history(place(PFedPM(), clients=two), number=2, join=EVERYBODY)

    for k, c in (("c0", 0), ("c1", 1)):
        mixed = within("mixed", second.held[k].kept)
        assert torch.equal(
            mixed["prototype"][mixed["class"] == c], within("own", first.held[k].kept)["prototype"]
        )


def test_settings_have_limits_and_names() -> None:
    for wrong in ({"a": 1.1}, {"a": math.nan}, {"lam": -1.0}, {"agg": "sum"}, {"reg": "l1"}, {"mix": "no"}):
        with pytest.raises(SettingError, match=next(iter(wrong))):
            PFedPM(**wrong)  # type: ignore[arg-type]
    assert PFedPM(a=1, lam=0).dull() == [
        "a = 1: nobody's features are pulled to those of others",
        "lam = 0: without the pull to prototypes training is Local's",
    ]
    assert not of_parts({"own/class": torch.ones(1)})
