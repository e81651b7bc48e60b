"""FedProto, by hand. Letters as in its file."""

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from contracts import EVERYBODY, World
from pluribus import prototypes
from pluribus.client import Client
from pluribus.engine import Round
from pluribus.errors import MethodError
from pluribus.examples import Examples
from pluribus.method import Server, Upload
from pluribus.methods.fedproto import FedProto
from pluribus.methods.local import Local
from pluribus.readings.evaluate import evaluate, welcome
from pluribus.seeds import generator
from pluribus.stage import PERSONAL, WELCOME, Stage
from pluribus.state import Tensors, digest, of_parts, select, under, within
from pluribus.training import Training
from pluribus.turn import Place, Turn
from toy import FEATURES, INPUTS, PEOPLE, Net, Person, history, people, place

WORLD = World(averages=False)
ROUND = Stage("round", 2, 4)
NOTHING: Tensors = {}


class Scale(nn.Module):
    """f = w x."""

    def __init__(self, w: float):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([w], dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x


@dataclass(frozen=True)
class Plain:
    """A feature w x of each number of the input; a head that is 0 and whose slope by f is therefore 0."""

    w: float = 2.0
    size: int = 1

    def build(self, shape: tuple[int, ...], classes: int) -> Any:
        head = nn.Linear(self.size, classes, bias=False).double()
        nn.init.zeros_(head.weight)
        network: Any = nn.Sequential(OrderedDict(encoder=Scale(self.w), head=head))
        network.features, network.classes, network.shape = self.size, classes, shape
        return network


def having(x: list[list[float]], y: list[int], client: str = "a") -> Person:
    """A client with these inputs and labels, of four classes."""
    inputs = torch.tensor(x, dtype=torch.float64)
    data = Examples(inputs, torch.tensor(y), torch.arange(len(y)), 4)
    return Person(client, client, data, data.take(torch.arange(0)), data)


def plain_place(method: Any, *persons: Person, model: Any = Plain(), batch: int = 1000) -> Place:
    shape = (persons[0].train.inputs.shape[1],)
    training = Training(lr=0.1, batch=batch)
    return Place(method, {p.id: p for p in persons}, model, shape, 4, training, 0, 0)


def rows(classes: list[int], vectors: list[list[float]], counts: list[int] | None = None) -> Tensors:
    made = {"class": torch.tensor(classes), "prototype": torch.tensor(vectors, dtype=torch.float64)}
    return made if counts is None else {**made, "count": torch.tensor(counts)}


def seated(
    at: Place, client: str = "a", *, known: Tensors = NOTHING, kept: Tensors = NOTHING, stage: Stage = ROUND
) -> Client:
    return at.seat(Turn(1, stage, client, under("global", known), 0, kept))


def as_dict(found: Tensors) -> dict[int, list[float]]:
    return dict(zip(found["class"].tolist(), found["prototype"].tolist(), strict=True))


# a client -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lam", "w"), [(1.0, 1.9), (0.5, 1.95), (0.0, 2.0)])
def test_a_features_are_pulled_to_their_prototype_by_hand(lam: float, w: float) -> None:
    """
    f = w x, w = 2; x = 1 of class 1, whose C̄ is 1; x = 3 of class 2, which has none.  The head is 0.
    R = ((2 - 1)² + 0) / 2, its slope by w is (2 - 1) · 1 = 1:  w ← 2 - 0.1 λ
    """
    client = seated(
        plain_place(FedProto(lam=lam), having([[1.0], [3.0]], [1, 2])), known=rows([1, 3], [[1.0], [9.0]])
    )

    FedProto(lam=lam).train(client)

    assert client.parts.encoder.weight.item() == pytest.approx(w, abs=1e-12)


def test_a_the_head_learns_by_cross_entropy_alone_by_hand() -> None:
    """f = 2 of class 1, four classes alike: the slope of row j is (1/4 - 1[j = 1]) · 2."""
    client = seated(plain_place(FedProto(), having([[1.0]], [1])), known=rows([1], [[1.0]]))

    FedProto().train(client)

    assert client.parts.head.weight.flatten().tolist() == pytest.approx([-0.05, 0.15, -0.05, -0.05])


def test_a_epochs_are_as_many_as_set() -> None:
    """w: 2, then 2 - 0.1 · 2 (2 - 1) = 1.8, then 1.8 - 0.1 · 2 · 0.8 = 1.64, while the head is held at 0."""
    method = FedProto(epochs=2)
    at = plain_place(method, having([[1.0]], [1]))
    client = seated(at, known=rows([1], [[1.0]]))
    client.parts.head = Silent()
    client.parts["head"].weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))

    method.train(client)

    assert client.parts.encoder.weight.item() == pytest.approx(1.64, abs=1e-12)


class Silent(nn.Module):
    """Logits that are 0, whatever comes."""

    def forward(self, f: Tensor) -> Tensor:
        return (f * 0).expand(len(f), 4) + self.weight * 0


def test_a_before_there_are_prototypes_it_is_local() -> None:
    """And without the pull it is for ever: C8-L1, to the bit."""
    local = history(place(Local()), number=3)
    first, third = history(place(FedProto()), number=3, join=EVERYBODY)[::2]
    without = history(place(FedProto(lam=0.0)), number=3, join=EVERYBODY)[-1]

    assert models_of(first) == models_of(local[0])
    assert models_of(without) == models_of(local[-1])
    assert models_of(third) != models_of(local[-1])


def models_of(now: Round) -> dict[str, str]:
    return {k: digest(of_parts(held.kept)) for k, held in sorted(now.held.items())}


@pytest.mark.parametrize("model", [Net(norm=True), Net(width=5)])
def test_without_the_pull_it_is_local_with_moments_too(model: Net) -> None:
    for kept in (False, True):
        training = Training(lr=0.1, batch=7, momentum=0.5, weight_decay=0.01, keep_moments=kept)
        local, without = (
            history(place(m, model=model, training=training), number=3, join=EVERYBODY)[-1]
            for m in (Local(epochs=2), FedProto(lam=0.0, epochs=2))
        )
        assert models_of(without) == models_of(local)


@pytest.mark.parametrize(("agg", "names"), [("uniform", set()), ("sample", {"count"})])
def test_b_prototypes_are_of_the_model_as_trained(agg: Any, names: set[str]) -> None:
    """Of w = 1.9: 1.9 (1 + 2) / 2 = 2.85 of class 1, 5.7 of class 3; numbers of examples if they weigh."""
    method = FedProto(agg=agg, lam=0.0)
    client = seated(plain_place(method, having([[1.0], [2.0], [3.0]], [1, 1, 3])))
    client.parts.encoder.weight.data.fill_(1.9)
    client.parts.head = Silent()
    client.parts["head"].weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))

    sent = within("own", method.train(client))

    assert as_dict(sent) == {1: pytest.approx([2.85]), 3: pytest.approx([5.7])}
    assert sent.keys() == {"class", "prototype"} | names


def test_b_running_prototypes_are_of_features_as_seen_in_the_last_epoch() -> None:
    """One batch an epoch, λ = 1, C̄ = 1, x = 1, a silent head: w is 2, 1.8, then 1.64; seen last is 1.8."""
    for source, mean in (("running", 1.8), ("after", 1.64)):
        method = FedProto(epochs=2, proto_source=source)  # type: ignore[arg-type]
        client = seated(plain_place(method, having([[1.0]], [1])), known=rows([1], [[1.0]]))
        client.parts.head = Silent()
        client.parts["head"].weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))

        assert as_dict(within("own", method.train(client))) == {1: pytest.approx([mean])}


def test_b_who_trained_on_nothing_sends_its_features_as_they_are() -> None:
    method = FedProto(epochs=0, proto_source="running")
    client = seated(plain_place(method, having([[1.0]], [1])))

    assert as_dict(within("own", method.train(client))) == {1: [2.0]}


# the server -----------------------------------------------------------------------------------------


def aggregated(method: FedProto, before: Tensors, **sent: Tensors) -> Tensors:
    uploads = {k: Upload(under("own", tensors), 1) for k, tensors in sent.items()}
    server = method.aggregate(
        Server(under("global", before), {"memory/x": torch.ones(1)}), uploads, ROUND, generator("aggregate")
    )
    assert list(server.memory) == ["memory/x"]
    return within("global", server.shared)


@pytest.mark.parametrize(("agg", "mean"), [("uniform", 2.0), ("sample", 3.0)])
def test_c_the_mean_of_the_owners_and_what_was_before(agg: Any, mean: float) -> None:
    """(0 + 4) / 2, or (1 · 0 + 3 · 4) / 4; classes 5 and 7 have one owner, and none."""
    before = rows([2, 7], [[100.0], [8.0]], [1, 1])

    new = aggregated(
        FedProto(agg=agg), before, a=rows([2], [[0.0]], [1]), b=rows([2, 5], [[4.0], [6.0]], [3, 1])
    )

    assert as_dict(new) == {2: [mean], 5: [6.0], 7: [8.0]}


def test_c_who_has_not_the_class_does_not_matter() -> None:
    """C8-L4."""
    a, b = rows([2], [[1.0]]), rows([3], [[5.0]])

    assert as_dict(aggregated(FedProto(), {}, a=a, b=b))[2] == as_dict(aggregated(FedProto(), {}, a=a))[2]


def test_c_of_equal_models_weighed_by_examples_it_is_the_mean_of_the_pooled_data() -> None:
    """C8-L2, to 1e-10 in float64."""
    rng = generator("pooled")
    clients = [
        having(torch.randn(n, 2, generator=rng).tolist(), (torch.arange(n) % 3).tolist(), k)
        for k, n in (("a", 5), ("b", 11))
    ]
    method = FedProto(agg="sample", epochs=0)
    at = plain_place(method, *clients, model=Plain(size=2))

    new = aggregated(method, {}, **{k: within("own", method.train(seated(at, k))) for k in ("a", "b")})

    x, y = (torch.cat([getattr(c.train, name) for c in clients]) for name in ("x", "y"))
    for c, mean in as_dict(new).items():
        assert torch.allclose(torch.tensor(mean), 2 * x[y == c].mean(0).float(), atol=1e-6)
        assert mean == pytest.approx((2 * x[y == c].mean(0)).tolist(), abs=1e-10)


def test_features_of_different_sizes_are_said() -> None:
    with pytest.raises(MethodError, match="one size from everybody"):
        aggregated(FedProto(), {}, a=rows([2], [[0.0]]), b=rows([2], [[0.0, 1.0]]))


# readings -------------------------------------------------------------------------------------------


def test_d_the_nearest_prototype_is_predicted_and_no_class_without_one() -> None:
    """C8-L5. f = 2 x: (6, 8) is 5 from (3, 4) and 10 from (0, 0); classes 0 and 2 have none."""
    client = seated(
        plain_place(FedProto(), having([[3.0, 4.0]], [1]), model=Plain(size=2)),
        known=rows([3, 1], [[0.0, 0.0], [3.0, 4.0]]),
        stage=PERSONAL,
    )

    found = FedProto().personal(client)["prototype"](torch.tensor([[3.0, 4.0], [0.1, 0.0], [0, 0]]).double())

    assert found[0].tolist() == pytest.approx([-torch.inf, -5.0, -torch.inf, -10.0])
    assert found.argmax(1).tolist() == [1, 3, 3]
    assert found[2, 3] == 0


@pytest.mark.parametrize(
    ("predict", "names"), [("prototype", ["prototype", "head"]), ("head", ["head", "prototype"])]
)
def test_d_both_predictors_are_read_and_which_is_p_is_set(predict: Any, names: list[str]) -> None:
    at = place(FedProto(predict=predict))

    readings = evaluate(at, history(at, number=2)[-1])

    assert list(readings.scores) == [f"personal/{name}" for name in names]
    assert all(set(each) == set(PEOPLE) for each in readings.scores.values())


def test_d_before_there_are_prototypes_the_head_predicts() -> None:
    client = seated(plain_place(FedProto(), having([[1.0]], [1])), stage=PERSONAL)

    assert FedProto().personal(client) == {"head": client.parts}


def test_a_newcomer_begins_with_the_initial_network_and_trains_as_everybody() -> None:
    newcomers = {f"n{k}": p for k, p in enumerate(people(2, 30).values())}
    at = place(FedProto(), newcomers=newcomers)
    now = history(at, number=3)[-1]

    readings = welcome(at, now, epochs=30)

    assert list(readings.scores)[:2] == ["zero-shot/prototype", "zero-shot/head"]
    zero, adapted = (readings.accuracy(f"{kind}/head") for kind in ("zero-shot", "adapted"))
    assert zero is not None
    assert adapted is not None
    assert adapted > zero
    client = seated(at, "n0", known=within("global", now.server.shared), stage=WELCOME)
    fresh = {n: t.clone() for n, t in client.parts.state_dict().items()}
    FedProto().welcome(client, 0)
    assert digest(client.parts.state_dict()) == digest(fresh)


# what travels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("agg", "more"), [("uniform", 8), ("sample", 16)])
def test_bytes_are_those_of_the_sheet(agg: Any, more: int) -> None:
    """4 d for each class, 8 for its name, 8 for its number of examples where they weigh; both ways."""
    run = history(place(FedProto(agg=agg)), number=3, join=EVERYBODY)
    for before, now in zip([None, *run], run, strict=False):
        known = len(before.server.shared["global/class"]) if before else 0
        assert set(now.down.values()) == {(4 * FEATURES + more) * known}
        for k, up in now.up.items():
            assert up == (4 * FEATURES + more) * len(PEOPLE[k].train.y.unique())


def test_networks_may_differ_before_the_features() -> None:
    widths = {k: 5 + i for i, k in enumerate(PEOPLE)}
    at = place(FedProto(), model=lambda client: Net(width=widths[client]))

    now = history(at, number=2, join=EVERYBODY)[-1]

    assert {k: h.kept["encoder.first.weight"].shape for k, h in now.held.items()} == {
        k: (width, INPUTS) for k, width in widths.items()
    }
    assert not now.refused


def test_what_makes_it_another_method_is_said() -> None:
    assert replace(FedProto(), lam=0.0).dull() == [
        "lam = 0.0: without the pull to prototypes training is Local's"
    ]


def test_what_is_sent_are_prototypes_and_no_weights() -> None:
    at = place(FedProto())
    outcome = at.take(Turn(1, ROUND, "c0", {}, 0, {}))

    assert set(outcome.tensors or {}) == {"own/class", "own/prototype"}
    assert set(outcome.kept) == set(select(at.built("c0").initial, "encoder", "head"))
    assert torch.equal(
        (outcome.tensors or {})["own/class"], prototypes.of_data(at_end(at, outcome.kept))["class"]
    )


def at_end(at: Place, kept: Tensors) -> Client:
    return at.seat(Turn(2, PERSONAL, "c0", {}, 0, kept))
