"""FedALA, by hand. Letters as in its file."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import grad
from torch.nn import functional as F

import one_weight
from contracts import ENCODER, HEAD, World
from one_weight import Two, values, weights
from pluribus.client import Client, Parts
from pluribus.cohort import Join
from pluribus.method import Server, Upload
from pluribus.methods.fedala import FedALA, between, top_layers
from pluribus.methods.fedavg import FedAvg
from pluribus.methods.fedper import FedPer
from pluribus.models import model
from pluribus.seeds import generator
from pluribus.stage import GENERIC, PERSONAL, Stage
from pluribus.state import Tensors, copied, digest, select, under, within
from pluribus.training import Training
from pluribus.turn import Turn
from toy import Net, history, place

BOTH = ENCODER + HEAD
WORLD = World(down=BOTH, up=BOTH)
QUICK = FedALA(settled=10.0)  # the first time eleven epochs of mixing
ROUND = Stage("round", 3, 9)
NOTHING: Tensors = {}
FULL_BATCH = Training(lr=0.1, batch=1000)
OWN, RECEIVED = (now.server.shared for now in history(place(FedAvg()), number=2))
TOP = select(OWN, "head")


def full(w: float) -> dict[str, Tensor]:
    return under("w", {n: torch.full_like(t, w) for n, t in TOP.items()})


def returning(
    method: FedALA,
    *,
    w: float | None = 0.5,
    training: Training = FULL_BATCH,
    model: Any = Net(),
    stage: Stage = ROUND,
    own: Tensors = TOP,
) -> Client:
    """A client whose head was OWN's, that receives RECEIVED, and whose weights all are w, if it has any."""
    kept = {**under("own", own), **({} if w is None else full(w))}
    message = RECEIVED if model == Net() else NOTHING
    return place(method, training=training, model=model).seat(Turn(1, stage, "c0", message, 0, kept))


def two_parts(method: FedALA, w: float = 0.5, lr: float = 0.1) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a client with target 5 sends and keeps: received u = 2, v = 3, its own v was 1."""
    kept = {**under("own", weights(head=1.0)), **under("w", weights(head=w))}
    outcome = one_weight.turn(
        method, Two(u=9.0, v=9.0), kept=kept, training=Training(lr=lr, batch=1000), encoder=2.0, head=3.0
    )
    return values(outcome.tensors), {n.removesuffix(".weight"): t.item() for n, t in outcome.kept.items()}


# (a) the weights ----------------------------------------------------------------------------------------


def test_a_then_c_the_weights_then_the_model_by_hand() -> None:
    """
    L = ½ (u·v - 5)², u = 2, v = 1 + (3 - 1) ½ = 2, slope of v: 2 (4 - 5) = -2.
    (a)  W = ½ - 0.05 · (-2) · (3 - 1) = 0.7
    (c)  v = 1 + 2 · 0.7 = 2.4;  η = 0.1, u·v - 5 = -0.2:
         u: 2 + 0.1 · 2.4 · 0.2 = 2.048,  v: 2.4 + 0.1 · 2 · 0.2 = 2.44
    """
    sent, kept = two_parts(FedALA(eta=0.05, share=1.0))

    assert sent == pytest.approx({"encoder": 2.048, "head": 2.44}, abs=1e-12)
    assert kept == pytest.approx({"w/head": 0.7, "own/head": 2.44}, abs=1e-12)


def test_a_the_weights_go_downhill() -> None:
    """C14-L4: ∂L/∂W is the slope of L at own + (received - own) W, here taken by torch.func; η = 0.1."""
    method = FedALA(share=1.0, eta=0.1)
    client = returning(method)

    new = method.mixed(client)

    def loss(w: Tensors) -> Tensor:
        mixed = {**RECEIVED, **{n: torch.lerp(OWN[n], RECEIVED[n], w[n]) for n in w}}
        z = torch.relu(client.data.x @ mixed["encoder.first.weight"].T + mixed["encoder.first.bias"])
        return F.cross_entropy(z @ mixed["head.weight"].T + mixed["head.bias"], client.data.y)

    before = within("w", full(0.5))
    slopes = grad(loss)(before)
    assert all(torch.allclose(new[n], t - 0.1 * slopes[n], atol=1e-6) for n, t in before.items())
    assert any(not torch.allclose(new[n], t) for n, t in before.items())


def test_a_each_batch_begins_where_the_last_one_ended() -> None:
    """Targets 5 and 7 in batches of one, η = 0.05, u = 2, own v 1, received 3, in either order."""
    at = one_weight.place(
        FedALA(eta=0.05, share=1.0, epochs=0), Two(), training=Training(lr=0.1, batch=1), a=[5.0, 7.0]
    )
    kept = {**under("own", weights(head=1.0)), **under("w", weights(head=0.5))}

    found = at.take(Turn(1, ROUND, "a", weights(encoder=2.0, head=3.0), 0, kept)).kept["w/head.weight"].item()

    ends = []
    for order in ((5.0, 7.0), (7.0, 5.0)):
        w = 0.5
        for target in order:
            w = min(1.0, max(0.0, w - 0.05 * 2 * (2 * (1 + 2 * w) - target) * 2))
        ends.append(w)
    assert any(found == pytest.approx(end, abs=1e-9) for end in ends)


def test_a_weights_stay_between_zero_and_one() -> None:
    """C14-L3, with steps that end beyond on both sides."""
    method = FedALA(eta=1e6)

    new = method.mixed(returning(method))

    found = torch.cat([t.flatten() for t in new.values()])
    assert {0.0, 1.0} <= set(found.tolist()) <= {0.0, 0.5, 1.0}


def test_a_it_begins_at_one() -> None:
    """With η = 0 a client without weights takes all that arrives."""
    method = FedALA(eta=0.0, settled=10.0)
    client = returning(method, w=None)

    assert all(torch.equal(t, torch.ones_like(t)) for t in method.mixed(client).values())
    assert digest(client.tensors()) == digest(RECEIVED)


@pytest.mark.parametrize(("share", "seen"), [(0.8, 36), (1.0, 45), (0.5, 22), (0.001, 1)])
def test_a_a_share_of_the_data_at_random(share: float, seen: int) -> None:
    """Of 45 examples, whichever come first; another choice in another round."""
    method = FedALA(share=share)
    client = returning(method)
    method.mixed(client)
    some, later = (
        method.some_of(returning(method, stage=Stage("round", t, 9)), TOP).index.tolist() for t in (3, 4)
    )

    assert client.work.samples == len(some) == len(set(some)) == seen
    if share < 0.6:
        assert set(some) != set(later)
        assert sorted(some) != list(range(seen))


def test_a_what_is_mixed_is_between_and_all_else_as_received() -> None:
    """C14-L3, with W = ½ throughout: half way."""
    method = FedALA(eta=0.0)
    client = returning(method)

    method.mixed(client)

    half = {n: (OWN[n] + RECEIVED[n]) / 2 for n in TOP}
    for name, tensor in client.tensors().items():
        assert torch.allclose(tensor, half.get(name, RECEIVED[name]), atol=1e-7), name


def test_c_at_zero_and_one_the_mixture_is_exact() -> None:
    own, received = {"w": torch.tensor([0.1, 0.1])}, {"w": torch.tensor([0.7, 0.7])}

    assert between(own, received, {"w": torch.tensor([0.0, 1.0])})["w"].tolist() == [
        own["w"][0].item(),
        received["w"][0].item(),
    ]


def test_a_features_below_the_mixture_may_be_reused() -> None:
    """To 1e-6, over an epoch of six batches."""
    new = []
    for reuse in (True, False):
        method = FedALA(eta=0.3)
        client = returning(method, training=Training(lr=0.1, batch=8, reuse=reuse))
        assert (method.some_of(client, TOP).through == ("encoder",)) is reuse
        new.append(method.mixed(client))

    assert all(torch.allclose(new[0][n], t, atol=1e-6) for n, t in new[1].items())


# p layers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "mixed"),
    [
        (0, set()),
        (1, {"head"}),
        (2, {"head", "encoder.second"}),
        (99, {"head", "encoder.second", "encoder.first"}),
    ],
)
def test_the_top_p_layers_are_modules_with_parameters(p: int, mixed: set[str]) -> None:
    parts = place(FedALA(), model=Net(width=5)).built("c0").parts

    names = top_layers(parts, p)

    assert set(names) == {f"{layer}.{tensor}" for layer in mixed for tensor in ("weight", "bias")}


def test_a_layer_of_a_real_network_is_one_module() -> None:
    network = model("resnet18").build((3, 32, 32), 10)
    convolution_and_norms = [m for m in network.modules() if list(m.parameters(recurse=False))]
    parts = Parts(dict(network.named_children()), [n for n, _ in network.named_children()])
    assert len({n.rpartition(".")[0] for n in top_layers(parts, 4)}) == 4
    assert len(top_layers(parts, 10_000)) == len(list(network.parameters()))
    assert len({n.rpartition(".")[0] for n in top_layers(parts, 10_000)}) == len(convolution_and_norms)


def test_a_layers_above_and_below_are_mixed_alike() -> None:
    """p = 2 on the toy: the encoder too, half way, from its own."""
    method = FedALA(p=2, eta=0.0)
    kept = {**under("own", OWN), **under("w", {n: torch.full_like(t, 0.5) for n, t in OWN.items()})}
    client = place(method).seat(Turn(1, ROUND, "c0", RECEIVED, 0, kept))

    method.mixed(client)

    assert method.some_of(client, OWN).through == ()
    for name, tensor in client.tensors().items():
        assert torch.allclose(tensor, (OWN[name] + RECEIVED[name]) / 2, atol=1e-7), name


# (b) how long -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settled", "w", "epochs"), [(1e9, None, 11), (0.0, None, 100), (0.0, 1.0, 1), (1e9, 1.0, 1)]
)
def test_b_until_the_loss_settles_then_one_epoch(settled: float, w: float | None, epochs: int) -> None:
    """One batch an epoch, of 0.8 · 45 = 36 examples: 11 epochs at least, 100 at most; later 1."""
    method = FedALA(settled=settled)
    client = returning(method, w=w)

    method.mixed(client)

    assert client.work.samples == 36 * epochs


@pytest.mark.parametrize(
    ("losses", "settled"),
    [
        ([1.0] * 10, False),
        ([1.0] * 11, True),
        ([9.0] + [1.0] * 10, True),
        ([9.0, 9.0, *[1.0] * 9], False),
        ([0.0, *[1.0, 1.02] * 5], False),
        ([0.0, *[1.0, 1.018] * 5], True),
    ],
)
def test_b_settled_is_a_deviation_of_the_last_ten_losses(losses: Sequence[float], settled: bool) -> None:
    """Of 1 and 1.02 in turns it is 0.01 √(10/9) = 0.0105; of 1 and 1.018 it is 0.0095."""
    assert FedALA().are_settled(losses) is settled


def test_b_an_epochs_loss_is_its_mean() -> None:
    """Batches of 8 of 45 examples, the last one of 5, with η = 0."""
    method = FedALA(share=1.0, eta=0.0)
    client = returning(method, training=Training(lr=0.1, batch=8))

    _, loss = method.learnt(client, TOP, RECEIVED, within("w", full(1.0)), client.data, "mixing 0")

    client.load(RECEIVED)
    assert loss == pytest.approx(F.cross_entropy(client.parts(client.data.x), client.data.y).item(), rel=1e-5)


def test_b_every_epoch_shuffles_anew() -> None:
    method = FedALA(share=1.0, settled=10.0, eta=0.0)
    client, orders = returning(method, w=None, training=Training(lr=0.1, batch=8)), []
    batches = client.batches

    def watched(*args: Any, **more: Any) -> Any:
        orders.append(args[1])
        return batches(*args, **more)

    client.batches = watched  # type: ignore[method-assign]
    method.mixed(client)

    assert orders == [f"mixing {epoch}" for epoch in range(11)]


# (c) the turn -------------------------------------------------------------------------------------------


def test_c_everything_is_trained() -> None:
    """Above: u and v move. Two epochs are FedAvg's from the mixture."""
    method = FedALA(epochs=2, eta=0.0)
    at = place(method, training=Training(lr=0.1, batch=8))
    kept = {**under("own", TOP), **full(0.5)}

    sent = at.take(Turn(1, ROUND, "c0", RECEIVED, 0, kept)).tensors or {}

    half = {**RECEIVED, **between(TOP, RECEIVED, within("w", full(0.5)))}
    fedavg = place(FedAvg(epochs=2), training=Training(lr=0.1, batch=8))
    assert digest(sent) == digest(fedavg.take(Turn(1, ROUND, "c0", half, 0, {})).tensors or {})


def test_c_running_statistics_are_those_received() -> None:
    """The mixing trains in training mode; what it moves is put back."""
    method = FedALA(eta=0.5)
    client = returning(method, model=Net(norm=True), training=Training(lr=0.1, batch=8))
    before = copied(dict(client.parts.named_buffers()))

    new = method.mixed(client)

    assert new
    assert digest(dict(client.parts.named_buffers())) == digest(before)


def test_c_what_stays_is_the_last_own_top_and_the_weights() -> None:
    outcome = place(FedALA()).take(
        Turn(1, ROUND, "c0", RECEIVED, 0, {**under("own", TOP), **full(0.5)}, watch=True)
    )

    assert outcome.trained is not None
    assert set(outcome.kept) == {f"{what}/head.{n}" for what in ("own", "w") for n in ("weight", "bias")}
    assert all(torch.equal(t, outcome.trained[n]) for n, t in within("own", outcome.kept).items())


def test_weights_that_never_move_are_fedavg() -> None:
    """C14-L1, to the bit; and without a layer to mix."""
    fedavg = digest(history(place(FedAvg()))[-1].server.shared)

    for method in (FedALA(eta=0.0, settled=10.0), FedALA(p=0)):
        assert digest(history(place(method))[-1].server.shared) == fedavg


def test_weights_of_zero_are_fedper() -> None:
    """C14-L2, to the bit: the trained model is that of a personal head, and the head is sent."""
    one = place(FedALA(eta=0.0)).take(
        Turn(1, ROUND, "c0", RECEIVED, 0, {**under("own", TOP), **full(0.0)}, watch=True)
    )
    two = place(FedPer()).take(Turn(1, ROUND, "c0", select(RECEIVED, "encoder"), 0, TOP, watch=True))

    assert one.trained is not None
    assert two.trained is not None
    assert digest(one.trained) == digest(two.trained)
    assert set(one.tensors or {}) == set(RECEIVED)


def test_the_first_turn_is_fedavgs() -> None:
    """C14-L5, to the bit: there is nothing to mix."""
    first = history(place(FedALA()), number=1)[-1]

    assert digest(first.server.shared) == digest(history(place(FedAvg()), number=1)[-1].server.shared)
    assert all(not within("w", held.kept) for held in first.held.values())


def test_weights_of_those_not_asked_do_not_change() -> None:
    """C14-L6; and those of everybody asked again have moved."""
    at_home = moved = 0
    for before, now in pairwise(history(place(FedALA(settled=10.0)), number=4, join=Join(number=4))):
        for k, held in before.held.items():
            w = digest(within("w", held.kept)), digest(within("w", now.held.of(k).kept))
            at_home += k not in now.cohort
            moved += k in now.cohort
            assert (w[0] == w[1]) is (k not in now.cohort)
    assert at_home
    assert moved


# (d) and (e) --------------------------------------------------------------------------------------------


def test_d_models_weigh_by_examples() -> None:
    """(1 · 2 + 3 · 6) / 4 = 5."""
    uploads = {"a": Upload(weights(head=2.0), 1), "b": Upload(weights(head=6.0), 3)}

    server = FedALA().aggregate(Server(weights(head=9.0)), uploads, ROUND, generator("aggregate"))

    assert values(server.shared) == {"head": 5.0}


def test_e_a_client_predicts_after_the_mixing_and_before_any_training() -> None:
    method = FedALA(eta=0.1)
    client = returning(method, stage=PERSONAL)

    (predict,) = method.personal(client).values()

    found = client.tensors()
    assert predict is client.parts
    mixed = returning(method, stage=PERSONAL)
    method.mixed(mixed)
    assert digest(found) == digest(mixed.tensors()) != digest(RECEIVED)


def test_e_anybody_predicts_with_what_was_received() -> None:
    client = returning(FedALA(), stage=GENERIC)

    (predict,) = FedALA().generic(client).values()

    assert predict is client.parts
    assert digest(client.tensors()) == digest(RECEIVED)


@pytest.mark.parametrize(("name", "value"), [("eta", 0), ("p", 0)])
def test_a_setting_that_makes_it_fedavg_is_said(name: str, value: int) -> None:
    (sentence,) = replace(FedALA(), **{name: value}).dull()

    assert sentence.startswith(f"{name} = {value}: ")
    assert sentence.endswith("this is FedAvg")
