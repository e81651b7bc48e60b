"""FedRoD, by hand. Letters as in its file."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import contracts
import one_weight
from contracts import ENCODER, HEAD, World
from one_weight import STEP, Two, values, weights
from pluribus.cohort import Join
from pluribus.errors import ModelError
from pluribus.examples import Examples
from pluribus.method import Server, Upload
from pluribus.methods.fedavg import FedAvg
from pluribus.methods.fedrod import FedRoD
from pluribus.seeds import generator
from pluribus.stage import PERSONAL, WELCOME, Stage
from pluribus.state import Tensors, digest, select
from pluribus.training import Training
from pluribus.turn import Outcome, Place, Turn
from toy import Net, Person, history, people, person, place
from worlds import Double

WORLD = World(down=ENCODER + HEAD, up=ENCODER + HEAD)
HYPER = FedRoD(own_head="hypernetwork")
NU = 4 * ((4 * 32 + 32) + (32 * 36 + 36))  # bytes: 4 classes · 32 · (8 + 1) · 4
ROUND = Stage("round", 1, 1)
ROUGH = Training(lr=0.1, batch=8, momentum=0.9, weight_decay=0.01)
NOTHING: Tensors = {}
LN3 = log(3)


@dataclass(frozen=True)
class Biased:
    """Three classes, one feature, which is the input; the head's weights are 0, so that it is its biases."""

    def build(self, shape: tuple[int, ...], classes: int) -> Any:
        network: Any = nn.Sequential(OrderedDict(encoder=nn.Identity(), head=nn.Linear(1, classes)))
        nn.init.zeros_(network.head.weight)
        nn.init.zeros_(network.head.bias)
        network.features, network.classes, network.shape = 1, classes, shape
        return network.double()


def three_and_one(method: FedRoD, x: float = 0.0) -> Place:
    """A client with three examples of class 0 and one of class 1, of three; all inputs are x."""
    inputs = torch.full((4, 1), x, dtype=torch.float64)
    data = Examples(inputs, torch.tensor([0, 0, 1, 0]), torch.arange(4), 3)
    return Place(
        method, {"a": Person("a", "a", data, data.take(torch.arange(0)), data)}, Biased(), (1,), 3, STEP, 0, 0
    )


def head(*biases: float, part: str = "head") -> dict[str, Tensor]:
    bias = torch.tensor(biases, dtype=torch.float64)
    return {f"{part}.weight": torch.zeros(3, 1, dtype=torch.float64), f"{part}.bias": bias}


def biases(tensors: Mapping[str, Tensor] | None, part: str = "head") -> list[float]:
    return (tensors or {})[f"{part}.bias"].tolist()


def taken(at: Place, message: Tensors, kept: Tensors = NOTHING) -> Outcome:
    return at.take(Turn(1, ROUND, "a", message, 0, kept))


@pytest.mark.parametrize(("gamma", "second"), [(1.0, LN3), (2.0, 2 * LN3)])
def test_b_c_the_balanced_step_and_ones_own_by_hand(gamma: float, second: float) -> None:
    """
    Labels 0, 0, 0, 1 of three classes: on average (3/4, 1/4, 0).  η = 0.1, γ = 1, b = (0, ln 3, 7).
    (b)  softmax(b + ln(3, 1, 0)) = (3, 3, 0) / 6, slope (-1/4, 1/4, 0): b = (0.025, ln 3 - 0.025, 7)
    With γ = 2 and b = (0, 2 ln 3, 7) weights are (9, 9, 0).
    (c)  w = (0, -b_1 + ln 3, ln 4 - 7): softmax(b + w) = (1, 3, 4) / 8, slope (-5/8, 1/8, 1/2)
    """
    own = (0.0, LN3 - second, log(4) - 7)

    outcome = taken(
        three_and_one(FedRoD(gamma=gamma)), head(0.0, second, 7.0), head(*own, part="head_personal")
    )

    assert biases(outcome.tensors) == pytest.approx([0.025, second - 0.025, 7.0], abs=1e-12)
    assert biases(outcome.kept, "head_personal") == pytest.approx(
        [own[0] + 0.0625, own[1] - 0.0125, own[2] - 0.05], abs=1e-12
    )


def test_a_who_has_no_head_yet_begins_with_the_one_it_receives() -> None:
    """b = w = (0, ln 3, 0): softmax(2 b) = (1, 9, 1) / 11, less (3/4, 1/4, 0), a tenth of it."""
    outcome = taken(three_and_one(FedRoD()), head(0.0, LN3, 0.0))

    assert biases(outcome.kept, "head_personal") == pytest.approx(
        [0 - 0.1 * (1 / 11 - 3 / 4), LN3 - 0.1 * (9 / 11 - 1 / 4), -0.1 / 11], abs=1e-12
    )


def test_a_who_has_one_goes_on_with_it() -> None:
    """w = (0, -ln 3, 0): softmax(b + w) = (1, 1, 1) / 3."""
    outcome = taken(three_and_one(FedRoD()), head(0.0, LN3, 0.0), head(0.0, -LN3, 0.0, part="head_personal"))

    assert biases(outcome.kept, "head_personal") == pytest.approx(
        [0 - 0.1 * (1 / 3 - 3 / 4), -LN3 - 0.1 * (1 / 3 - 1 / 4), -0.1 / 3], abs=1e-12
    )


def test_c_both_steps_are_taken_where_the_batch_found_the_client_by_hand() -> None:
    """
    u = 1 and v = 5 - r with r = √(2 ln 2), so the generic loss is ln 2 and says 1/2: its logits are (0, 0),
    and the loss of both heads is that of the own one, ½ (u·w - 5)², w = 3.  γ = 0, η = 0.1.
    (b)  u: 1 + 0.1 v r,  v: v + 0.1 r
    (c)  w: 3 - 0.1 (3 - 5) = 3.2                with u = 1, and u feels nothing of it
    """
    r = sqrt(2 * log(2))

    outcome = one_weight.turn(
        FedRoD(gamma=0.0), Two(), kept=weights(head_personal=3.0), encoder=1.0, head=5 - r
    )

    assert values(outcome.tensors) == pytest.approx(
        {"encoder": 1 + 0.1 * (5 - r) * r, "head": 5 - r + 0.1 * r}, abs=1e-12
    )
    assert values(outcome.kept) == pytest.approx({"head_personal": 3.2}, abs=1e-12)


def test_c_ones_own_loss_moves_neither_body_nor_shared_head() -> None:
    """C12-L6, C12-L7: of one class (b) is silent, so they are sent as they came, to the bit."""
    outcome = one_weight.turn(FedRoD(epochs=3), Two(), kept=weights(head_personal=3.0), encoder=1.0, head=4.0)

    assert values(outcome.tensors) == {"encoder": 1.0, "head": 4.0}
    assert values(outcome.kept)["head_personal"] != 3.0


# the hypernetwork -------------------------------------------------------------------------------------


def nu() -> dict[str, Tensor]:
    """
    Of shares (3/4, 1/4, 0): 3/4 · 1 + 1/4 · 2 + 0.5 = 1.75 and 3/4 · -1 = -0.75, which ReLU makes 0.
    The second layer takes the first to weights (1, 0, 0) and biases (0, 1, 2), and adds 0.1 to the last.
    """
    first = torch.tensor([[1.0, 2.0, 3.0], [-1.0, 0.0, 5.0]]), torch.tensor([0.5, 0.0])
    second = torch.tensor([[1.0, 0, 0, 0, 1, 2], [9.0] * 6]).T, torch.tensor([0.0] * 5 + [0.1])
    names = ("0.weight", "0.bias", "2.weight", "2.bias")
    return {f"hypernetwork.{n}": t.double() for n, t in zip(names, (*first, *second), strict=True)}


def two_hidden(**settings: Any) -> FedRoD:
    return FedRoD(own_head="hypernetwork", hidden=2, **settings)


def test_d_the_hypernetwork_makes_a_head_of_the_shares_of_classes_by_hand() -> None:
    """Weights (1.75, 0, 0), biases (0, 1.75, 3.6); of z = 2: (3.5, 1.75, 3.6), beside b = (0, ln 3, 0)."""
    at = three_and_one(two_hidden(), x=2.0)
    client = at.seat(Turn(0, PERSONAL, "a", {**head(0.0, LN3, 0.0), **nu()}, 0, {}))

    (predict,) = two_hidden().personal(client).values()

    expected = torch.tensor([[3.5, 1.75 + LN3, 3.6]], dtype=torch.float64)
    assert torch.allclose(predict(torch.tensor([[2.0]], dtype=torch.float64)), expected)


def test_d_ones_own_step_moves_the_hypernetwork() -> None:
    """By the slope of CE(b + H(a)(z), y), written out; the shared head takes its own step and no other."""
    message = {**head(0.0, LN3, 7.0), **nu()}
    v = {n.removeprefix("hypernetwork."): t.requires_grad_() for n, t in nu().items()}
    z, y = torch.full((4, 1), 2.0).double(), torch.tensor([0, 0, 1, 0])
    hidden = F.relu(v["0.weight"] @ torch.tensor([0.75, 0.25, 0.0]).double() + v["0.bias"])
    made = v["2.weight"] @ hidden + v["2.bias"]
    loss = F.cross_entropy(z @ made[None, :3] + made[3:] + message["head.bias"], y)
    slopes = dict(zip(v, torch.autograd.grad(loss, list(v.values())), strict=True))

    outcome = taken(three_and_one(two_hidden(), x=2.0), message)

    sent = outcome.tensors or {}
    for name, t in v.items():
        assert torch.allclose(sent[f"hypernetwork.{name}"], t.detach() - 0.1 * slopes[name], atol=1e-12)
    assert biases(sent) == pytest.approx([0.025, LN3 - 0.025, 7.0], abs=1e-12)
    assert outcome.kept == {}


@pytest.mark.parametrize(("examples", "first"), [(1, 1.5), (0, 0.5)])
def test_d_shares_of_a_client_with_one_example_or_none(examples: int, first: float) -> None:
    """Of class 0: 1 + 0.5; of none: 0.5.  That is the weight by which z = 2 comes in."""
    usual = three_and_one(two_hidden(), x=2.0)
    some = usual.clients["a"].train.take(torch.arange(examples))
    at = replace(usual, clients={"a": Person("a", "a", some, some, some)})
    client = at.seat(Turn(0, PERSONAL, "a", {**head(0.0, 0.0, 0.0), **nu()}, 0, {}))

    (predict,) = two_hidden().personal(client).values()

    logits = predict(torch.tensor([[2.0]], dtype=torch.float64))
    assert logits.tolist() == [pytest.approx([2 * first, first, 2 * first + 0.1])]


def test_d_the_hypernetwork_has_the_networks_type_and_needs_a_head() -> None:
    built = place(HYPER, model=Double()).built("c0").initial

    assert {t.dtype for t in built.values()} == {torch.float64}
    assert built["hypernetwork.0.weight"].shape == (32, 4)
    assert built["hypernetwork.2.weight"].shape == (36, 32)
    with pytest.raises(ModelError, match="needs the part"):
        history(place(HYPER, model=NamedOtherwise()), number=1)


@dataclass(frozen=True)
class NamedOtherwise:
    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return nn.Sequential(OrderedDict(first=Net().build(shape, classes)))


@pytest.mark.parametrize(
    "contract",
    [
        contracts.check_the_same_seed_gives_the_same_bits_and_another_seed_does_not,
        contracts.check_turns_in_another_process_are_the_same,
        contracts.check_learning_at_rate_zero_moves_nothing,
        contracts.check_bytes_are_what_was_sent,
        contracts.check_other_data_of_one_client_change_no_other_upload,
        contracts.check_one_class_one_example_and_none,
        contracts.check_batch_norm_with_a_last_batch_of_one,
        contracts.check_readings_are_fractions_are_equal_twice_and_change_nothing,
    ],
    ids=lambda f: f.__name__.removeprefix("check_"),
)
def test_with_a_hypernetwork_it_does_what_every_method_does(contract: Any) -> None:
    contract(HYPER, World(down=ENCODER + HEAD + NU, up=ENCODER + HEAD + NU))


# server and predictions -------------------------------------------------------------------------------


def test_e_shared_parts_weigh_by_examples() -> None:
    """(1 · 2 + 3 · 6) / 4 = 5."""
    uploads = {"a": Upload(weights(head=2.0, nu=2.0), 1), "b": Upload(weights(head=6.0, nu=6.0), 3)}

    server = FedRoD().aggregate(Server(weights(head=9.0, nu=9.0)), uploads, ROUND, generator("aggregate"))

    assert values(server.shared) == {"head": 5.0, "nu": 5.0}


def test_f_generic_is_the_shared_head_without_the_prior_and_personal_is_both() -> None:
    at = three_and_one(FedRoD())
    kept = head(1.0, 2.0, -3.0, part="head_personal")
    client = at.seat(Turn(0, PERSONAL, "a", head(0.0, LN3, 0.5), 0, kept))
    x = torch.zeros(1, 1, dtype=torch.float64)

    (generic,), (personal,) = (
        [predict(x).tolist() for predict in answer(client).values()]
        for answer in (FedRoD().generic, FedRoD().personal)
    )

    assert generic == [pytest.approx([0.0, LN3, 0.5])]
    assert personal == [pytest.approx([1.0, 2 + LN3, -2.5])]


def test_f_an_own_head_of_zeros_leaves_the_generic_logits() -> None:
    """C12-L5, to the bit."""
    at = place(FedRoD())
    initial = at.built("c0").initial
    zeros = {n: torch.zeros_like(t) for n, t in select(initial, "head_personal").items()}
    client = at.seat(Turn(0, PERSONAL, "c0", {}, 0, zeros))

    (both,), (one,) = (answer(client).values() for answer in (FedRoD().personal, FedRoD().generic))

    assert torch.equal(both(client.data.x), one(client.data.x))


def test_f_who_was_never_selected_predicts_as_everybody() -> None:
    at = place(FedRoD())
    now = history(at, number=2)[-1]
    client = at.seat(Turn(0, PERSONAL, "c0", now.server.shared, 0, {}))

    (both,), (one,) = (answer(client).values() for answer in (FedRoD().personal, FedRoD().generic))

    assert torch.allclose(both(client.data.x), 2 * one(client.data.x))


@pytest.mark.parametrize("epochs", [0, 1, 2])
def test_g_a_newcomer_trains_a_head_of_its_own_beside_the_shared_one(epochs: int) -> None:
    """From b = (0, ln 3, 0), w = b: steps of a tenth of softmax(b + w) - (3/4, 1/4, 0); b stays."""
    at = three_and_one(FedRoD())
    client = at.seat(Turn(0, WELCOME, "a", head(0.0, LN3, 0.0), 0, {}))
    b = torch.tensor([0.0, LN3, 0.0], dtype=torch.float64)
    w, mean = b.clone(), torch.tensor([3 / 4, 1 / 4, 0.0], dtype=torch.float64)
    for _ in range(epochs):
        w = w - 0.1 * ((b + w).softmax(0) - mean)

    (predict,) = FedRoD().welcome(client, epochs).values()

    assert torch.allclose(predict(torch.zeros(1, 1, dtype=torch.float64)), b + w)
    assert torch.equal(client.parts.head.bias.detach(), b)


def test_g_features_are_computed_once_for_a_newcomer() -> None:
    """Two epochs of six batches are twelve passes; or one of all, after two to see whether one will do."""
    passes, trained = [], []
    for reuse in (True, False):
        at = place(FedRoD(), training=Training(lr=0.1, batch=8, reuse=reuse))
        client = at.seat(Turn(0, WELCOME, "c0", {}, 0, {}))
        seen: list[int] = []
        client.parts.encoder.register_forward_hook(lambda *_, seen=seen: seen.append(1))
        FedRoD().welcome(client, 2)
        passes.append(len(seen))
        trained.append(client.parts.head_personal.weight.detach().clone())

    assert passes == [3, 12]
    assert torch.allclose(*trained, atol=1e-6)


def test_g_a_newcomer_with_a_hypernetwork_trains_that() -> None:
    at = place(HYPER, newcomers=people(1, 20))
    client = at.seat(Turn(0, WELCOME, "c0", {}, 0, {}))

    HYPER.welcome(client, 1)

    after, initial = client.parts.state_dict(), at.built("c0").initial
    assert {n.partition(".")[0] for n, t in after.items() if not torch.equal(t, initial[n])} == {
        "hypernetwork"
    }


# laws -------------------------------------------------------------------------------------------------


def test_the_slope_is_softmax_with_the_prior_less_one_hot_and_0_for_an_absent_class() -> None:
    """C12-L1, in a step: rows of the shared head for classes that c0 has not are sent as they came."""
    at = place(FedRoD())
    data = at.data_of("c0").train
    absent = data.counts == 0

    sent = taken_by(at, "c0").tensors or {}

    initial = at.built("c0").initial
    assert absent.any()
    for name in ("head.weight", "head.bias"):
        same = (sent[name] == initial[name]).view(len(absent), -1).all(1)
        assert torch.equal(same, absent)


def taken_by(at: Place, client: str) -> Outcome:
    return at.take(Turn(1, ROUND, client, {}, 0, {}))


def test_of_equal_counts_it_is_fedavg() -> None:
    """C12-L2, to 1e-6: the same constant is added to all logits."""
    x = torch.randn(16, 6, generator=generator("equal"))
    clients = {"c0": person("c0", (x, torch.arange(16) % 4))}
    training = Training(lr=0.1, batch=4, momentum=0.9)

    rod, plain = (
        history(place(m, clients=clients, training=training), number=3, join=Join())[-1].server.shared
        for m in (FedRoD(), FedAvg())
    )

    assert all(torch.allclose(rod[n], t, atol=1e-6) for n, t in plain.items())


@pytest.mark.parametrize("clip", [None, 0.05])
def test_what_is_shared_feels_nothing_of_the_own_heads(clip: float | None) -> None:
    """C12-L3, to the bit: whether those are a client's or a hypernetwork makes them."""
    training = replace(ROUGH, clip=clip)
    linear = history(place(FedRoD(epochs=2), training=training))
    hyper = history(place(replace(HYPER, epochs=2), training=training))

    for one, two in zip(linear, hyper, strict=True):
        assert digest(one.server.shared) == digest(select(two.server.shared, "encoder", "head"))


@pytest.mark.parametrize("method", [FedRoD(gamma=0.0), replace(HYPER, gamma=0.0)])
def test_without_the_prior_what_is_shared_is_fedavgs(method: FedRoD) -> None:
    """C12-L4, to the bit."""
    rod, plain = (history(place(m, training=ROUGH)) for m in (method, FedAvg()))

    for one, two in zip(rod, plain, strict=True):
        assert digest(select(one.server.shared, "encoder", "head")) == digest(two.server.shared)


def test_with_the_prior_it_is_not() -> None:
    one, two = (history(place(m))[-1].server.shared for m in (FedRoD(), FedAvg()))

    assert digest(one) != digest(two)


def test_a_client_with_one_class_sends_what_it_received() -> None:
    """C12-L7, to the bit, with momentum; its own head learns all the same."""
    x = torch.randn(12, 6, generator=generator("one class"))
    clients = {"c0": person("c0", (x, torch.full((12,), 2)))}
    at = place(FedRoD(epochs=2), clients=clients, training=Training(lr=0.1, batch=4, momentum=0.9))

    outcome = taken_by(at, "c0")

    initial = at.built("c0").initial
    assert digest(outcome.tensors or {}) == digest(select(initial, "encoder", "head"))
    assert not torch.equal(outcome.kept["head_personal.weight"], initial["head.weight"])


def test_each_branch_keeps_moments_of_its_own_if_asked() -> None:
    """Three rounds of one epoch are one of three, but for the order of batches; here there is one batch."""
    training = Training(lr=0.1, batch=1000, momentum=0.9, keep_moments=True)
    clients = {"c0": people(1)["c0"]}
    apart = history(place(FedRoD(), clients=clients, training=training), number=3)[-1]
    once = history(place(FedRoD(epochs=3), clients=clients, training=training), number=1)[-1]

    for one, two in (
        (apart.server.shared, once.server.shared),
        (apart.held["c0"].kept, once.held["c0"].kept),
    ):
        assert all(torch.allclose(one[n], t, atol=1e-6) for n, t in two.items())


def test_a_prior_of_no_weight_is_said() -> None:
    assert FedRoD(gamma=0).dull() == ["gamma = 0: without the prior φ and h are FedAvg's"]
