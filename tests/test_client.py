"""A client in its turn: what fit moves and what it leaves alone."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import one_weight
from one_weight import One, weights
from pluribus.client import Client, Parts, cross_entropy, gradients, has_batch_norm
from pluribus.cohort import Join
from pluribus.errors import MethodError
from pluribus.method import Method
from pluribus.methods.fedavg import FedAvg
from pluribus.methods.fedper import FedPer
from pluribus.methods.fedrep import FedRep
from pluribus.methods.local import Local
from pluribus.seeds import generator
from pluribus.stage import PERSONAL, Stage
from pluribus.state import copied, digest, of_parts, select, within
from pluribus.training import Training
from pluribus.turn import Turn
from toy import PEOPLE, Net, history, place
from worlds import ThreeParts

ROUND = Stage("round", 1, 3)


def seated(
    method: Method | None = None,
    *,
    kept: dict[str, Tensor] | None = None,
    stage: Stage = ROUND,
    client: str = "c0",
    **settings: Any,
) -> Client:
    at = place(method or FedAvg(), **settings)
    return at.seat(Turn(1, stage, client, {}, 0, kept or {}))


def moved(client: Client, before: dict[str, Tensor]) -> set[str]:
    return {n for n, t in client.parts.state_dict().items() if not torch.equal(t, before[n])}


# fit ----------------------------------------------------------------------------------------------


def test_only_the_named_part_moves() -> None:
    client = seated()
    before = copied(client.parts.state_dict())

    client.fit(epochs=1, train=["head"])

    assert moved(client, before) == {"head.weight", "head.bias"}


def test_without_a_name_all_parts_move() -> None:
    client = seated()
    before = copied(client.parts.state_dict())

    client.fit(epochs=1)

    assert moved(client, before) == set(before)


def test_a_part_that_the_loss_ignores_is_an_error() -> None:
    client = seated()

    def loss(parts: Parts, x: Tensor, y: Tensor) -> Tensor:
        return parts.encoder(x).square().mean()  # type: ignore[no-any-return]

    client.fit(loss, epochs=1, train=["encoder"])
    for train in (["head"], ["encoder", "head"], []):
        with pytest.raises(MethodError, match="the loss does not depend on it"):
            client.fit(loss, epochs=1, train=train)


def test_an_error_in_the_loss_keeps_its_own_name() -> None:
    x = torch.ones(1, requires_grad=True)

    with pytest.raises(RuntimeError, match="scalar outputs"):
        gradients(torch.ones(2) * x, [x])


def test_a_part_that_does_not_exist_is_an_error_that_names_those_that_do() -> None:
    with pytest.raises(
        MethodError, match=r"no part \['haed'\] to train; the parts are \['encoder', 'head'\]"
    ):
        seated().fit(epochs=1, train=["haed"])


def test_running_statistics_of_a_frozen_part_still_move() -> None:
    client = seated(model=Net(norm=True))
    before = copied(client.parts.state_dict())

    client.fit(epochs=1, train=["head"])

    assert moved(client, before) == {
        "head.weight",
        "head.bias",
        "encoder.norm.running_mean",
        "encoder.norm.running_var",
        "encoder.norm.num_batches_tracked",
    }


def test_a_fit_is_in_training_mode_whatever_was_before() -> None:
    client = seated(model=Net(norm=True))
    client.parts.eval()

    client.fit(epochs=1)

    assert client.parts.encoder.norm.num_batches_tracked.item() == 6


def test_gradients_are_taken_only_for_what_is_trained() -> None:
    client = seated()
    seen: set[tuple[str, bool]] = set()

    def loss(parts: Parts, x: Tensor, y: Tensor) -> Tensor:
        seen.update((n, p.requires_grad) for n, p in parts.named_parameters())
        return cross_entropy(parts, x, y)

    client.fit(loss, epochs=1, train=["head"])

    assert {n for n, wanted in seen if wanted} == {"head.weight", "head.bias"}
    assert {n for n, wanted in seen if not wanted} == {"encoder.first.weight", "encoder.first.bias"}


def test_the_mean_loss_weighs_every_example_the_same() -> None:
    """Also those of a smaller last batch: nothing moves, so it is the loss over all 45."""
    client = seated(training=Training(lr=0.0, batch=44))

    client.fit(epochs=1)

    assert client.work.loss == pytest.approx(
        cross_entropy(client.parts, client.data.x, client.data.y).item(), rel=1e-6
    )


def test_after_a_fit_every_parameter_can_learn_again() -> None:
    client = seated()

    client.fit(epochs=1, train=["head"])

    assert all(p.requires_grad for p in client.parts.parameters())


def test_after_an_error_every_parameter_can_learn_again() -> None:
    client = seated()

    with pytest.raises(ZeroDivisionError):
        client.fit(lambda parts, x, y: torch.tensor(1 / 0), epochs=1, train=["head"])

    assert all(p.requires_grad for p in client.parts.parameters())


def test_the_number_of_steps_and_samples_and_the_mean_loss_by_hand() -> None:
    """
    Targets 5 and 9 in batches of one, η = 0.1, from w = 3, in one of two orders:
    5, 9:  ½·4 = 2, w = 3.2, ½·33.64 = 16.82, mean 9.41
    9, 5:  ½·36 = 18, w = 3.6, ½·1.96 = 0.98, mean 9.49
    """
    at = one_weight.place(FedAvg(), One(), a=[5.0, 9.0], training=Training(lr=0.1, batch=1))
    client = at.seat(Turn(1, ROUND, "a", weights(head=3.0), 0, {}))
    first = torch.randperm(2, generator=client.rng("all"))[0].item()

    steps = client.fit(epochs=1)

    assert (steps, client.work.samples) == (2, 2)
    assert client.work.loss == pytest.approx(9.41 if first == 0 else 9.49, abs=1e-9)


def test_the_loss_of_no_step_is_not_a_number() -> None:
    client = seated()

    assert client.fit(epochs=0) == 0
    assert client.work.loss != client.work.loss


def test_a_steps_whole_gradient_is_clipped() -> None:
    """Slope -3 at w = 2, cut to -0.5: 2 + 0.1 · 0.5 = 2.05 (clipping divides by norm + 1e-6)."""
    outcome = one_weight.turn(FedAvg(), One(), training=Training(lr=0.1, clip=0.5), head=2.0)

    assert one_weight.values(outcome.tensors)["head"] == pytest.approx(2.05, abs=1e-6)


def test_weight_decay_and_momentum_by_hand() -> None:
    """
    η = 0.1, decay 0.5, momentum 0.5.
    slope -3 + 1 = -2,  w = 2.2;    slope -2.8 + 1.1 = -1.7,  velocity -2.7,  w = 2.47
    """
    training = Training(lr=0.1, momentum=0.5, weight_decay=0.5, batch=1000)

    outcome = one_weight.turn(FedAvg(epochs=2), One(), training=training, head=2.0)

    assert one_weight.values(outcome.tensors)["head"] == pytest.approx(2.47, abs=1e-12)


def test_momentum_is_forgotten_between_two_fits() -> None:
    """Two steps from rest, each as if it were the first: 2.3 and 2.57."""
    at = one_weight.place(FedAvg(), One(), a=[5.0], training=Training(lr=0.1, momentum=0.9))
    client = at.seat(Turn(1, ROUND, "a", weights(head=2.0), 0, {}))

    client.fit(epochs=1)
    client.fit(epochs=1)

    assert one_weight.values(client.tensors())["head"] == pytest.approx(2.57, abs=1e-12)


def test_the_learning_rate_is_that_of_the_round() -> None:
    training = Training(lr=0.1, lr_at=((2, 0.01),))

    assert [seated(training=training, stage=Stage("round", t, 3)).lr for t in (1, 2)] == [0.1, 0.01]
    assert seated(training=training, stage=PERSONAL).lr == 0.1


# moments kept over rounds -------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{"optimiser": "adam"}, {"momentum": 0.9}])
def test_kept_moments_give_the_trajectory_of_an_unbroken_optimiser(settings: dict[str, Any]) -> None:
    """To the bit: two rounds of one client, and torch's optimiser over the same batches."""
    at = place(
        FedAvg(epochs=2),
        clients={"c2": PEOPLE["c2"]},
        training=Training(lr=0.05, batch=8, keep_moments=True, **settings),
    )
    now = history(at, number=2, join=Join())[-1]

    network, data = at.build(Net()).parts, PEOPLE["c2"].train
    params = list(network.parameters())
    optimiser: torch.optim.Optimizer = torch.optim.SGD(params, lr=0.05, momentum=0.9)
    if "optimiser" in settings:
        optimiser = torch.optim.Adam(params, lr=0.05)
    for t in (1, 2):
        rng = generator(0, "round", t, "c2", "all")
        for _ in range(2):
            for positions in torch.split(torch.randperm(len(data), generator=rng), 8):
                x, y = data.batch(positions)
                optimiser.zero_grad()
                torch.autograd.backward(nn.functional.cross_entropy(network(x), y))
                optimiser.step()

    for name, tensor in network.state_dict().items():
        assert torch.allclose(now.server.shared[name], tensor, rtol=1e-5, atol=1e-6), name


def test_moments_are_kept_only_if_the_experiment_says_so() -> None:
    kept = {
        keep: history(
            place(FedAvg(), training=Training(optimiser="adam", keep_moments=keep)),
            number=1,
            join=Join(number=1),
        )[0]
        for keep in (False, True)
    }

    assert {n for h in kept[False].held.values() for n in h.kept} == set()
    names = {n for h in kept[True].held.values() for n in h.kept}
    assert names == {f"moments/all/{i}.{m}" for i in range(4) for m in ("step", "exp_avg", "exp_avg_sq")}


def test_adams_steps_are_counted_over_rounds() -> None:
    now = history(
        place(FedAvg(), training=Training(optimiser="adam", batch=8, keep_moments=True)),
        number=3,
        join=Join(),
    )[-1]

    assert now.held["c0"].kept["moments/all/0.step"].item() == 3 * 6  # ⌈45 / 8⌉ = 6 batches a round


def test_each_phase_has_moments_of_its_own() -> None:
    client = seated(training=Training(momentum=0.9, keep_moments=True))

    client.fit(epochs=1, train=["head"])
    client.fit(epochs=1, train=["encoder"])

    assert set(within("moments/head", client.kept)) == {"0.momentum_buffer", "1.momentum_buffer"}
    assert client.kept["moments/encoder/0.momentum_buffer"].shape == (8, 6)


def test_an_optimiser_that_is_handed_in_goes_on_and_its_moments_are_left_to_its_owner() -> None:
    """Its velocity is 0 in the first fit, as that of a fresh one is, and in the second it is not."""
    training = Training(lr=0.05, momentum=0.5)
    one, two = seated(training=replace(training, keep_moments=True)), seated(training=training)
    optimiser, same = one.optimiser("head"), []

    for phase in ("first", "second"):
        one.fit(epochs=1, train=["head"], phase=phase, optimiser=optimiser)
        two.fit(epochs=1, train=["head"], phase=phase)
        same.append(digest(one.tensors()) == digest(two.tensors()))

    assert same == [True, False]
    assert not within("moments", one.kept)


# batches ------------------------------------------------------------------------------------------


def sizes(batch: int, last: str, examples: int, norm: bool = False) -> list[int]:
    client = seated(model=Net(norm=norm), training=Training(batch=batch, last_batch=last))  # type: ignore[arg-type]
    return [len(piece) for piece in client.cut(torch.arange(examples))]


@pytest.mark.parametrize(
    ("last", "examples", "norm", "expected"),
    [
        ("keep", 10, False, [4, 4, 2]),
        ("drop", 10, False, [4, 4]),
        ("keep", 8, False, [4, 4]),
        ("drop", 8, False, [4, 4]),
        ("keep", 9, False, [4, 4, 1]),
        ("keep", 9, True, [4, 4]),
        ("drop", 9, True, [4, 4]),
        ("drop", 10, True, [4, 4]),
        ("keep", 3, True, [3]),
        ("drop", 3, False, [3]),  # less than a batch is kept in any case
        ("keep", 1, False, [1]),
        ("drop", 1, False, [1]),
        ("keep", 1, True, []),
        ("keep", 0, False, []),
        ("drop", 0, True, []),
    ],
)
def test_the_last_batch(last: str, examples: int, norm: bool, expected: list[int]) -> None:
    assert sizes(4, last, examples, norm) == expected


def test_a_batch_of_one_is_left_out_only_if_a_part_that_sees_it_normalises_batches() -> None:
    """Nine examples in batches of four; the encoder normalises, the head does not."""
    client = seated(model=Net(norm=True), training=Training(batch=4))
    nine = client.data.take(torch.arange(9))

    found = {
        part: [len(y) for _, y in client.batches(1, on=nine, into=[part])] for part in ("encoder", "head")
    }

    assert found == {"encoder": [4, 4], "head": [4, 4, 1]}


def test_every_epoch_shows_each_example_once_in_a_new_order() -> None:
    client = seated(training=Training(batch=1))
    ids = torch.arange(45.0)[:, None].expand(45, 6)
    client.data = replace(client.data, inputs=ids)

    seen = [int(x[0, 0]) for x, _ in client.batches(2)]

    assert sorted(seen[:45]) == sorted(seen[45:]) == list(range(45))
    assert seen[:45] != seen[45:]


def test_batches_depend_on_seed_stage_round_key_and_phase_and_on_nothing_else() -> None:
    def order(phase: str = "all", **settings: Any) -> list[float]:
        return [x.sum().item() for x, _ in seated(**settings).batches(1, phase)]

    assert order() == order()
    others = [
        order("head"),
        order(seed=1),
        order(stage=Stage("round", 2, 3)),
        order(stage=Stage("other", 1, 3)),
        order(clients={"c0": replace(PEOPLE["c0"], key="k")}),
    ]
    assert all(o != order() for o in others)
    assert order(clients={"x": replace(PEOPLE["c0"], id="x")}, client="x") == order()


def test_without_epochs_batches_have_no_end() -> None:
    batches = seated(training=Training(batch=45)).batches()

    assert len([next(batches) for _ in range(50)]) == 50


def test_in_order_is_the_order_in_which_they_are_stored() -> None:
    client = seated()

    pieces = list(client.in_order(20))

    assert [len(y) for _, y in pieces] == [20, 20, 5]
    assert torch.equal(torch.cat([x for x, _ in pieces]), client.data.x)


def test_it_can_train_on_other_examples_than_its_own() -> None:
    client = seated(training=Training(batch=4))

    client.fit(epochs=1, on=client.data.take(torch.tensor([0, 0, 0, 1, 2])))

    assert client.work.samples == 5


# features of a frozen part, computed once -----------------------------------------------


@pytest.mark.parametrize("model", [Net(), ThreeParts()])
def test_reusing_features_of_a_frozen_part_changes_no_number(model: Any) -> None:
    """To 1e-6: batches of another size are summed in another order."""
    on, off = (
        history(
            place(FedRep(), model=model, training=Training(batch=8, momentum=0.9, reuse=reuse)), number=2
        )[-1]
        for reuse in (True, False)
    )

    assert on.samples == off.samples
    for name, tensor in on.server.shared.items():
        assert torch.allclose(tensor, off.server.shared[name], rtol=0, atol=1e-6)
    for client, held in on.held.items():
        assert all(
            torch.allclose(t, off.held[client].kept[n], rtol=0, atol=1e-6) for n, t in held.kept.items()
        )


def test_a_frozen_part_runs_once_and_not_once_an_epoch() -> None:
    client = seated(training=Training(batch=8))
    seen: list[int] = []
    client.parts.encoder.register_forward_hook(lambda module, given, out: seen.append(len(out)))

    client.fit(epochs=5, train=["head"], on=client.through("encoder"))

    assert sum(seen) < 45 + 8, "its 45 examples, and a few to see whether answers repeat"
    assert client.work.samples == 5 * 45


def test_after_a_fit_behind_a_part_the_network_is_whole_again() -> None:
    client, x = seated(), torch.ones(2, 6)

    client.fit(epochs=1, train=["head"], on=client.through("encoder"))

    assert torch.equal(client.parts(x), client.parts.head(client.parts.encoder(x)))
    with pytest.raises(ZeroDivisionError):
        client.fit(
            lambda parts, x, y: torch.tensor(1 / 0), epochs=1, train=["head"], on=client.through("encoder")
        )
    assert torch.equal(client.parts(x), client.parts.head(client.parts.encoder(x)))


@dataclass(frozen=True)
class Behind:
    """The toy network with this layer at the end of its encoder."""

    layer: Callable[[], nn.Module]

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        network = Net().build(shape, classes)
        encoder = nn.Sequential(network.get_submodule("encoder"), self.layer())
        return nn.Sequential(OrderedDict(encoder=encoder, head=network.get_submodule("head")))


class Noise(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.randn_like(x)


@pytest.mark.parametrize("layer", [nn.Dropout, lambda: nn.BatchNorm1d(8), Noise])
def test_features_that_differ_from_time_to_time_are_computed_each_time(
    layer: Callable[[], nn.Module],
) -> None:
    client = seated(model=Behind(layer))

    assert client.through("encoder") is client.data


def test_only_the_first_parts_of_the_network_can_be_gone_through() -> None:
    client = seated(model=ThreeParts())

    assert client.through("projector") is client.data
    assert client.through("encoder", "projector").through == ("encoder", "projector")
    assert client.through("encoder").through == ("encoder",)
    assert client.through() is client.data


def test_reuse_can_be_turned_off() -> None:
    client = seated(training=Training(reuse=False))

    assert client.through("encoder") is client.data


def test_who_trains_on_no_examples_at_all_trains_on_none() -> None:
    """And not on its own instead."""
    client = seated()

    assert client.fit(epochs=1, on=client.data.take(torch.arange(0))) == 0


# running statistics -------------------------------------------------------------------------------


def test_statistics_that_did_not_arrive_are_measured_on_its_own_inputs() -> None:
    """130 examples are two batches of 65: the mean of both counts, and no weight moves."""
    client = seated(model=Net(norm=True))
    many = replace(client.data, index=torch.arange(130) % len(client.data))
    client, before = replace(client, data=many), copied(client.parts.state_dict())
    norm = client.parts.encoder.norm
    with torch.no_grad():
        inner = nn.Sequential(client.parts.encoder.first, client.parts.encoder.relu)(many.x).split(65)

    client.measure_statistics("encoder")

    assert moved(client, before) == {
        f"encoder.norm.{n}" for n in ("running_mean", "running_var", "num_batches_tracked")
    }
    assert torch.allclose(norm.running_mean, torch.stack([x.mean(0) for x in inner]).mean(0), atol=1e-6)
    assert torch.allclose(norm.running_var, torch.stack([x.var(0) for x in inner]).mean(0), atol=1e-6)
    assert (norm.momentum, norm.training) == (0.1, False)


def test_statistics_that_arrived_are_left_as_they_are() -> None:
    at = place(FedAvg(), model=Net(norm=True))
    client = at.seat(Turn(1, ROUND, "c0", history(at, number=1)[-1].server.shared, 0, {}))
    before = copied(client.parts.state_dict())

    client.measure_statistics("encoder")

    assert moved(client, before) == set()


@pytest.mark.parametrize("examples", [0, 1])
def test_of_no_or_one_example_nothing_is_measured(examples: int) -> None:
    client = seated(model=Net(norm=True))
    client = replace(client, data=client.data.take(torch.arange(examples)))
    before = copied(client.parts.state_dict())

    client.measure_statistics("encoder")

    assert moved(client, before) == set()


# tensors ------------------------------------------------------------------------------------------


def test_what_may_travel_is_copied() -> None:
    client = seated(FedPer())

    sent = client.tensors()
    client.fit(epochs=1)

    assert set(sent) == {"encoder.first.weight", "encoder.first.bias"}
    assert not torch.equal(sent["encoder.first.weight"], client.parts.encoder.first.weight)
    assert client.tensors("head") == {}
    assert set(seated().tensors("head")) == {"head.weight", "head.bias"}


def test_loading_a_name_nobody_has_is_an_error() -> None:
    with pytest.raises(MethodError, match=r"client 'c0' has no tensor \['haed.weight'\]"):
        seated().load({"haed.weight": torch.zeros(4, 8)})


def test_loading_a_tensor_of_another_shape_is_an_error() -> None:
    with pytest.raises(MethodError, match=r"client 'c0': head.weight is \(4, 8\), not \(8, 4\)"):
        seated().load({"head.weight": torch.zeros(8, 4)})


def test_loading_passes_over_what_the_method_has_named_for_itself() -> None:
    client = seated()
    before = digest(client.parts.state_dict())

    client.load({"control/head.weight": torch.zeros(1)})

    assert digest(client.parts.state_dict()) == before


def test_keep_replaces_all_that_was_there_under_the_name() -> None:
    client = seated(kept={"own/a": torch.zeros(1), "own/b": torch.zeros(1), "owner/c": torch.zeros(1)})
    value = torch.ones(1)

    client.keep("own", {"a": value})
    value.add_(1)

    assert set(client.kept) == {"own/a", "owner/c"}
    assert client.kept["own/a"].item() == 1


def test_what_stays_is_kept_at_the_end() -> None:
    client = seated(Local())

    client.fit(epochs=1)
    client.keep_parts()

    assert digest(of_parts(client.kept)) == digest(client.parts.state_dict())


def test_parts_called_are_the_network_in_its_own_order() -> None:
    client, x = seated(), torch.ones(2, 6)

    features = client.parts.features(x)

    assert torch.equal(features, client.parts.encoder(x))
    assert torch.equal(client.parts(x), client.parts.head(features))
    assert set(select(client.parts.state_dict(), "head")) == {"head.weight", "head.bias"}


def test_batch_normalisation_is_known_by_its_type() -> None:
    assert has_batch_norm(nn.Sequential(nn.Sequential(nn.BatchNorm2d(3))))
    assert not has_batch_norm(nn.ModuleDict({"batch_norm": nn.GroupNorm(1, 3)}))
