"""DualFed, by hand. Letters as in its file."""

import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import one_weight
from contracts import ENCODER, HEAD, World
from one_weight import Carrier, Product, logits, values, weights
from pluribus.client import Client, Parts
from pluribus.cohort import Join
from pluribus.errors import SettingError
from pluribus.method import Part, Server, Upload
from pluribus.methods.dualfed import DualFed
from pluribus.methods.fedavg import FedAvg
from pluribus.methods.fedbn import FedBN
from pluribus.methods.fedper import FedPer
from pluribus.models import model
from pluribus.readings.evaluate import evaluate, why_no_generic
from pluribus.seeds import generator
from pluribus.stage import GENERIC, PERSONAL, WELCOME, Stage
from pluribus.state import Tensors, digest, select
from pluribus.training import Training
from pluribus.turn import Place, Turn, ownership, running_statistics
from pluribus.usual import mean
from toy import PEOPLE, Net, history, place
from worlds import Projected

WORLD = World(model=Projected(), down=ENCODER + HEAD, up=ENCODER + HEAD)
ROUND = Stage("round", 1, 1)
ROUGH = Training(lr=0.1, batch=8, momentum=0.9, weight_decay=0.01)
MAIN = ("encoder", "projector", "head")
NOTHING: Tensors = {}


class Times(nn.Module):
    """Its input is z and a; its output g·z and a."""

    def __init__(self, g: float):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([g], dtype=torch.float64))

    def forward(self, za: Tensor) -> Tensor:
        return torch.stack([za[:, 0] * self.weight, za[:, 1]], 1)


@dataclass(frozen=True)
class Three:
    """L_k = ½ (f·g·h - a)², the encoder is f, the projector g, the head h; S_k = ½ (f·s - a)²."""

    f: float = 9.0
    g: float = 9.0
    h: float = 9.0

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return nn.Sequential(
            OrderedDict(encoder=Carrier(self.f), projector=Times(self.g), head=Product(self.h))
        )


@dataclass(frozen=True)
class Plain:
    """A projector that changes nothing, behind the toy encoder."""

    norm: bool = False

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        network = Net(norm=self.norm).build(shape, classes)
        parts = network.get_submodule("encoder"), nn.Identity(), network.get_submodule("head")
        return nn.Sequential(OrderedDict(zip(MAIN, parts, strict=True)))


@dataclass(frozen=True)
class Blank:
    """Inputs are features; the head says nothing."""

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        head = nn.Linear(2, 2).double()
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)
        return nn.Sequential(OrderedDict(encoder=nn.Identity(), projector=nn.Identity(), head=head))


@dataclass(frozen=True, kw_only=True)
class FedPerUniform(FedPer):
    """FedPer with weights of 1/M, its batches in the order of DualFed's."""

    aggregate = mean

    def train(self, client: Client) -> Tensors:
        client.fit(epochs=self.epochs, phase="main")
        return client.tensors()


@dataclass(frozen=True, kw_only=True)
class Unheard(DualFed):
    """The shared head's loss does not reach the encoder."""

    def heads(self, parts: Parts, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        u, own, _ = super().heads(parts, x)
        return u, own, parts.head_global(parts.encoder(x).detach())


def seated(at: Place, client: str = "c0", *, message: Tensors = NOTHING, kept: Tensors = NOTHING) -> Client:
    return at.seat(Turn(1, ROUND, client, message, 0, kept))


def parameters(tensors: Tensors, *parts: str) -> Tensors:
    """Of these parts, without what normalisation measures."""
    measured = ("running_mean", "running_var", "num_batches_tracked")
    return {n: t for n, t in select(tensors, *parts).items() if not n.endswith(measured)}


def turn(method: DualFed, **received: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a client sends and keeps that had g = 1.5 and h = 2 and whose target is 5."""
    outcome = one_weight.turn(method, Three(), kept=weights(projector=1.5, head=2.0), **received)
    return values(outcome.tensors), values(outcome.kept)


# a client's stages ----------------------------------------------------------------------------------


def test_a_b_the_main_branch_and_then_the_shared_head_by_hand() -> None:
    """
    η = 0.1, a = 5; f = 2 and s = 3 received, g = 1.5 and h = 2 its own; a batch of one has no contrast.
    (a)  f·g·h - 5 = 1:  f: 2 - 0.1 · 1.5 · 2 = 1.7,  g: 1.5 - 0.1 · 2 · 2 = 1.1,  h: 2 - 0.1 · 2 · 1.5 = 1.7
    (b)  s: 3 - 0.1 · 1.7 (1.7 · 3 - 5) = 2.983
    """
    sent, kept = turn(DualFed(), encoder=2.0, head_global=3.0)

    assert sent == pytest.approx({"encoder": 1.7, "head_global": 2.983}, abs=1e-12)
    assert kept == pytest.approx({"projector": 1.1, "head": 1.7}, abs=1e-12)


def test_b_of_the_shared_head_behind_the_projector_by_hand() -> None:
    """s reads 1.1 · 1.7 = 1.87:  s: 2 - 0.1 · 1.87 (1.87 · 2 - 5) = 2.23562; (a) is as before."""
    sent, kept = turn(DualFed(position="after"), encoder=2.0, head_global=2.0)

    assert sent == pytest.approx({"encoder": 1.7, "head_global": 2.23562}, abs=1e-12)
    assert kept == pytest.approx({"projector": 1.1, "head": 1.7}, abs=1e-12)


@pytest.mark.parametrize(("main", "shared"), [(0, 2), (2, 0)])
def test_a_b_each_stage_has_epochs_of_its_own(main: int, shared: int) -> None:
    """
    At f = 2,  s: 3 - 0.1 · 2 (2 · 3 - 5) = 2.8,  2.8 - 0.1 · 2 (5.6 - 5) = 2.68.
    Or f·g·h - 5 = 1.7 · 1.1 · 1.7 - 5 = -1.821:  f: 1.7 + 0.1 · 1.1 · 1.7 · 1.821 = 2.040527.
    """
    sent, _ = turn(DualFed(main_epochs=main, global_epochs=shared), encoder=2.0, head_global=3.0)

    expected = {"encoder": 2.040527, "head_global": 3.0} if main else {"encoder": 2.0, "head_global": 2.68}
    assert sent == pytest.approx(expected, abs=1e-9)


def test_c_simultaneous_is_one_step_of_all_four_by_hand() -> None:
    """Both slopes are 1:  f: 2 - 0.1 (1.5 · 2 + 3) = 1.4,  g: 1.1,  h: 1.7,  s: 3 - 0.1 · 2 = 2.8."""
    sent, kept = turn(DualFed(strategy="simultaneous", global_epochs=7), encoder=2.0, head_global=3.0)

    assert sent == pytest.approx({"encoder": 1.4, "head_global": 2.8}, abs=1e-12)
    assert kept == pytest.approx({"projector": 1.1, "head": 1.7}, abs=1e-12)


def test_a_b_c_the_losses_by_hand() -> None:
    """
    u = z = (2, 0), (0, 3), (-1, 0) of classes 0 0 1, τ = ½:  s_01 = 0, s_02 = -2, s_12 = 0
    SupCon  (log(1 + e⁻²) + log 2 + 0) / 3
    CE      log 2 of the personal head, all zero; of logits (0, log 3): log 4, log 4, log 4/3
    """
    at = place(DualFed(lam=3.0, tau=0.5), model=Blank())
    parts, method = seated(at).parts, DualFed(lam=3.0, tau=0.5)
    parts.head_global.bias.data[1] = math.log(3)
    x, y = torch.tensor([[2.0, 0], [0, 3.0], [-1.0, 0]], dtype=torch.float64), torch.tensor([0, 0, 1])

    with torch.no_grad():
        main, shared, whole = (
            float(loss(parts, x, y)) for loss in (method.main_loss, method.global_loss, method.whole_loss)
        )

    contrast = (math.log(1 + math.exp(-2)) + math.log(2)) / 3
    assert main == pytest.approx(math.log(2) + 3 * contrast, abs=1e-5)
    assert shared == pytest.approx((2 * math.log(4) + math.log(4 / 3)) / 3, abs=1e-12)
    assert whole == pytest.approx(main + shared, abs=1e-12)


@pytest.mark.parametrize(
    ("method", "moves"),
    [
        (DualFed(main_epochs=2, global_epochs=0), MAIN),
        (DualFed(main_epochs=0, global_epochs=2), ("head_global",)),
    ],
)
def test_each_stage_moves_its_parts_and_no_other_to_the_bit(method: DualFed, moves: tuple[str, ...]) -> None:
    """3g.1 and 3g.9, with momentum, weight decay and batch normalisation, whose statistics move in both."""
    at = place(method, model=Projected(norm=True), training=ROUGH)
    initial = at.built("c0").initial

    trained = at.take(Turn(1, ROUND, "c0", NOTHING, 0, {}, watch=True)).trained

    assert trained is not None
    before, after = (parameters(t, *MAIN, "head_global") for t in (initial, trained))
    assert {n for n, t in after.items() if not torch.equal(t, before[n])} == parameters(
        initial, *moves
    ).keys()
    for name in ("encoder.norm.running_mean", "projector.3.running_mean"):
        assert not torch.equal(trained[name], initial[name])


def test_in_evaluation_mode_the_second_stage_leaves_statistics_alone() -> None:
    """And reads features by them: what the head learns is another."""
    usual, still = (
        place(DualFed(main_epochs=0, stage2_eval=e), model=Projected(norm=True)).take(
            Turn(1, ROUND, "c0", NOTHING, 0, {})
        )
        for e in (False, True)
    )

    initial = place(DualFed(), model=Projected(norm=True)).built("c0").initial
    assert all(torch.equal(t, initial[n]) for n, t in still.kept.items())
    assert not torch.equal(
        (usual.tensors or {})["head_global.weight"], (still.tensors or {})["head_global.weight"]
    )
    assert not torch.equal((still.tensors or {})["head_global.weight"], initial["head_global.weight"])


@pytest.mark.parametrize("norm", [False, True])
def test_the_main_branch_does_not_know_of_the_shared_head(norm: bool) -> None:
    """3g.2, to the bit: neither its epochs nor where it begins."""
    results = []
    for epochs, begun in ((0, 0.0), (1, 0.0), (3, 5.0)):
        at = place(DualFed(global_epochs=epochs), model=Projected(norm), training=ROUGH)
        head = {n: t + begun for n, t in select(at.built("c0").initial, "head_global").items()}
        outcome = at.take(Turn(1, ROUND, "c0", head, 0, {}))
        results.append(digest(parameters({**outcome.kept, **(outcome.tensors or {})}, *MAIN)))

    assert results == results[:1] * 3


@pytest.mark.parametrize("norm", [False, True])
def test_without_contrast_and_projector_it_contains_fedper(norm: bool) -> None:
    """3g.3, parameters to the bit."""
    dual, per = (
        history(place(m, model=Plain(norm), training=ROUGH, statistics="local"), number=3)
        for m in (DualFed(lam=0.0, main_epochs=2), FedPerUniform(epochs=2))
    )

    for one, two in zip(dual, per, strict=True):
        assert digest(parameters(one.server.shared, "encoder")) == digest(
            parameters(two.server.shared, "encoder")
        )
        for k, held in two.held.items():
            assert digest(select(one.held[k].kept, "head")) == digest(select(held.kept, "head"))


def test_simultaneous_without_the_way_to_the_encoder_is_stage_wise() -> None:
    """3g.9, f, g and h_k to the bit; with it they differ."""
    stages, deaf, usual = (
        history(place(m, model=Projected(), training=ROUGH), number=3)[-1]
        for m in (DualFed(), Unheard(strategy="simultaneous"), DualFed(strategy="simultaneous"))
    )

    for one, same in ((deaf, True), (usual, False)):
        assert (
            digest(select(one.server.shared, "encoder")) == digest(select(stages.server.shared, "encoder"))
        ) is same
        assert all((digest(h.kept) == digest(stages.held[k].kept)) is same for k, h in one.held.items())


def test_a_batch_of_one_has_no_contrast() -> None:
    """3g.4: where the authors' code gives NaN; one of a class is trained as with λ = 0."""
    one = {"c0": replace(PEOPLE["c0"], train=PEOPLE["c0"].train.take(torch.arange(1)))}

    with_, without = (
        place(DualFed(lam=lam), model=Projected(), clients=one).take(Turn(1, ROUND, "c0", NOTHING, 0, {}))
        for lam in (40.0, 0.0)
    )

    assert digest(with_.tensors or {}) == digest(without.tensors or {})
    assert all(bool(torch.isfinite(t).all()) for t in with_.kept.values())


def test_features_computed_once_or_live_give_the_same() -> None:
    """To 1e-6."""
    live, once = (
        history(place(DualFed(), model=Projected(), training=Training(lr=0.1, batch=8, reuse=r)), number=2)[
            -1
        ]
        for r in (False, True)
    )

    assert all(torch.allclose(t, once.server.shared[n], atol=1e-6) for n, t in live.server.shared.items())


def test_the_encoder_runs_once_for_a_head_behind_it() -> None:
    """45 examples in (a), 45 once more for any epochs of what is behind it; 2 + 1 to see that they repeat."""
    for work, passed in (
        (lambda client: DualFed(global_epochs=2).train(client), 45 + 45 + 3),
        (lambda client: DualFed().welcome(client, 3), 45 + 3),
    ):
        client, seen = seated(place(DualFed(), model=Projected())), [0]
        client.parts.encoder.register_forward_hook(lambda module, x, z, seen=seen: seen.append(len(z)))

        work(client)

        assert sum(seen) == passed


# the server -----------------------------------------------------------------------------------------


def test_d_everybody_counts_the_same() -> None:
    """3g.5 and 3g.11: (2 + 6) / 2 = 4 and (1 + 4) / 2 = 2.5 for any sizes; one alone stays as it is."""
    sent = weights(encoder=2.0, head_global=1.0), weights(encoder=6.0, head_global=4.0)
    rng = generator("aggregate")

    for sizes in ((1, 3), (70, 210), (5, 5)):
        uploads = {str(k): Upload(t, n) for k, (t, n) in enumerate(zip(sent, sizes, strict=True))}
        server = DualFed().aggregate(Server(weights(encoder=9.0, head_global=9.0)), uploads, ROUND, rng)
        assert values(server.shared) == {"encoder": 4.0, "head_global": 2.5}
    alone = DualFed().aggregate(Server(sent[0]), {"a": Upload(sent[1], 7)}, ROUND, rng)
    assert values(alone.shared) == {"encoder": 6.0, "head_global": 4.0}


def test_what_all_send_alike_comes_out_to_the_bit() -> None:
    """3g.5."""
    sent = {"encoder.weight": torch.tensor([0.1, 1 / 3, -7.0])}

    server = DualFed().aggregate(
        Server(sent), {str(n): Upload(sent, n) for n in (3, 7, 11)}, ROUND, generator("aggregate")
    )

    assert digest(server.shared) == digest(sent)


def test_what_arrives_is_the_encoders_weights_and_the_shared_head_and_nothing_else() -> None:
    """3g.6: scale and shift of normalisation are replaced; statistics, projector and own head never are."""
    at = place(DualFed(), model=Projected(norm=True))
    before, now = history(at, number=2, join=Join())
    kept, message = now.held["c0"].kept, DualFed().message(now.server, "c0", ROUND)

    state = seated(at, message=message, kept=kept).parts.state_dict()

    for name, tensor in state.items():
        arrives = name in parameters(state, "encoder", "head_global")
        assert (name in message) is arrives
        assert (name in kept) is not arrives
        assert torch.equal(tensor, message[name] if arrives else kept[name])
    for name in ("encoder.norm.weight", "encoder.norm.bias"):
        assert not torch.equal(message[name], before.server.shared[name])
    others = [held.kept["encoder.norm.running_mean"] for held in now.held.values()]
    assert all(not torch.equal(others[0], other) for other in others[1:])


# readings -------------------------------------------------------------------------------------------

A = torch.tensor([[5.0]], dtype=torch.float64)
OWN, SHARED = (logits(torch.tensor([q], dtype=torch.float64)) for q in (0.5, 4.5))


def asked(method: DualFed, stage: Stage, model_: Three, kept: Tensors = NOTHING) -> Client:
    """Of f = 2 and s = 4: ½ (2 · 4 - 5)² = 4.5."""
    at = one_weight.place(method, model_, a=[5.0])
    message = method.message(Server(weights(encoder=2.0, head_global=4.0)), "a", stage)
    return at.seat(Turn(0, stage, "a", message, 0, kept))


@pytest.mark.parametrize(
    ("ensemble", "both"), [("logits", OWN + SHARED), ("probs", OWN.softmax(1) + SHARED.softmax(1))]
)
def test_e_the_heads_together_and_each_alone(ensemble: Any, both: Tensor) -> None:
    """g = 1.5 and h = 2: ½ (2 · 1.5 · 2 - 5)² = 0.5."""
    method = DualFed(ensemble=ensemble)
    predictors = method.personal(asked(method, PERSONAL, Three(), weights(projector=1.5, head=2.0)))

    said = {name: predict(A) for name, predict in predictors.items()}

    assert list(said) == ["both heads", "personal head", "global head"]
    for name, expected in zip(said, (both, OWN, SHARED), strict=True):
        assert torch.allclose(said[name], expected), name


def test_f_everybody_predicts_with_the_shared_head() -> None:
    (predict,) = DualFed().generic(asked(DualFed(), GENERIC, Three())).values()

    assert torch.allclose(predict(A), SHARED)


def test_g_a_newcomer_begins_with_the_shared_head_and_trains_projector_and_head_by_hand() -> None:
    """f = 2 is held still, g = 1.5 and h = 2 as built:  g: 1.5 - 0.1 · 2 · 2 = 1.1,  h: 2 - 0.1 · 3 = 1.7."""
    client = asked(DualFed(), WELCOME, Three(g=1.5, h=2.0))

    (zero,) = DualFed().welcome(client, 0).values()
    shot = zero(A)
    adapted = DualFed().welcome(client, 1)

    assert torch.allclose(shot, SHARED)
    assert list(adapted) == ["both heads", "personal head", "global head"]
    expected = {"encoder": 2.0, "projector": 1.1, "head": 1.7, "head_global": 4.0}
    assert values(client.parts.state_dict()) == pytest.approx(expected, abs=1e-12)


def test_g_a_newcomer_measures_the_encoders_statistics_without_labels() -> None:
    at = place(DualFed(), model=Projected(norm=True))
    client = seated(at, message=history(at, number=1)[-1].server.shared)
    with torch.no_grad():
        inner = nn.Sequential(client.parts.encoder.first, client.parts.encoder.relu)(client.data.x)

    DualFed().welcome(replace(client, data=replace(client.data, labels=client.data.labels * 0)), 0)

    assert torch.allclose(client.parts.encoder.norm.running_mean, inner.mean(0), atol=1e-6)
    assert torch.allclose(client.parts.encoder.norm.running_var, inner.var(0), atol=1e-6)


def test_g_a_newcomer_learns_by_the_contrast_too() -> None:
    learnt = set()
    for lam in (0.0, 2.0):
        client = seated(place(DualFed(lam=lam), model=Projected()))
        DualFed(lam=lam).welcome(client, 1)
        learnt.add(digest(select(client.parts.state_dict(), "projector")))

    assert len(learnt) == 2


def test_three_curves_and_g_come_from_one_run() -> None:
    """G on a client's data is its shared head, with the client's own statistics."""
    at = place(DualFed(), model=Projected(norm=True))

    readings = evaluate(at, history(at, number=2, join=Join())[-1])

    named = ["personal/both heads", "personal/personal head", "personal/global head", "generic/global head"]
    assert list(readings.scores) == named
    assert readings.scores["generic/global head"] == readings.scores["personal/global head"]
    assert len({readings.summary(name) for name in named[:3]}) == 3


def test_a_shared_head_that_says_nothing_changes_no_prediction() -> None:
    """3g.7, to the bit; and a constant on all logits of a head changes no choice."""
    at = place(DualFed(), model=Projected())
    now, x = history(at, number=2, join=Join())[-1], PEOPLE["c0"].test.x
    client = seated(at, message=now.server.shared, kept=now.held["c0"].kept)
    both, own, _ = DualFed().personal(client).values()

    with torch.no_grad():
        chosen = both(x).argmax(1)
        for head in (client.parts.head, client.parts.head_global):
            head.bias.add_(3.0)
            assert torch.equal(both(x).argmax(1), chosen)
        client.parts.head_global.weight.zero_()
        client.parts.head_global.bias.zero_()
        assert torch.equal(both(x), own(x))


def cka(x: Tensor, y: Tensor) -> float:
    """‖YᵀX‖² / (‖XᵀX‖ ‖YᵀY‖), columns centred."""
    x, y = x - x.mean(0), y - y.mean(0)
    return float((y.T @ x).norm() ** 2 / ((x.T @ x).norm() * (y.T @ y).norm()))


def test_after_a_broadcast_all_clients_see_the_same_before_the_projector_and_not_behind_it() -> None:
    """3g.10: CKA of z is 1 where running statistics are copied too; that of u is not."""
    at, x = place(DualFed(), model=Projected(norm=True)), PEOPLE["c0"].test.x
    now = history(at, number=3, join=Join())[-1]
    copied = select(now.held["c0"].kept, "encoder")
    seen = []
    for k in ("c0", "c1"):
        parts = seated(at, k, message=now.server.shared, kept={**now.held[k].kept, **copied}).parts.eval()
        with torch.no_grad():
            seen.append((parts.encoder(x), parts.projector(parts.encoder(x))))

    assert cka(seen[0][0], seen[1][0]) == pytest.approx(1, abs=1e-6)
    assert cka(seen[0][1], seen[1][1]) < 0.999


# whose the parts are --------------------------------------------------------------------------------

TABLE_7 = [  # encoder, projector, personal head, shared head
    ("shared", "personal", "personal", "personal"),
    ("shared", "personal", "personal", "shared"),
    ("shared", "shared", "shared", "shared"),
    ("shared", "shared", "personal", "shared"),
    ("personal", "personal", "personal", "personal"),
]


@pytest.mark.parametrize("owners", TABLE_7)
def test_who_owns_what_is_a_setting(owners: tuple[Any, ...]) -> None:
    """The paper's Table 7: what is shared travels, what is personal is kept."""
    by_part = dict(zip((*MAIN, "head_global"), owners, strict=True))
    at = place(DualFed(**by_part), model=Projected())

    now = history(at, number=2, join=Join())[-1]

    shared = {part for part, owner in by_part.items() if owner == "shared"}
    assert {n.partition(".")[0] for n in now.server.shared} == shared
    assert {n.partition(".")[0] for n in now.held["c0"].kept} == by_part.keys() - shared
    assert bool(why_no_generic(at)) == bool({"encoder", "head_global"} - shared)


@pytest.mark.parametrize(("projector", "has_generic"), [("personal", False), ("shared", True)])
def test_with_the_shared_head_behind_a_projector_of_ones_own_nobody_else_can_predict(
    projector: Any, has_generic: bool
) -> None:
    """DualFed-P and DualFed-G: G is that of whole models, or the shared head's."""
    at = place(DualFed(position="after", projector=projector), model=Projected())

    readings = evaluate(at, history(at, number=1)[-1])

    assert (readings.named("generic") is not None) is has_generic
    assert readings.missing == (
        {} if has_generic else {"generic": "as set, a part that it needs is each client's own"}
    )
    assert DualFed(position="after").why_no_generic()
    assert DualFed().why_no_generic() is None


def test_a_network_without_a_projector_is_given_the_papers() -> None:
    """Of 512 features the published 264,448 parameters; of the toy's eight, half inside; and it is said."""
    network = Net().build((6,), 4)
    network.features = 512  # type: ignore[assignment]

    given = DualFed().build(network)["projector"]

    assert given.owner == "personal"
    assert sum(p.numel() for p in given.module.parameters()) == 264_448
    assert list(at_all(Net()).path) == ["encoder", "head"]
    assert "no projector" in DualFed().lacking(at_all(Net()))[0]
    assert DualFed().lacking(at_all(Projected())) == []


def at_all(model_: Any) -> Parts:
    return place(DualFed(), model=model_).built("c0").parts


def test_all_before_the_projector_is_the_encoder() -> None:
    @dataclass(frozen=True)
    class Four:
        def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
            first, middle, last = Projected().build(shape, classes).children()
            parts = {"encoder": first, "neck": nn.Linear(8, 8), "projector": middle, "head": last}
            return nn.Sequential(OrderedDict(parts))

    now = history(place(DualFed(), model=Four()), number=1, join=Join())[-1]

    assert {n.partition(".")[0] for n in now.server.shared} == {"encoder", "neck", "head_global"}


def test_the_shared_head_begins_as_the_personal_one() -> None:
    initial = place(DualFed(), model=Projected()).built("c0").initial

    assert torch.equal(initial["head.weight"], initial["head_global.weight"])


def test_statistics_stay_unless_the_experiment_wants_them_averaged() -> None:
    for statistics, travel in ((None, False), ("average", True)):
        at = place(DualFed(), model=Projected(norm=True), statistics=statistics)
        assert ("encoder.norm.running_mean" in at.built("c0").shares) is travel


def test_what_makes_it_another_method_is_said_and_choices_are_few() -> None:
    assert DualFed(lam=0, main_epochs=0, global_epochs=0).dull() == [
        "lam = 0: cross entropy alone trains the main branch",
        "main_epochs = 0: f, g and h_k never move",
        "global_epochs = 0: h_s never moves",
    ]
    with pytest.raises(SettingError, match="encoder is 'mine'; it should be one of: 'shared', 'personal'"):
        DualFed(encoder="mine")  # type: ignore[arg-type]


# what travels, in the paper's networks --------------------------------------------------------------

CLASSES = {"PACS": 7, "DomainNet": 10, "Office-Home": 65}
TABLE_8 = {  # method: rounds to the target accuracy, and MiB, on PACS, DomainNet, Office-Home
    "FedAvg": ((22, 23, 29), (1920.93, 2008.52, 2538.72)),
    "FedProx": ((21, 23, 29), (1833.62, 2008.52, 2538.72)),
    "FedPer": ((19, 19, 23), (1658.47, 1658.47, 2007.62)),
    "FedRep": ((31, 38, 43), (2705.92, 3316.94, 3753.37)),
    "FedBN": ((17, 21, 24), (1482.91, 1832.08, 2098.97)),
    "SphereFed": ((36, 64, 210), (3142.36, 5586.42, 18330.43)),
    "Fed-RoD": ((13, 15, 19), (1135.10, 1309.90, 1663.30)),
    "FedETF": ((135, 178, 183), (11783.85, 15537.22, 15973.66)),
    "DualFed": ((7, 10, 14), (611.21, 873.27, 1225.59)),
}
COUNTERS = 22  # batches counted in each normalisation; the paper's count takes 4 bytes for each


def paper_parts(method: Any, classes: int) -> tuple[Mapping[str, Part], Parts]:
    """A client's parts in the paper's network, without their weights."""
    with torch.device("meta"):
        built = method.build(model("resnet18:projector=256").build((3, 224, 224), classes))
    return built, Parts({n: p.module for n, p in built.items()}, list(built))


def sent(method: Any, classes: int) -> int:
    """Scalars that travel one way, running statistics staying."""
    built, parts = paper_parts(method, classes)
    shares, *_ = ownership(built, parts, running_statistics(parts), "local")
    return sum(parts.state_dict()[n].numel() for n in shares)


def counted_by_the_paper(name: str, classes: int) -> int:
    """Scalars one way: DualFed's projector as if it travelled, and one head of whoever shares one."""
    if name == "FedBN":
        return sent(FedBN(), classes)
    return sent(FedPer() if name in ("FedPer", "FedRep", "SphereFed", "FedETF") else FedAvg(), classes)


@pytest.mark.parametrize(("name", "published"), list(TABLE_8.items()))
def test_the_papers_table_8_to_the_cent(
    name: str, published: tuple[tuple[int, ...], tuple[float, ...]]
) -> None:
    """3g.8: rounds · 2 ways · 4 bytes, in MiB."""
    for classes, rounds, mib in zip(CLASSES.values(), *published, strict=True):
        scalars = counted_by_the_paper(name, classes) + COUNTERS
        assert rounds * 2 * 4 * scalars / 2**20 == pytest.approx(mib, abs=0.005)


@pytest.mark.parametrize(
    ("data", "rounds", "mib"), [("PACS", 7, 597.08), ("DomainNet", 10, 853.09), ("Office-Home", 14, 1197.34)]
)
def test_what_really_travels_is_less_by_the_projector(data: str, rounds: int, mib: float) -> None:
    """3g.8: 11,176,512 + 512 K + K scalars; the paper's count has 264,448 more."""
    classes = CLASSES[data]

    scalars = sent(DualFed(), classes)

    assert scalars == 11_176_512 + 512 * classes + classes
    assert counted_by_the_paper("DualFed", classes) - scalars == 264_448
    assert rounds * 2 * 4 * scalars / 2**20 == pytest.approx(mib, abs=0.005)
