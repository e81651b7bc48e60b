"""FedRIR, by hand. Letters as in its file; laws as 1g.1 to 1g.9."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence
from torch.nn import functional as F

from contracts import ENCODER, NORM, World
from one_weight import values, weights
from pluribus.client import Client, Parts
from pluribus.cohort import Join
from pluribus.errors import ModelError, SettingError
from pluribus.examples import Examples
from pluribus.losses import unlikelihood, vclub
from pluribus.masking import masked
from pluribus.method import Server, Upload
from pluribus.methods.fedper import FedPer
from pluribus.methods.fedrir import FedRIR, guess
from pluribus.models import MODELS
from pluribus.models.fedrir_cnn import FedRIRCNN
from pluribus.models.mlp import MLP
from pluribus.models.pfedpm_cnn import PFedPMCNN
from pluribus.readings.evaluate import evaluate, welcome
from pluribus.seeds import generator as seeded
from pluribus.stage import PERSONAL, WELCOME, Stage
from pluribus.state import Tensors, copied, digest, part_of, select, within
from pluribus.training import Training
from pluribus.turn import Model, Place, Turn
from toy import CLASSES, FEATURES, PEOPLE, Net, Person, history, person, place
from worlds import ThreeParts

ADAM = Training(lr=5e-3, batch=16, optimiser="adam")
NORMED = Net(norm=True)
STATISTICS = frozenset(
    f"{part}.{name}"
    for part in ("encoder.norm", "encoder_personal.2")
    for name in ("running_mean", "running_var", "num_batches_tracked")
)
WORLD = World(model=NORMED, training=ADAM, moves=STATISTICS, down=ENCODER + NORM, up=ENCODER + NORM)
ROUND = Stage("round", 1, 1)
NOTHING: Tensors = {}
ALONE = {"c0": PEOPLE["c0"]}


def placed(method: FedRIR | None = None, **changes: Any) -> Place:
    return place(method or FedRIR(), **{"model": NORMED, "training": ADAM, **changes})


def seated(at: Place, *, message: Tensors = NOTHING, kept: Tensors = NOTHING, **turn: Any) -> Client:
    return at.seat(Turn(1, turn.get("stage", ROUND), "c0", message, 0, kept))


def trained(at: Place, **turn: Any) -> Tensors:
    """All of the client's tensors after its turn."""
    return (
        at.take(Turn(1, ROUND, "c0", turn.get("message", {}), 0, turn.get("kept", {}), watch=True)).trained
        or {}
    )


def moved(one: Tensors, two: Tensors) -> set[str]:
    return {n for n, t in one.items() if not torch.equal(t, two[n])}


def parts_of(names: set[str]) -> set[str]:
    return {part_of(n) for n in names - STATISTICS}


# (a) rebuilding -------------------------------------------------------------------------------------


class Always(nn.Module):
    """Says the same, whatever it is asked."""

    def __init__(self, answer: Sequence[Sequence[float]]):
        super().__init__()
        self.answer = torch.tensor(answer)

    def forward(self, x: Tensor) -> Tensor:
        return self.answer


class Listening(nn.Module):
    """Remembers what it is asked, and says 0."""

    def forward(self, x: Tensor) -> Tensor:
        self.asked = x
        return torch.zeros_like(x)


def rebuilt(encoder: nn.Module, generator_: nn.Module, x: Tensor, **settings: Any) -> float:
    parts = Parts({"encoder_personal": encoder, "generator": generator_}, ())
    return float(FedRIR(**settings).rebuilding(seated(placed()))(parts, x, torch.zeros(len(x))))


def test_a_the_loss_is_the_mean_square_and_a_tenth_of_kl_by_hand() -> None:
    """
    x = 1 and x̂ = 3 in two numbers of two examples: 4.
    μ = (1, 2), λ = (0, ln 3):  ½ (1 + 1 - 1 - 0) + ½ (4 + 3 - 1 - ln 3) = 3.5 - ½ ln 3;  μ = λ = 0: 0.
    """
    encoder = Always([[1.0, 2.0, 0.0, math.log(3)], [0.0] * 4])

    loss = rebuilt(encoder, Always([[3.0, 3.0]] * 2), torch.ones(2, 2))

    assert loss == pytest.approx(4 + 0.1 * (3.5 - math.log(3) / 2) / 2)


def test_a_what_is_rebuilt_from_is_drawn_with_mean_and_deviation() -> None:
    """λ = 2 ln 5: the deviation is 5; the same draws as with λ = 0 and μ = 0, times 5, plus 7."""
    drawn = []
    for mean, spread in ((0.0, 0.0), (7.0, 2 * math.log(5))):
        rebuilt(Always([[mean, spread]] * 400), ear := Listening(), torch.ones(400, 1))
        drawn.append(ear.asked)

    assert torch.allclose(drawn[1], 7 + 5 * drawn[0], atol=1e-4)
    assert float(drawn[0].mean()) == pytest.approx(0, abs=0.2)
    assert float(drawn[0].std()) == pytest.approx(1, abs=0.1)


def test_a_the_encoder_sees_the_masked_input_and_the_loss_the_whole() -> None:
    """⌊0.6 · 10⌋ = 6 of ten ones are 0; x̂ = 0 against all ten: 1."""
    for ratio, hidden in ((0.6, 6), (0.0, 0)):
        encoder = Listening()

        loss = rebuilt(encoder, Always([[0.0] * 10] * 3), torch.ones(3, 10), mask_ratio=ratio)

        assert (encoder.asked == 0).sum(1).tolist() == [hidden] * 3
        assert loss == pytest.approx(1)


# (b), (c) what the features tell of each other ------------------------------------------------------


def told(mean: Sequence[float], spread: Sequence[float]) -> Parts:
    """Parts whose I expects this mean and this log variance, one number each, whatever it is told."""
    answers = {"mean": mean, "spread": spread}
    return Parts(
        {"information": nn.ModuleDict({n: Always([[v] for v in a]) for n, a in answers.items()})}, ()
    )


@pytest.mark.parametrize(
    ("mode", "mean", "expected"),
    [
        ("vclub", [0.0, 1.0], 0.75),
        ("vclub_joint", [0.0, 1.0], 0.75),
        ("vclub", [3.0, 1.0], 0.0),
        ("vclub_joint", [3.0, 1.0], -0.75),
        ("nll_joint", [0.0, 1.0], 1.5 + math.log(2) / 2),
        ("off", [0.0, 1.0], 0.0),
    ],
)
def test_c_each_mode_has_its_own_dependence_by_hand(
    mode: Any, mean: Sequence[float], expected: float
) -> None:
    """
    v = 0, ln 2; of t = 1, 3:
    vCLUB, m = 0, 1:  (-1 + (1 + 9) / 2) / 2 = 2  and  (-4 + (0 + 4) / 2) / 4 = -½;  mean 0.75
           m = 3, 1:  (-4 + (4 + 0) / 2) / 2 = -1  and  -½;  mean -0.75, of which the default makes 0
    -2 log q:         (0 - 1)² / 1 + 0 = 1  and  (1 - 3)² / 2 + ln 2
    """
    t, other = torch.tensor([[1.0], [3.0]]), torch.full((2, 1), 100.0)
    f, own = (other, t) if mode == "nll_joint" else (t, other)

    dependence = FedRIR(id_mode=mode).dependence(told(mean, [0.0, math.log(2)]), f, own)

    assert float(dependence) == pytest.approx(expected)


@pytest.mark.parametrize("f", [[[5.0]], [[2.0]] * 3])
def test_c_one_example_or_equal_features_tell_nothing(f: list[list[float]]) -> None:
    """1g.4."""
    parts = told([1.0] * len(f), [0.5] * len(f))

    assert float(
        FedRIR(id_mode="vclub_joint").dependence(parts, torch.tensor(f), torch.zeros(len(f), 1))
    ) == (pytest.approx(0, abs=1e-6))


def test_c_an_information_that_ignores_what_it_is_told_tells_nothing() -> None:
    """1g.4."""
    f = torch.tensor([[1.0], [5.0], [-2.0]])

    dependence = FedRIR(id_mode="vclub_joint").dependence(told([1.0] * 3, [0.5] * 3), f, torch.zeros(3, 1))

    assert float(dependence) == pytest.approx(0, abs=2e-6)


def linked_features() -> tuple[Parts, Tensor, Tensor]:
    """Parts with an I that has learnt how f follows from its other half, and such features."""
    parts = seated(placed()).parts
    own = torch.randn(64, FEATURES, generator=seeded("own"))
    f = torch.tanh(own) + 0.3 * torch.randn(64, FEATURES, generator=seeded("f"))
    adam = torch.optim.Adam(parts.information.parameters(), 1e-2)
    for _ in range(100):
        adam.zero_grad()
        unlikelihood(*guess(parts, own), f).backward()
        adam.step()
    return parts, f.requires_grad_(), own


def test_c_a_step_of_the_features_lowers_the_bound() -> None:
    """1g.6: fixed I, fixed f_cs; the default parts the features."""
    parts, f, own = linked_features()
    (slope,) = torch.autograd.grad(FedRIR().dependence(parts, f, own), f)

    before, after = (vclub(*guess(parts, own), g).item() for g in (f.detach(), f.detach() - slope))

    assert 0 < after < before


def test_c_a_step_in_the_authors_mode_makes_the_features_tell_more() -> None:
    """1g.6: mean log q(f_cs | f_g) rises."""
    parts, f, own = linked_features()
    (slope,) = torch.autograd.grad(FedRIR(id_mode="nll_joint").dependence(parts, f, own), f)

    before, after = (unlikelihood(*guess(parts, g), own).item() for g in (f.detach(), f.detach() - slope))

    assert after < before


def test_c_taken_at_its_word_the_paper_has_no_minimum() -> None:
    """1g.6: I follows the bound downwards, by its last layer alone, as far as one likes."""
    parts, f, own = linked_features()
    sgd = torch.optim.SGD(parts.information["mean"][-1].parameters(), 0.1)
    seen = []
    for _ in range(400):
        sgd.zero_grad()
        bound = FedRIR(id_mode="vclub_joint").dependence(parts, f.detach(), own)
        bound.backward()
        sgd.step()
        seen.append(bound.item())

    assert seen[-1] < -100
    assert seen[-1] - seen[-100] == pytest.approx(seen[-100] - seen[-199], rel=0.01), "as fast as ever"


# a whole turn ---------------------------------------------------------------------------------------


def step(adam: torch.optim.Optimizer, loss: Tensor) -> None:
    adam.zero_grad()
    loss.backward()
    adam.step()


def written_out(at: Place, rounds: int, epochs: int, mode: str) -> Parts:
    """So many rounds of c0 alone: its parts, by loops that know nothing of the library's."""
    parts, data = at.build(NORMED).parts.train(), PEOPLE["c0"].train
    joint = [*parts.information.parameters()] if mode == "nll_joint" else []
    rebuild = torch.optim.Adam([*parts.encoder_personal.parameters(), *parts.generator.parameters()], 5e-3)
    inform = torch.optim.Adam(parts.information.parameters(), 5e-3)
    classify = torch.optim.Adam([*parts.encoder.parameters(), *parts.head.parameters(), *joint], 5e-3)
    for t in range(1, rounds + 1):
        mask, noise = (seeded(0, "round", t, "c0", name) for name in ("mask", "noise"))
        for positions in batches(t, "rebuild", epochs):
            x = data.x[positions]
            z = parts.encoder_personal(masked(x, 0.6, mask))
            code = Normal(z[:, :FEATURES], (0.5 * z[:, FEATURES:]).exp())
            drawn = code.mean + code.stddev * torch.randn(code.mean.shape, generator=noise)
            kl = kl_divergence(code, Normal(0.0, 1.0)).sum(1).mean()
            step(rebuild, (parts.generator(drawn) - x).square().mean() + 0.1 * kl)
        for positions in batches(t, "classify", epochs):
            x, y = data.x[positions], data.y[positions]
            f, own = parts.encoder(x), parts.encoder_personal(x)[:, :FEATURES].detach()
            if mode == "vclub":
                step(inform, -2 * log_q(parts, own, f.detach()).diagonal().mean())
                pairs = log_q(parts, own, f)
                apart = (pairs.diagonal() - pairs.mean(1)).mean().clamp(min=0)
            else:
                apart = -2 * log_q(parts, f, own).diagonal().mean()
            step(classify, F.cross_entropy(parts.head(torch.cat([f, own], 1)), y) + apart)
    return parts


def batches(number: int, phase: str, epochs: int) -> list[Tensor]:
    rng = seeded(0, "round", number, "c0", phase)
    permutations = [torch.randperm(len(PEOPLE["c0"].train), generator=rng) for _ in range(epochs)]
    return [positions for p in permutations for positions in torch.split(p, ADAM.batch)]


def log_q(parts: Parts, given: Tensor, target: Tensor) -> Tensor:
    """log q(target_j | given_i), for all i and j."""
    mean, spread = parts.information["mean"](given), parts.information["spread"](given)
    return Normal(mean[:, None], (0.5 * spread[:, None]).exp()).log_prob(target[None]).sum(2)


@pytest.mark.parametrize(("mode", "epochs"), [("vclub", 2), ("nll_joint", 1)])
def test_a_b_c_two_rounds_are_those_written_out(mode: Any, epochs: int) -> None:
    """Every part, every running statistic; moments go on in the second round."""
    at = placed(FedRIR(epochs=epochs, id_mode=mode), clients=ALONE)

    now = history(at, number=2, join=Join())[-1]

    expected = written_out(at, 2, epochs, mode).state_dict()
    got = {**now.server.shared, **now.held.of("c0").kept}
    for name, tensor in expected.items():
        assert torch.allclose(got[name], tensor, atol=2e-5), name
    initial = at.built("c0").initial
    assert parts_of(moved(expected, initial)) == {
        "encoder",
        "encoder_personal",
        "generator",
        "information",
        "head",
    }


def between_stages(method: FedRIR, monkeypatch: pytest.MonkeyPatch) -> tuple[Tensors, Tensors, Tensors]:
    """All tensors as built, after the first stage, after the second."""
    seen, batches_ = {}, Client.batches

    def watched(client: Client, epochs: int, phase: str) -> Any:
        seen[phase] = copied(client.parts.state_dict())
        return batches_(client, epochs, phase)

    monkeypatch.setattr(
        Client, "batches", lambda client, epochs, phase, **more: watched(client, epochs, phase)
    )
    at = placed(method, training=replace(ADAM, weight_decay=0.01))
    last = trained(at)
    return at.built("c0").initial, seen["classify"], last


def test_each_stage_moves_its_own_parts_and_no_other_to_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """1g.2, with weight decay: and F_cs counts the batches of both, 3 masked and 3 whole; F_g only 3."""
    initial, between, last = between_stages(FedRIR(), monkeypatch)

    first, second = moved(between, initial), moved(last, between)

    assert parts_of(first) == {"encoder_personal", "generator"}
    assert first & STATISTICS == {n for n in STATISTICS if part_of(n) == "encoder_personal"}
    assert parts_of(second) == {"encoder", "head", "information"}
    assert second & STATISTICS == STATISTICS
    assert int(last["encoder_personal.2.num_batches_tracked"]) == 6
    assert int(last["encoder.norm.num_batches_tracked"]) == 3


def test_other_labels_change_nothing_of_the_first_stage() -> None:
    """1g.3, to the bit."""
    data = PEOPLE["c0"].train
    other = {"c0": person("c0", (data.x, (data.y + 1) % CLASSES))}

    one, two = (trained(placed(clients=clients)) for clients in (ALONE, other))

    assert parts_of(moved(one, two)) == {"encoder", "head", "information"}


def test_each_example_counts_once_a_stage_and_information_asks_for_nothing_more() -> None:
    """45 examples in (a) and 45 in (c); the loss of the turn is the mean of both."""
    outcome = placed().take(Turn(1, ROUND, "c0", {}, 0, {}))

    assert outcome.samples == 90
    assert 0 < outcome.loss < 10


# settings -------------------------------------------------------------------------------------------


def test_without_information_what_it_is_does_not_matter() -> None:
    """1g.5, to the bit; with it, it does."""
    for mode, differ in (("off", {"information"}), ("vclub", {"encoder", "head", "information"})):
        at = placed(FedRIR(id_mode=mode))
        shifted = {n: t + 0.1 for n, t in select(at.built("c0").initial, "information").items()}

        one, two = trained(at), trained(at, kept=shifted)

        assert parts_of(moved(one, two)) == differ


def test_without_information_and_own_features_it_is_fedper() -> None:
    """1g.5: three rounds of Adam with moments; the head's columns for f_g step as FedPer's head."""
    full = Training(lr=5e-3, batch=1000, optimiser="adam", keep_moments=True)
    rir = placed(FedRIR(mcsl="off", id_mode="off"), training=full, clients=ALONE)
    per = place(FedPer(), model=NORMED, training=full, clients=ALONE, statistics="local")
    initial = per.built("c0").initial
    head, bias = initial["head.weight"], initial["head.bias"]
    no_features = {n: torch.zeros_like(t) for n, t in rir.built("c0").initial.items() if "personal.4" in n}
    ours: Tensors = {**no_features, "head.weight": torch.cat([head, head], 1), "head.bias": bias}
    theirs: Tensors = {}
    sent, received = dict(select(initial, "encoder")), dict(select(initial, "encoder"))

    for t in (1, 2, 3):
        one = rir.take(Turn(t, Stage("round", t, 3), "c0", sent, 0, ours))
        two = per.take(Turn(t, Stage("round", t, 3), "c0", received, 0, theirs))
        sent, received, ours, theirs = dict(one.tensors or {}), dict(two.tensors or {}), one.kept, two.kept
        assert sent.keys() == received.keys()
        assert all(torch.allclose(sent[n], received[n], atol=1e-5) for n in sent)
        assert torch.allclose(ours["head.weight"][:, :FEATURES], theirs["head.weight"], atol=1e-5)
        assert torch.allclose(ours["head.bias"], theirs["head.bias"], atol=1e-5)
    assert torch.equal(ours["head.weight"][:, FEATURES:], head)
    assert not torch.allclose(theirs["head.weight"], head, atol=1e-3)


@pytest.mark.parametrize(
    ("settings", "still"),
    [
        ({"mcsl": "off"}, {"encoder_personal", "generator"}),
        ({"mcsl": "joint"}, {"generator"}),
        ({"id_mode": "off"}, {"information"}),
        ({"id_mode": "nll_joint"}, set()),
        ({"id_mode": "vclub_joint"}, set()),
        ({"mask_ratio": 0.0}, set()),
    ],
)
def test_what_is_switched_off_stays_as_built(settings: Mapping[str, Any], still: set[str]) -> None:
    at = placed(FedRIR(**settings))
    initial = at.built("c0").initial

    assert parts_of(set(initial)) - parts_of(moved(trained(at), initial)) == still


@pytest.mark.parametrize(
    ("mode", "measure"),
    [
        ("vclub_joint", lambda parts, f, own: vclub(*guess(parts, own), f)),
        ("nll_joint", lambda parts, f, own: unlikelihood(*guess(parts, f), own)),
    ],
)
def test_in_the_joint_modes_information_lowers_the_same_loss(mode: Any, measure: Any) -> None:
    """Of the features after a turn, the I after it has less than the I before it."""
    at = placed(FedRIR(id_mode=mode, epochs=20))
    client = seated(at)
    before, x = select(copied(client.parts.state_dict()), "information"), client.data.x
    at.method.train(client)
    client.parts.eval()
    with torch.no_grad():
        f, own = client.parts.encoder(x), client.parts.encoder_personal(x)[:, :FEATURES]

        after = float(measure(client.parts, f, own))

        client.load(before)
        assert after < float(measure(client.parts, f, own))


@pytest.mark.parametrize(
    "settings",
    [{"mcsl": "off"}, {"id_mode": "off"}, {"id_mode": "vclub_joint"}, {"mask_ratio": 0}, {"mask_ratio": 1}],
)
def test_a_setting_that_makes_it_another_method_is_said(settings: Mapping[str, Any]) -> None:
    (sentence,) = FedRIR(**settings).dull()

    assert sentence.startswith(f"{next(iter(settings))} = ")


def test_a_mode_that_is_none_is_refused() -> None:
    with pytest.raises(SettingError, match="id_mode is 'club'; it should be one of: 'vclub', 'nll_joint'"):
        FedRIR(id_mode="club")  # type: ignore[arg-type]


# what stays, what travels ---------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [False, True])
def test_the_moments_of_three_optimisers_are_kept_whatever_the_experiment_keeps(keep: bool) -> None:
    """Three batches a round: each step counts on from the last, and for clients apart."""
    at = placed(training=replace(ADAM, keep_moments=keep))

    rounds = history(at, number=3, join=Join())

    for name in ("rebuild", "inform", "classify"):
        steps = [float(now.held["c0"].kept[f"moments/{name}/0.step"]) for now in rounds]
        assert steps == [3.0, 6.0, 9.0]
        assert not torch.equal(*(rounds[-1].held[k].kept[f"moments/{name}/0.exp_avg"] for k in ("c0", "c1")))


def test_with_plain_steps_there_are_no_moments_to_keep() -> None:
    at = placed(training=Training(lr=0.01, batch=16))

    kept = history(at, number=1, join=Join())[-1].held["c0"].kept

    assert not [n for n in kept if "/" in n]


def test_d_shared_features_weigh_by_examples() -> None:
    """1g.7: (1 · 2 + 3 · 6) / 4 = 5; weights sum to 1: what all send alike is what comes out."""
    uploads = {"a": Upload(weights(encoder=2.0), 1), "b": Upload(weights(encoder=6.0), 3)}
    alike = {str(n): Upload({"encoder.weight": torch.tensor([0.1, 1 / 3, -7.0])}, n) for n in (3, 7, 11)}

    one, two = (
        FedRIR().aggregate(Server(weights(encoder=9.0)), each, ROUND, seeded("aggregate"))
        for each in (uploads, alike)
    )

    assert values(one.shared) == {"encoder": 5.0}
    assert digest(two.shared) == digest(alike["3"].tensors)


def test_the_parameters_of_the_shared_encoder_travel_and_nothing_else() -> None:
    """1g.7: also where it has two parts; no statistics, no personal tensor, in either direction."""
    for model, names in (
        (NORMED, {"encoder.first.weight", "encoder.first.bias", "encoder.norm.weight", "encoder.norm.bias"}),
        (ThreePartsWithSizes(), {f"{p}.weight" for p in BODY} | {f"{p}.bias" for p in BODY}),
    ):
        at = placed(model=model)
        now = history(at, number=1, join=Join())[-1]
        sent = at.take(Turn(1, ROUND, "c0", now.server.shared, 0, {})).tensors or {}

        assert sent.keys() == now.server.shared.keys() == names


BODY = ("encoder.first", "projector")


@dataclass(frozen=True)
class ThreePartsWithSizes:
    """A projector between encoder and head, and the sizes that a network of the library has."""

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        network = ThreeParts().build(shape, classes)
        network.features, network.classes, network.shape = FEATURES, classes, shape  # type: ignore[assignment]
        return network


def test_the_moments_and_statistics_of_who_stays_at_home_stay() -> None:
    now = history(placed(), number=2, join=Join())[-1]

    kept = now.held["c0"].kept

    assert kept.keys() >= {"encoder.norm.running_mean", "encoder.norm.running_var"}
    assert {part_of(n) for n in kept if "/" not in n} == {
        "encoder", "encoder_personal", "generator", "information", "head",
    }  # fmt: skip
    assert {n.split("/")[1] for n in kept if "/" in n} == {"rebuild", "inform", "classify"}


# readings -------------------------------------------------------------------------------------------


def test_e_the_head_reads_both_features_the_shared_first_and_draws_nothing() -> None:
    """1g.8."""
    at = placed()
    now = history(at, number=2, join=Join())[-1]
    client = seated(at, message=now.server.shared, kept=now.held["c0"].kept, stage=PERSONAL)
    client.parts.eval()
    x = client.data.x

    scores = FedRIR().personal(client)["both features"](x)

    own = client.parts.encoder_personal(x)[:, :FEATURES]
    w, b = client.parts.head.weight, client.parts.head.bias
    expected = client.parts.encoder(x) @ w[:, :FEATURES].T + own @ w[:, FEATURES:].T + b
    assert torch.allclose(scores, expected, atol=1e-5)
    assert torch.equal(scores, FedRIR().personal(client)["both features"](x))
    assert FedRIR().generic(client) == {}


def test_a_newcomer_trains_all_but_the_shared_parameters() -> None:
    """Two rounds of its own; the statistics of F_g become its own, and moments go on."""
    at = placed()
    message = history(at, number=2)[-1].server.shared
    client = seated(at, message=message, stage=WELCOME)
    before = copied(client.parts.state_dict())

    FedRIR().welcome(client, 2)

    changed = moved(before, client.parts.state_dict())
    assert parts_of(changed) == {"encoder_personal", "generator", "information", "head"}
    assert changed & STATISTICS == STATISTICS
    assert float(client.kept["moments/rebuild/0.step"]) == 6.0


def test_a_newcomer_without_training_predicts_as_built() -> None:
    client = seated(placed(), stage=WELCOME)
    before = digest(client.parts.state_dict())

    assert list(FedRIR().welcome(client, 0)) == ["both features"]
    assert digest(client.parts.state_dict()) == before


# on real networks -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((1, 28, 28), (577_088, 1_101_888, 577_345, 263_424, 10_250)),
        ((3, 32, 32), (873_600, 1_693_312, 874_435, 263_424, 10_250)),
        ((3, 64, 64), (5_592_192, 11_130_496, 5_602_243, 263_424, 10_250)),
    ],
)
def test_parts_are_as_large_as_the_sheet_says(shape: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    """1b, 1g.7, 1g.9: F_g, F_cs, G, I, H; F_g's parameters are what travels; G gives what F_cs takes."""
    at = Place(FedRIR(), {}, FedRIRCNN(), shape, 10, ADAM, 0, 0)

    built = at.build(FedRIRCNN())

    counted = {name: sum(p.numel() for p in part.parameters()) for name, part in built.parts.items()}
    assert counted == dict(
        zip(("encoder", "encoder_personal", "generator", "information", "head"), sizes, strict=True)
    )
    assert sum(built.initial[n].numel() for n in built.shares) == sizes[0]
    with torch.no_grad():
        assert built.parts.generator(torch.zeros(1, 512)).shape == (1, *shape)


def test_a_hundred_classes_have_a_larger_head() -> None:
    """1b: 1024 · 100 + 100."""
    head = FedRIR().build(FedRIRCNN().build((3, 32, 32), 100))["head"].module

    assert sum(p.numel() for p in head.parameters()) == 102_500


def test_own_encoder_and_generator_are_those_of_the_sheet() -> None:
    """1a: nothing behind their last layers, ReLU in I only after hidden ones, tanh on the log variance."""
    parts = FedRIR().build(FedRIRCNN().build((1, 28, 28), 10))

    kinds = {
        name: [type(m).__name__ for m in parts[name].module.modules() if not list(m.children())]
        for name in ("encoder_personal", "generator", "information")
    }

    block = ["Conv2d", "BatchNorm2d", "MaxPool2d", "ReLU"]
    assert kinds["encoder_personal"] == [*block, *block, "Flatten", "Linear"]
    assert kinds["generator"] == ["Linear", "Unflatten", "ConvTranspose2d", "ReLU", "ConvTranspose2d"]
    assert kinds["information"] == ["Linear", "ReLU", "Linear", "Linear", "ReLU", "Linear", "Tanh"]


@pytest.mark.parametrize("name", sorted(set(MODELS) - {"efficientnet-lite0"}))
def test_every_network_of_the_library_has_its_own_encoder_and_generator(name: str) -> None:
    network = MODELS[name]().build((1, 28, 28), 10)

    parts = {n: part.module.eval() for n, part in FedRIR().build(network).items()}

    x = torch.rand(2, 1, 28, 28, generator=seeded("images"))
    with torch.no_grad():
        mean, spread = parts["encoder_personal"](x).chunk(2, dim=1)
        assert mean.shape == spread.shape == (2, network.features)
        assert parts["generator"](mean).shape == x.shape
        assert parts["head"](torch.cat([mean, mean], 1)).shape == (2, 10)


def test_the_own_encoder_is_a_copy_and_shares_no_tensor() -> None:
    at = placed()
    state = at.built("c0").parts.state_dict()

    assert torch.equal(state["encoder.first.weight"], state["encoder_personal.0.weight"])
    assert len({t.data_ptr() for t in state.values()}) == len(state)


def test_a_network_without_a_head_says_how_to_name_one() -> None:
    with pytest.raises(ModelError, match=r"FedRIR needs the part \['head'\]"):
        FedRIR().build(nn.Sequential(nn.Linear(1, 1)))


def images(client: str, size: int, classes: int = 3) -> Person:
    """Grey images of 28 x 28, each class a brightness."""
    rng = seeded("images", client)
    y = torch.randint(classes, (size,), generator=rng)
    x = torch.randn(size, 1, 28, 28, generator=rng) + y[:, None, None, None]
    data = Examples(x, y, torch.arange(size), 3)
    return Person(client, client, data, data.take(torch.arange(0)), data)


@pytest.mark.parametrize("model", [FedRIRCNN(), PFedPMCNN(), MLP()], ids=["batch norm", "dropout", "flat"])
def test_on_images_also_one_class_one_example_and_a_last_batch_of_one_are_finite(model: Model) -> None:
    clients = {"a": images("a", 11), "b": images("b", 10, classes=1), "c": images("c", 1)}
    newcomers = {"n": images("n", 12)}
    training = Training(lr=5e-4, batch=10, optimiser="adam")
    at = Place(FedRIR(), clients, model, (1, 28, 28), 3, training, 0, 0, newcomers=newcomers)

    now = history(at, number=2, join=Join())[-1]

    assert not now.refused
    for tensors in (now.server.shared, *(held.kept for held in now.held.values())):
        assert all(bool(torch.isfinite(t).all()) for t in tensors.values())
    readings = evaluate(at, now) | welcome(at, now, epochs=1)
    assert set(readings.scores["personal/both features"]) == set(clients)
    assert readings.missing == {"generic": "every head reads features that are its client's own"}


def test_an_incomplete_batch_is_dropped_but_a_small_client_keeps_its_own() -> None:
    """45 examples in batches of 16: 2 a stage; 30 in a batch of 100: 1."""
    for k, batch, steps in (("c0", 16, 2), ("c3", 100, 1)):
        at = placed(training=replace(ADAM, batch=batch, last_batch="drop"))
        kept = at.take(Turn(1, ROUND, k, {}, 0, {})).kept

        assert [float(within(f"moments/{n}", kept)["0.step"]) for n in ("rebuild", "inform", "classify")] == [
            steps
        ] * 3
