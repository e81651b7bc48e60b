"""SCAFFOLD, by hand. Letters as in its file."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import one_weight
from contracts import ENCODER, HEAD, World
from one_weight import One, Two, values, weights
from pluribus.cohort import Join
from pluribus.engine import Round
from pluribus.errors import ClientFailed
from pluribus.method import Server, Upload
from pluribus.methods.scaffold import SCAFFOLD, full_gradient
from pluribus.seeds import generator
from pluribus.stage import GENERIC, PERSONAL, Stage
from pluribus.state import add, average, square_distance, under, within
from pluribus.training import Training
from pluribus.turn import Model, Turn
from toy import PEOPLE, Net, history, place
from worlds import Double

BOTH = ENCODER + HEAD
WORLD = World(up=2 * BOTH, averages=False)
ROUND = Stage("round", 1, 1)
EXACT = {k: replace(p, train=replace(p.train, inputs=p.train.inputs.double())) for k, p in PEOPLE.items()}
STEEP = {"a": 1.0, "b": 2.0, "c": 3.0}


def control(**parts: float) -> dict[str, Tensor]:
    return under("control", weights(**parts))


def test_a_and_b_two_corrected_steps_and_the_new_control_by_hand() -> None:
    """
    L(w) = ½ (w - 5)², w_t = 2, c = 0.3, c_k = -0.2, η = 0.1.
    (a)  slope -3   + 0.2 + 0.3 = -2.5     y = 2.25
         slope -2.75 + 0.5      = -2.25    y = 2.475
    (b)  c_k⁺ = -0.2 - 0.3 + (2 - 2.475) / (2 · 0.1) = -2.875, the mean of -3 and -2.75; change -2.675
    """
    at = one_weight.place(SCAFFOLD(epochs=2), One(w=7.0), a=[5.0])
    message = {**weights(head=2.0), **control(head=0.3)}

    outcome = at.take(Turn(1, one_weight.FIRST, "a", message, 0, control(head=-0.2)))

    sent = outcome.tensors or {}
    assert values({"head.weight": sent["head.weight"]}) == pytest.approx({"head": 2.475}, abs=1e-12)
    assert values(within("control", outcome.kept)) == pytest.approx({"head": -2.875}, abs=1e-12)
    assert values(within("control", sent)) == pytest.approx({"head": -2.675}, abs=1e-12)


def test_a_the_correction_takes_in_every_parameter() -> None:
    """u = 2, v = 3, a = 5, η = 0.1, c_u - c_k,u = 1, c_v - c_k,v = -2.
    u: 2 - 0.1 (3 + 1) = 1.6,    v: 3 - 0.1 (2 - 2) = 3
    """
    at = one_weight.place(SCAFFOLD(), Two(), a=[5.0])
    message = {**weights(encoder=2.0, head=3.0), **control(encoder=1.5, head=0.0)}

    outcome = at.take(Turn(1, one_weight.FIRST, "a", message, 0, control(encoder=0.5, head=2.0)))

    sent = {n: t for n, t in (outcome.tensors or {}).items() if "/" not in n}
    assert values(sent) == pytest.approx({"encoder": 1.6, "head": 3.0}, abs=1e-12)


def test_a_the_correction_is_a_sum_over_all_weights_of_a_real_network() -> None:
    """One full batch: y = w_t - η (∇L(w_t) + c), c_k = 0."""
    at = place(SCAFFOLD(), clients=EXACT, model=Double(), training=Training(lr=0.1, batch=1000))
    initial, network, data = at.built("c0").initial, at.build(Double()).parts, EXACT["c0"].train
    c = {n: torch.full_like(t, 0.3) for n, t in initial.items()}

    sent = at.take(Turn(1, ROUND, "c0", {**initial, **under("control", c)}, 0, {})).tensors or {}

    loss = torch.nn.functional.cross_entropy(network(data.x), data.y)
    names, params = zip(*network.named_parameters(), strict=True)
    for name, slope in zip(names, torch.autograd.grad(loss, params), strict=True):
        assert torch.allclose(sent[name], initial[name] - 0.1 * (slope + 0.3), rtol=0, atol=1e-10)


def test_b_without_a_step_the_control_stays_as_it_was() -> None:
    """η = 0 and 0 epochs: 0 / 0 is not asked for."""
    for method, training in ((SCAFFOLD(), Training(lr=0.0, batch=8)), (SCAFFOLD(epochs=0), one_weight.STEP)):
        outcome = one_weight.turn(method, One(w=7.0), training=training, kept=control(head=-0.2), head=2.0)

        assert values(within("control", outcome.kept)) == {"head": -0.2}
        assert values(within("control", outcome.tensors or {})) == {"head": 0.0}


def test_b_option_i_is_the_gradient_where_it_began_by_hand() -> None:
    """(w_t - a) over a = 5 and a = 9, w_t = 2: (-3 - 7) / 2 = -5, whatever the steps were."""
    at = one_weight.place(SCAFFOLD(option="i", epochs=3), One(w=7.0), a=[5.0, 9.0])

    outcome = at.take(Turn(1, one_weight.FIRST, "a", weights(head=2.0), 0, control(head=-0.2)))

    assert values(within("control", outcome.kept)) == pytest.approx({"head": -5.0}, abs=1e-6)
    assert values(within("control", outcome.tensors or {})) == pytest.approx({"head": -4.8}, abs=1e-6)


def test_b_option_i_weighs_its_batches_by_their_size() -> None:
    """130 examples in batches of 128 and 2: the same as one gradient over all."""
    data = EXACT["c0"].train
    many = replace(data, index=torch.arange(130) % len(data))
    clients = {"c0": replace(EXACT["c0"], train=many)}
    at = place(SCAFFOLD(option="i"), clients=clients, model=Double())
    client = at.seat(Turn(1, ROUND, "c0", at.built("c0").initial, 0, {}))

    found = full_gradient(client)

    loss = torch.nn.functional.cross_entropy(client.parts(many.x), many.y)
    names, params = zip(*client.parts.named_parameters(), strict=True)
    for name, slope in zip(names, torch.autograd.grad(loss, params), strict=True):
        assert torch.allclose(found[name], slope, rtol=0, atol=1e-12)


def test_b_option_i_sums_its_batches_in_float64() -> None:
    """To the bit: 300 examples in batches of 128, 128 and 44; each slope is float32, their sum is not."""
    data = PEOPLE["c0"].train
    many = replace(data, index=torch.arange(300) % len(data))
    at = place(SCAFFOLD(option="i"), clients={"c0": replace(PEOPLE["c0"], train=many)})
    client = at.seat(Turn(1, ROUND, "c0", at.built("c0").initial, 0, {}))

    found = full_gradient(client)

    names, params = zip(*client.parts.named_parameters(), strict=True)
    total = [torch.zeros_like(p, dtype=torch.float64) for p in params]
    for rows in torch.split(torch.arange(300), 128):
        x, y = many.batch(rows)
        loss = torch.nn.functional.cross_entropy(client.parts(x), y) * (len(rows) / 300)
        total = [t + g.double() for t, g in zip(total, torch.autograd.grad(loss, params), strict=True)]
    assert all(torch.equal(found[n], t.float()) for n, t in zip(names, total, strict=True))


def test_b_option_i_moves_no_running_statistics() -> None:
    at = place(SCAFFOLD(option="i", epochs=0), model=Net(norm=True))
    initial = at.built("c0").initial

    now = history(at, number=1)[-1]

    assert all(torch.equal(t, initial[n]) for n, t in now.server.shared.items())


def test_c_and_d_the_server_by_hand() -> None:
    """
    w_t = 2, c = 0.3, η_g = 0.5; two of K = 4 clients send 3 and 6, and changes -1 and 0.2.
    Sizes do not count.
    (c)  2 + 0.5 ((3 - 2) + (6 - 2)) / 2 = 3.25
    (d)  0.3 + (-1 + 0.2) / 4 = 0.1
    """
    uploads = {
        "a": Upload({**weights(head=3.0), **control(head=-1.0)}, 1),
        "b": Upload({**weights(head=6.0), **control(head=0.2)}, 30),
    }
    before = Server(weights(head=2.0), {"clients/number": torch.tensor(4), **control(head=0.3)})

    server = SCAFFOLD(server_lr=0.5).aggregate(before, uploads, ROUND, generator("aggregate"))

    assert values(server.shared) == pytest.approx({"head": 3.25})
    assert values(within("control", server.memory)) == pytest.approx({"head": 0.1})


def test_c_running_statistics_are_averaged_and_have_no_control() -> None:
    now = history(place(SCAFFOLD(server_lr=0.5), model=Net(norm=True)), number=1, join=Join(), watch=1)[0]

    mean = average(list(now.trained.values()), [1] * 6)
    assert torch.allclose(
        now.server.shared["encoder.norm.running_mean"], mean["encoder.norm.running_mean"], atol=1e-7
    )
    assert not [n for n in now.server.memory if "running" in n]


@pytest.mark.parametrize(("question", "stage"), [("personal", PERSONAL), ("generic", GENERIC)])
def test_e_everybody_predicts_with_what_was_received(question: str, stage: Stage) -> None:
    at = one_weight.place(SCAFFOLD(), One(w=2.0), a=[5.0])
    message = SCAFFOLD().message(Server(weights(head=4.0), control(head=9.0)), "a", stage)

    predictors = getattr(SCAFFOLD(), question)(at.seat(Turn(0, stage, "a", message, 0, {})))

    x = torch.tensor([[5.0]], dtype=torch.float64)
    assert message.keys() == {"head.weight"}
    assert torch.allclose(
        predictors["network"](x), one_weight.logits(torch.tensor([0.5], dtype=torch.float64))
    )


@pytest.mark.parametrize("option", ["i", "ii"])
@pytest.mark.parametrize("join", [Join(), Join(number=3)])
def test_the_server_knows_the_mean_of_all_controls(option: Any, join: Join) -> None:
    """C5-L1: c = (1/K) Σ c_k always; who never trained has 0."""
    at = place(SCAFFOLD(option=option, epochs=2), clients=EXACT, model=Double())
    for now in history(at, join=join):
        c = within("control", now.server.memory)
        kept = [within("control", held.kept) for held in now.held.values()]

        assert c
        for name in c:
            mean = torch.stack([t[name] for t in kept]).sum(0) / len(EXACT)
            assert torch.allclose(c[name], mean, rtol=0, atol=1e-10)


def test_the_new_control_is_the_mean_of_the_gradients_that_were_computed() -> None:
    """C5-L2, over minibatches, the last one smaller, with weight decay as part of the gradients."""
    at = place(
        SCAFFOLD(epochs=2),
        clients=EXACT,
        model=Double(),
        training=Training(lr=0.1, batch=8, weight_decay=0.01),
    )
    initial, data = at.built("c1").initial, EXACT["c1"].train
    c = {n: torch.full_like(t, 0.05) for n, t in initial.items()}
    mine = {n: torch.full_like(t, -0.1) for n, t in initial.items()}

    kept = at.take(Turn(1, ROUND, "c1", {**initial, **under("control", c)}, 0, under("control", mine))).kept

    network, rng, raw = at.build(Double()).parts, generator(0, "round", 1, "c1", "all"), []
    params = dict(network.named_parameters())
    for _ in range(2):
        for rows in torch.split(torch.randperm(len(data), generator=rng), 8):
            x, y = data.batch(rows)
            loss = torch.nn.functional.cross_entropy(network(x), y)
            g = dict(zip(params, torch.autograd.grad(loss, list(params.values())), strict=True))
            raw.append({n: g[n] + 0.01 * p.detach() for n, p in params.items()})
            with torch.no_grad():
                for n, p in params.items():
                    p.sub_(0.1 * (raw[-1][n] + c[n] - mine[n]))
    mean = average(raw, [1] * len(raw))
    assert all(torch.allclose(t, mean[n], rtol=0, atol=1e-10) for n, t in within("control", kept).items())


def test_the_first_round_is_fedavg_where_everybody_counts_the_same() -> None:
    """C5-L3, to 1e-6: all controls are 0."""
    now = history(place(SCAFFOLD(epochs=2)), number=1, join=Join(), watch=1)[0]

    mean = average(list(now.trained.values()), [1] * 6)
    assert all(torch.allclose(t, mean[n], rtol=0, atol=1e-6) for n, t in now.server.shared.items())


def test_with_one_full_batch_every_round_is_one_step_on_everybodys_mean() -> None:
    """C5-L4, to 1e-10: the corrections cancel."""
    training = Training(lr=0.1, batch=1000)
    at = place(SCAFFOLD(), clients=EXACT, model=Double(), training=training)
    network = at.build(Double()).parts
    for now in history(at, join=Join()):
        losses = [torch.nn.functional.cross_entropy(network(p.train.x), p.train.y) for p in EXACT.values()]
        names, params = zip(*network.named_parameters(), strict=True)
        slopes = torch.autograd.grad(sum(losses, torch.zeros(())) / len(losses), params)
        with torch.no_grad():
            for p, g in zip(params, slopes, strict=True):
                p.sub_(0.1 * g)
        mine = {n: p.detach() for n, p in zip(names, params, strict=True)}
        assert square_distance(mine, now.server.shared) < 1e-20


def last_of(method: SCAFFOLD, join: Join, rounds: int, lr: float = 0.05) -> Round:
    def steep(client: str) -> Model:
        return One(w=2.0, curvature=STEEP[client])

    targets = {"a": [1.0], "b": [4.0], "c": [7.0]}
    return history(
        one_weight.place(method, steep, training=Training(lr=lr, batch=1), **targets),  # type: ignore[arg-type]
        number=rounds,
        join=join,
    )[-1]


@pytest.mark.parametrize(("join", "rounds"), [(Join(), 60), (Join(number=2), 150)])
def test_with_many_steps_it_ends_in_the_optimum_of_everybodys_mean(join: Join, rounds: int) -> None:
    """C5-L5: Σ c_k a_k / Σ c_k = (1 + 8 + 21) / 6 = 5, at a constant rate, with 5 steps a turn."""
    now = last_of(SCAFFOLD(epochs=5), join, rounds)

    assert values(now.server.shared)["head"] == pytest.approx(5.0, abs=1e-7)


def test_identical_clients_correct_nothing() -> None:
    """C5-L6: the mean control is everybody's own, so each step is a plain one."""
    at = one_weight.place(SCAFFOLD(epochs=3), One(w=2.0), a=[5.0], b=[5.0])
    now = history(at, number=4, join=Join())[-1]

    assert values(now.server.shared)["head"] == pytest.approx(5 - 3 * 0.9**12, abs=1e-12)


def test_the_control_doubles_what_travels() -> None:
    """Down w alone before the first round, then w and c; up y and the change of c_k."""
    one, two = history(place(SCAFFOLD()), number=2)

    assert set(one.down.values()) == {BOTH}
    assert set(two.down.values()) == {2 * BOTH}
    assert set(one.up.values()) == set(two.up.values()) == {2 * BOTH}


@pytest.mark.parametrize("training", [Training(momentum=0.9), Training(optimiser="adam"), Training(clip=1.0)])
def test_option_ii_is_refused_where_steps_are_not_plain(training: Training) -> None:
    with pytest.raises(ClientFailed, match="option ii needs plain steps"):
        history(place(SCAFFOLD(), training=training), number=1)

    assert history(place(SCAFFOLD(option="i"), training=training), number=1)


def test_the_change_of_control_is_what_was_kept_less_what_was_kept_before() -> None:
    old = under("control", {n: torch.ones_like(t) for n, t in place(SCAFFOLD()).built("c0").initial.items()})
    outcome = place(SCAFFOLD()).take(
        Turn(1, ROUND, "c0", dict(place(SCAFFOLD()).built("c0").initial), 0, old)
    )

    change = within("control", outcome.tensors or {})
    expected = add(within("control", outcome.kept), within("control", old), -1)
    assert all(torch.equal(change[n], t) for n, t in expected.items())
