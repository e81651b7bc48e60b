"""FedCRC, by hand. Letters as in its file."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import one_weight
from contracts import ENCODER, HEAD, Recording, World
from one_weight import Two, values, weights
from pluribus.client import Client
from pluribus.cohort import Join
from pluribus.engine import Conduct, Round, rounds
from pluribus.errors import ModelError, SettingError
from pluribus.examples import Examples
from pluribus.method import Part, Server, Upload, children, fixed_part, shared_part
from pluribus.methods.fedavg import FedAvg
from pluribus.methods.fedcrc import FedCRC
from pluribus.models.fedcrc_cnn import FedCRCCNN
from pluribus.readings.evaluate import evaluate, welcome
from pluribus.seeds import generator
from pluribus.stage import GENERIC, PERSONAL, WELCOME, Stage
from pluribus.state import Tensors, average, digest, select
from pluribus.training import Training
from pluribus.turn import Place, Turn
from toy import PEOPLE, Net, Person, history, people, place
from worlds import ThreeParts

WORLD = World(down=ENCODER + HEAD, up=ENCODER + HEAD, averages=False)  # h_g is no average
QUICK = FedCRC(encoder_epochs=2, personal_epochs=2)  # the same lines, a third of the time
ROUND = Stage("round", 1, 1)
ROUGH = Training(lr=0.1, batch=8, momentum=0.9, weight_decay=0.01)
NOTHING: Tensors = {}


@dataclass(frozen=True, kw_only=True)
class HeadStaysAsBuilt(FedAvg):
    """FedBABU's federated phase in small."""

    def build(self, network: nn.Module) -> Mapping[str, Part]:
        return {n: fixed_part(m) if n == "head" else shared_part(m) for n, m in children(network).items()}

    def train(self, client: Client) -> Tensors:
        client.fit(epochs=self.epochs, train=["encoder"])
        return client.tensors()


def seated(at: Place, client: str = "c0", *, message: Tensors = NOTHING, kept: Tensors = NOTHING) -> Client:
    return at.seat(Turn(1, ROUND, client, message, 0, kept))


def only(encoder: int = 0, personal: int = 0, global_: int = 0, **settings: Any) -> FedCRC:
    """FedCRC with so many epochs of each phase."""
    return FedCRC(
        encoder_epochs=encoder, personal_epochs=personal, global_epochs=global_, **{"tau": 0.75, **settings}
    )


# a client's three phases ----------------------------------------------------------------------------


def test_a_b_c_each_phase_takes_the_step_of_its_own_by_hand() -> None:
    """
    L = ½ (u·v - 5)², η = 0.1; u = 2 and v = 3 received, its own w = 4; the teacher says nothing (λ = 0).
    (a)  u: 2 - 0.1 · 3   (2 · 3     - 5) = 1.7       the slope comes through v
    (b)  w: 4 - 0.1 · 1.7 (1.7 · 4   - 5) = 3.694     at the new u
    (c)  v: 3 - 0.1 · 1.7 (1.7 · 3   - 5) = 2.983
    """
    outcome = one_weight.turn(
        only(1, 1, 1, kl_weight=0.0),
        Two(u=9.0, v=9.0),
        kept=weights(head_personal=4.0),
        encoder=2.0,
        head=3.0,
    )

    assert values(outcome.tensors) == pytest.approx({"encoder": 1.7, "head": 2.983}, abs=1e-12)
    assert values(outcome.kept) == pytest.approx({"head_personal": 3.694}, abs=1e-12)


@pytest.mark.parametrize(
    ("direction", "weight", "factor"),
    [
        ("forward", 1.0, 1 / 2),
        ("forward", 2.0, 0.0),
        ("forward", 0.0, 1.0),
        ("reverse", 1.0, 1 - math.log(3) / 2),
        ("reverse", 2.0, 1 - math.log(3)),
    ],
)
def test_c_the_teacher_changes_the_slope_by_hand(direction: Any, weight: float, factor: float) -> None:
    """
    Losses q_g = ln 2 of the global and q_k = ln 4 of the personal predictor: of class 0 they say
    Q = 1/2 and P = 1/4.  By q_g, the slope of
        KL(p_k ‖ p_g) = P (q_g - q_k) + (1 - P) ln((1 - P) / (1 - Q))    is  (P - Q) / (1 - Q)       = -1/2
        KL(p_g ‖ p_k) = Q (q_k - q_g) + (1 - Q) ln((1 - Q) / (1 - P))
                        is  Q (ln((1 - Q) / (1 - P)) - (q_k - q_g)) = ½ (ln(2/3) - ln 2)             = -½ ln 3
    and of the whole 1 + λ times that.  u = 1, q = ½ (v - 5)², so v = 5 - √(2 ln 2), its slope -√(2 ln 2).
    """
    v, w = (5 - math.sqrt(2 * math.log(n)) for n in (2, 4))
    outcome = one_weight.turn(
        only(global_=1, kl_weight=weight, direction=direction),
        Two(),
        kept=weights(head_personal=w),
        encoder=1.0,
        head=v,
    )

    stepped = v + 0.1 * factor * math.sqrt(2 * math.log(2))
    assert values(outcome.tensors) == pytest.approx({"encoder": 1.0, "head": stepped}, abs=1e-12)
    assert values(outcome.kept) == pytest.approx({"head_personal": w}, abs=1e-12)


def test_c_the_teacher_is_the_predictor_that_was_just_trained() -> None:
    """u = 1, v = 3, w = 2: (b) takes w to 2 + 0.1 · 3 = 2.3, whose P = exp(-½ 2.7²) teaches Q = exp(-2)."""
    p, q = math.exp(-(2.7**2) / 2), math.exp(-2)

    outcome = one_weight.turn(
        only(personal=1, global_=1), Two(), kept=weights(head_personal=2.0), encoder=1.0, head=3.0
    )

    assert values(outcome.kept) == pytest.approx({"head_personal": 2.3}, abs=1e-12)
    assert values(outcome.tensors)["head"] == pytest.approx(3 + 0.1 * 2 * (1 + (p - q) / (1 - q)), abs=1e-12)


@pytest.mark.parametrize(
    ("method", "moves"),
    [(only(encoder=2), "encoder"), (only(personal=2), "head_personal"), (only(global_=2), "head")],
)
def test_each_phase_moves_one_part_and_no_other_to_the_bit(method: FedCRC, moves: str) -> None:
    """4g.3, with momentum and weight decay."""
    at = place(method, training=ROUGH)
    initial = at.built("c0").initial

    trained = at.take(Turn(1, ROUND, "c0", initial, 0, {}, watch=True)).trained

    assert trained is not None
    moved = {n for n, t in trained.items() if not torch.equal(t, initial[n])}
    assert moved == select(initial, moves).keys()


def taught_apart(method: FedCRC, client: Client) -> float:
    """What the loss of (c) has besides cross entropy."""
    x, y = client.data.x, client.data.y
    with torch.no_grad():
        return float(method.taught_loss(client.parts, x, y) - F.cross_entropy(client.parts(x), y))


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_equal_predictors_teach_each_other_nothing(direction: Any) -> None:
    """4g.4: h_k = h_g at the start, so KL and its gradient are 0, and the first step is that of λ = 0."""
    method, full = only(global_=1, direction=direction), Training(lr=0.1, batch=1000)

    taught, alone = (
        place(replace(method, kl_weight=weight), training=full).take(Turn(1, ROUND, "c0", {}, 0, {})).tensors
        for weight in (1.0, 0.0)
    )

    assert abs(taught_apart(method, seated(place(method)))) < 1e-6
    assert taught is not None
    assert alone is not None
    assert torch.allclose(taught["head.weight"], alone["head.weight"], atol=1e-7)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_the_teachers_word_is_cross_entropy_less_entropy_and_never_negative(direction: Any) -> None:
    """4g.4: KL(p ‖ q) = CE(p, q) - H(p), ten random pairs of predictors."""
    client = seated(place(only()))
    for trial in range(10):
        for name in ("head", "head_personal"):
            nn.init.normal_(client.parts[name].weight, generator=generator(trial, name))
        z = client.parts.features(client.data.x).detach()
        q, p = (F.softmax(client.parts[n](z), 1).detach() for n in ("head", "head_personal"))
        p, q = (p, q) if direction == "forward" else (q, p)
        less = (-(p * q.log()).sum(1) + (p * p.log()).sum(1)).mean()

        apart = taught_apart(only(direction=direction), client)

        assert apart >= 0
        assert apart == pytest.approx(float(less), abs=1e-5)


# the server -----------------------------------------------------------------------------------------


def test_d_e_extractors_weigh_by_examples_and_the_predictor_follows_slowly() -> None:
    """
    f:    (1 · 2 + 3 · 6) / 4 = 5
    h_g:  0.75 · 10 + 0.25 · (1 · 1 + 3 · 5) / 4 = 7.5 + 1 = 8.5
    """
    uploads = {"a": Upload(weights(encoder=2.0, head=1.0), 1), "b": Upload(weights(encoder=6.0, head=5.0), 3)}
    before = Server(weights(encoder=100.0, head=10.0), {"memory/x": torch.ones(1)})

    server = FedCRC(tau=0.75).aggregate(before, uploads, ROUND, generator("aggregate"))

    assert values(server.shared) == {"encoder": 5.0, "head": 8.5}
    assert list(server.memory) == ["memory/x"]


def with_uploads(method: FedCRC, number: int = 4) -> tuple[Place, list[Round], list[dict[str, Upload]]]:
    """A run, and what was sent in each of its rounds."""
    at, executor = place(method), Recording()
    run = history(at, number=number, executor=executor)
    sent = [
        {k: Upload(o.tensors or {}, len(PEOPLE[k].train)) for k, (_, o) in stage.items()}
        for stage in executor.stages
    ]
    return at, run, sent


def test_the_predictor_is_a_fading_sum_of_all_averages() -> None:
    """4g.2: h_g^T = τ^T h_g^0 + (1 - τ) Σ_t τ^(T-t) h'_t, after each of four rounds."""
    tau = 0.6
    at, run, sent = with_uploads(replace(QUICK, tau=tau))
    expected = {n: t.double() for n, t in select(at.built("c0").initial, "head").items()}

    for now, uploads in zip(run, sent, strict=True):
        mean = average([u.tensors for u in uploads.values()], [u.examples for u in uploads.values()])
        expected = {n: tau * t + (1 - tau) * mean[n].double() for n, t in expected.items()}
        for name, t in expected.items():
            assert torch.allclose(now.server.shared[name].double(), t, atol=1e-6), name
        extractor = select(now.server.shared, "encoder")
        assert digest(extractor) == digest(select(mean, "encoder"))


def test_at_tau_zero_the_predictor_is_the_plain_weighted_average() -> None:
    """4g.1, to the bit."""
    _, run, sent = with_uploads(replace(QUICK, tau=0.0))

    for now, uploads in zip(run, sent, strict=True):
        mean = average([u.tensors for u in uploads.values()], [u.examples for u in uploads.values()])
        assert digest(now.server.shared) == digest(mean)


def test_at_tau_one_it_is_fedbabu() -> None:
    """4g.1, to the bit: h_g never moves, and f goes where a body goes whose head is held still."""
    crc = place(replace(QUICK, tau=1.0), training=ROUGH)
    babu = place(HeadStaysAsBuilt(epochs=QUICK.encoder_epochs), training=ROUGH)

    for one, two in zip(history(crc), history(babu), strict=True):
        assert digest(select(one.server.shared, "head")) == digest(select(crc.built("c0").initial, "head"))
        assert digest(select(one.server.shared, "encoder")) == digest(select(two.server.shared, "encoder"))


def test_the_weights_of_the_participants_sum_to_one() -> None:
    """4g.8: what all of them send alike is what comes out, to the bit, whatever their sizes."""
    sent = {"encoder.weight": torch.tensor([0.1, 1 / 3, -7.0]), "head.weight": torch.tensor([0.7])}
    uploads = {str(n): Upload(sent, n) for n in (3, 7, 11)}

    server = FedCRC(tau=0.0).aggregate(Server(sent), uploads, ROUND, generator("aggregate"))

    assert digest(server.shared) == digest(sent)


@pytest.mark.parametrize(("number", "lr"), [(1, 0.05), (49, 0.05), (50, 0.01), (74, 0.01), (75, 0.001)])
def test_every_phase_takes_the_rate_of_the_round(number: int, lr: float) -> None:
    """4g.8: u = 2, v = 3, w = 4, a = 5:  u - η 3 · 1,  then w and v by u (u·w - 5) and u (u·v - 5)."""
    training = Training(lr=0.05, lr_at=((50, 0.01), (75, 0.001)), batch=1000)
    u = 2 - lr * 3

    outcome = one_weight.turn(
        only(1, 1, 1, kl_weight=0.0),
        Two(),
        kept=weights(head_personal=4.0),
        stage=Stage("round", number, 100),
        training=training,
        encoder=2.0,
        head=3.0,
    )

    expected = {"encoder": u, "head": 3 - lr * u * (u * 3 - 5)}
    assert values(outcome.tensors) == pytest.approx(expected, abs=1e-12)
    assert values(outcome.kept) == pytest.approx({"head_personal": 4 - lr * u * (u * 4 - 5)}, abs=1e-12)


# limits ---------------------------------------------------------------------------------------------


def test_without_the_teacher_nothing_shared_knows_of_personal_predictors() -> None:
    """4g.5, to the bit; and with it, something does."""
    for weight, same in ((0.0, True), (1.0, False)):
        method = FedCRC(encoder_epochs=1, kl_weight=weight)
        one, two = (history(place(replace(method, personal_epochs=e)), number=3)[-1] for e in (0, 3))

        assert (digest(one.server.shared) == digest(two.server.shared)) is same


def test_of_one_client_it_trains_body_and_head_in_turns() -> None:
    """4g.7, to the bit: τ = 0, no personal phase, no teacher."""
    alone = {"c3": PEOPLE["c3"]}
    at = place(only(2, 0, 1, tau=0.0, kl_weight=0.0), clients=alone, training=Training(lr=0.1, batch=8))

    now = history(at, number=2, join=Join())[-1]

    network, data = at.build(Net()).parts, PEOPLE["c3"].train
    for t in (1, 2):
        for positions in order(t, "encoder", epochs=2):
            step(network.encoder, F.cross_entropy(network(data.x[positions]), data.y[positions]))
        features = network.features(data.x).detach()
        for positions in order(t, "head", epochs=1):
            step(network.head, F.cross_entropy(network.head(features[positions]), data.y[positions]))
    trained = select(network.state_dict(), "encoder", "head")
    assert digest(now.server.shared) == digest(trained)


def order(number: int, phase: str, epochs: int) -> list[Tensor]:
    """The minibatches of c3 in this round and phase."""
    rng = generator(0, "round", number, "c3", phase)
    permutations = [torch.randperm(len(PEOPLE["c3"].train), generator=rng) for _ in range(epochs)]
    return [positions for p in permutations for positions in torch.split(p, 8)]


def step(part: nn.Module, loss: Tensor) -> None:
    params = list(part.parameters())
    with torch.no_grad():
        for p, g in zip(params, torch.autograd.grad(loss, params), strict=True):
            p.add_(g, alpha=-0.1)


def test_who_was_not_asked_keeps_its_predictor_and_all_receive_the_same() -> None:
    """4g.6."""
    at = place(QUICK)
    for before, now in pairwise(history(at)):
        for client in PEOPLE.keys() - set(now.cohort):
            assert now.held.of(client) is before.held.of(client)
        received = {digest(QUICK.message(now.server, k, Stage("round", 9, 9))) for k in PEOPLE}
        assert received == {digest(now.server.shared)}


def test_features_computed_once_or_live_give_the_same() -> None:
    """Two rounds, to 1e-6."""
    live, once = (
        history(place(QUICK, training=Training(lr=0.1, batch=8, reuse=reuse)), number=2)[-1]
        for reuse in (False, True)
    )

    for name, t in live.server.shared.items():
        assert torch.allclose(t, once.server.shared[name], atol=1e-6), name
    for k, held in live.held.items():
        assert torch.allclose(
            held.kept["head_personal.weight"], once.held[k].kept["head_personal.weight"], atol=1e-6
        )


def test_features_are_computed_once_for_both_predictors() -> None:
    """45 examples in (a), and 45 once more for 2 + 1 epochs; 2 and 1 to see whether features repeat."""
    client, seen = seated(place(only(1, 2, 1))), [0]
    client.parts.encoder.register_forward_hook(lambda module, x, z: seen.append(len(z)))

    only(1, 2, 1).train(client)

    assert sum(seen) == 45 + 45 + (2 + 1)


# readings -------------------------------------------------------------------------------------------


def test_f_generic_is_the_shared_network_and_personal_has_its_own_predictor() -> None:
    """G: ½ (2 · 3 - 5)² = ½;  P: ½ (2 · 4 - 5)² = 4.5."""
    at = one_weight.place(FedCRC(), Two(u=9.0, v=9.0), a=[5.0])
    server = Server(weights(encoder=2.0, head=3.0))
    x = torch.tensor([[5.0]], dtype=torch.float64)

    losses = {
        stage.name: [predict(x) for predict in answer(seated_in(at, server, stage)).values()]
        for stage, answer in ((GENERIC, FedCRC().generic), (PERSONAL, FedCRC().personal))
    }

    for stage, loss in ((GENERIC, 0.5), (PERSONAL, 4.5)):
        (predicted,) = losses[stage.name]
        assert torch.allclose(predicted, one_weight.logits(torch.tensor([loss], dtype=torch.float64)))


def seated_in(at: Place, server: Server, stage: Stage) -> Client:
    kept = {} if stage is GENERIC else weights(head_personal=4.0)
    return at.seat(Turn(0, stage, "a", FedCRC().message(server, "a", stage), 0, kept))


def test_both_readings_are_those_of_one_run() -> None:
    at = place(QUICK)

    readings = evaluate(at, history(at, number=2)[-1])

    assert list(readings.scores) == ["personal/own predictor", "generic/network"]
    assert readings.missing == {}


def test_equal_predictors_predict_equally_and_an_extractor_of_ones_own_would_not() -> None:
    """4g.9: P is with f as averaged, not with the f_k that the client trained."""
    at = place(QUICK)
    outcome = at.take(Turn(1, ROUND, "c0", at.built("c0").initial, 0, {}))
    now, x = history(at, number=2)[-1].server.shared, PEOPLE["c0"].test.x
    as_global = {n.replace("head.", "head_personal."): t for n, t in select(now, "head").items()}

    def predicted(message: Tensors, kept: Tensors) -> list[Tensor]:
        client = seated(at, message=message, kept=kept)
        return [p(x) for p in (*QUICK.personal(client).values(), *QUICK.generic(client).values())]

    p, g = predicted(now, as_global)
    own, _ = predicted(now, outcome.kept)
    unaveraged, _ = predicted({**now, **select(outcome.tensors or {}, "encoder")}, outcome.kept)

    assert torch.equal(p, g)
    assert not torch.allclose(own, g, atol=1e-3)
    assert not torch.allclose(own, unaveraged, atol=1e-3)


def test_a_newcomer_gets_the_global_model_whatever_it_trains_on() -> None:
    """4g.10; after epochs of its own what it trains on matters."""
    others = {f"n{k}": p for k, p in enumerate(people(2, 30).values())}
    negated = {
        k: replace(p, train=replace(p.train, labels=(p.train.labels + 1) % 4)) for k, p in others.items()
    }
    at, changed = (place(QUICK, newcomers=newcomers) for newcomers in (others, negated))
    now = history(at, number=2)[-1]

    one, two = (welcome(where, now, epochs=20) for where in (at, changed))

    generic = seated(at, message=now.server.shared).parts
    right = {k: int((generic(p.test.x).argmax(1) == p.test.y).sum()) for k, p in others.items()}
    zero, adapted = "zero-shot/own predictor", "adapted/own predictor"
    assert {k: s.right for k, s in one.scores[zero].items()} == right
    assert one.scores[zero] == two.scores[zero]
    assert one.scores[adapted] != two.scores[adapted]


def test_a_newcomer_trains_a_predictor_of_its_own_from_the_global_one() -> None:
    """w: 3 - 0.1 · 2 (2 · 3 - 5) = 2.8; u = 2 and v = 3 as received."""
    at = one_weight.place(FedCRC(), Two(u=9.0, v=9.0), a=[5.0])
    client = at.seat(Turn(0, WELCOME, "a", weights(encoder=2.0, head=3.0), 0, {}))

    FedCRC().welcome(client, 1)

    expected = {"encoder": 2.0, "head": 3.0, "head_personal": 2.8}
    assert values(client.parts.state_dict()) == pytest.approx(expected, abs=1e-12)


def imaged(client: str, train: int, test: int) -> Person:
    """Images of 16 x 16 in four classes, each a brightness, shifted by client."""
    rng = generator("images", client)

    def draw(size: int) -> Examples:
        y = torch.randint(4, (size,), generator=rng)
        x = torch.randn(size, 1, 16, 16, generator=rng) * (1 + y[:, None, None, None])
        return Examples(x, y, torch.arange(size), 4)

    data = draw(train)
    return Person(client, client, data, data.take(torch.arange(0)), draw(test))


def test_of_the_papers_cnn_a_client_is_read_alone_in_batches_of_128() -> None:
    """129 examples are a batch of 128 and one of 1: also that one is normalised by itself, and finite."""
    clients = {"a": imaged("a", 24, 129), "b": imaged("b", 16, 40)}
    at = Place(only(1, 1, 1), clients, FedCRCCNN(), (1, 16, 16), 4, Training(lr=0.05, batch=8), 0, 0)
    now = list(rounds(at, Conduct(rounds=1)))[-1]

    readings = evaluate(at, now)

    for k, p in clients.items():
        client = seated(at, k, message=now.server.shared, kept=now.held.of(k).kept)
        client.parts.eval()
        for name, predict in (
            ("generic/network", client.parts),
            ("personal/own predictor", at.method.personal(client)["own predictor"]),
        ):
            logits = torch.cat([predict(x) for x in p.test.x.split(128)])
            assert torch.isfinite(logits).all()
            assert readings.scores[name][k].right == int((logits.argmax(1) == p.test.y).sum())
    assert not [n for n in now.server.shared if "running" in n]


# as built and as set --------------------------------------------------------------------------------


def test_all_personal_predictors_start_as_the_global_one_does() -> None:
    at = place(FedCRC())
    initial = at.built("c0").initial

    assert torch.equal(initial["head.weight"], initial["head_personal.weight"])
    assert torch.equal(initial["head.bias"], initial["head_personal.bias"])


def test_running_statistics_move_in_every_phase_and_their_weights_do_not() -> None:
    """The card's fourth deviation."""
    at = place(only(personal=1, global_=1), model=Net(norm=True))
    initial = at.built("c0").initial

    encoder = select(history(at, number=1)[-1].server.shared, "encoder")

    moved = {n for n, t in encoder.items() if not torch.equal(t, initial[n])}
    assert moved == {"encoder.norm.running_mean", "encoder.norm.running_var"}


def test_all_before_the_head_is_the_extractor() -> None:
    at = place(only(encoder=1), model=ThreeParts())

    now = history(at, number=1, join=Join())[-1]

    initial = at.built("c0").initial
    moved = {n.partition(".")[0] for n, t in now.server.shared.items() if not torch.equal(t, initial[n])}
    assert moved == {"encoder", "projector"}
    assert {n.partition(".")[0] for held in now.held.values() for n in held.kept} == {"head_personal"}


def test_a_network_without_a_head_says_how_to_name_one() -> None:
    with pytest.raises(ModelError, match=r"FedCRC needs the part \['head'\]"):
        FedCRC().build(nn.Sequential(nn.Linear(1, 1)))


def test_a_direction_is_forward_or_reverse() -> None:
    with pytest.raises(
        SettingError, match="direction is 'sideways'; it should be one of: 'forward', 'reverse'"
    ):
        FedCRC(direction="sideways")  # type: ignore[arg-type]


def test_what_makes_it_another_method_is_said() -> None:
    dull = FedCRC(tau=1, kl_weight=0, encoder_epochs=0, personal_epochs=0, global_epochs=0).dull()

    assert dull == [
        "tau = 1: h_g never moves, as in FedBABU",
        "kl_weight = 0: no h_k teaches h_g",
        "encoder_epochs = 0: f never moves",
        "personal_epochs = 0: h_k stays as it was built",
        "global_epochs = 0: h_g never moves",
    ]
