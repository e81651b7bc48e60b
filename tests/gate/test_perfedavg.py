"""Per-FedAvg's meta-gradient, worked out."""

from dataclasses import replace

import torch
from torch.func import grad

from gate.by_hand import FULL_BATCH, loss_of, near, seated
from gate.perfedavg import PerFedAvg, slope, weights
from pluribus.state import add, copied, digest
from toy import Net, place

ONE = PerFedAvg(alpha=0.3, beta=1.0, steps=1, delta=1e-2)


def client_of(method, **changes):
    return seated(place(method, **{"training": FULL_BATCH, **changes}))


def moved(client, before):
    return add(before, weights(client), -1)


def test_one_step_is_the_gradient_of_the_loss_after_a_step():
    """One full batch, β = 1: w - w_1 = ∇ of L(w - α ∇L(w)), by torch.func. The probes err by order δ²."""
    client = client_of(ONE)
    w, x, y = weights(client), client.data.x, client.data.y

    ONE.train(client)

    def after_a_step(v):
        g = grad(loss_of)(v, x, y)
        return loss_of({n: t - 0.3 * g[n] for n, t in v.items()}, x, y)

    exact = grad(after_a_step)(w)
    assert near(moved(client, w), exact, atol=2e-3)
    first_order = grad(loss_of)({n: t - 0.3 * grad(loss_of)(w, x, y)[n] for n, t in w.items()}, x, y)
    assert not near(first_order, exact, atol=2e-3)


def test_first_order_leaves_the_second_derivative_out():
    method = replace(ONE, hessian_free=False)
    client = client_of(method)
    w, x, y = weights(client), client.data.x, client.data.y

    method.train(client)

    g = grad(loss_of)(w, x, y)
    assert near(moved(client, w), grad(loss_of)({n: t - 0.3 * g[n] for n, t in w.items()}, x, y))


def test_without_inner_steps_all_of_it_is_gradient_descent():
    """C7-L1: α = 0, three full batches of β = 0.2."""
    ends = []
    for hessian_free in (True, False):
        client = client_of(replace(ONE, alpha=0.0, beta=0.2, steps=3, hessian_free=hessian_free))
        w, x, y = weights(client), client.data.x, client.data.y
        replace(ONE, alpha=0.0, beta=0.2, steps=3, hessian_free=hessian_free).train(client)
        for _ in range(3):
            w = add(w, grad(loss_of)(w, x, y), -0.2)
        ends.append(near(weights(client), w))

    assert ends == [True, True]


def test_each_step_takes_new_batches():
    """Four steps of three batches of 8 are 96 examples, of two 64."""
    work = []
    for hessian_free in (True, False):
        method = replace(ONE, steps=4, hessian_free=hessian_free)
        client = client_of(method, training=replace(FULL_BATCH, batch=5))
        method.train(client)
        work.append(client.work.samples)

    assert work == [4 * 4 * 5, 4 * 2 * 5], "the third batch is looked at twice"


def test_the_personal_model_is_one_step_away():
    client = client_of(PerFedAvg(alpha=0.3))
    w, x, y = weights(client), client.data.x, client.data.y

    PerFedAvg(alpha=0.3).personal(client)

    assert near(weights(client), add(w, grad(loss_of)(w, x, y), -0.3))


def test_without_inner_steps_personal_is_generic():
    """C7-L4."""
    client = client_of(PerFedAvg(alpha=0.0))
    before = weights(client)

    PerFedAvg(alpha=0.0).personal(client)

    assert digest(weights(client)) == digest(before)


def test_running_statistics_move_in_the_pass_at_the_inner_weights_only():
    """They end as after one pass at w - α ∇L(w)."""
    method = replace(ONE, steps=1)
    one, two = (client_of(method, model=Net(norm=True)) for _ in range(2))
    start = weights(one)
    batch = one.data.batch(torch.arange(len(one.data)))

    method.train(one)
    expected = buffers_after(two, start, batch)

    assert near(copied(dict(one.parts.named_buffers())), expected)


def buffers_after(client, w, batch):
    before = copied(dict(client.parts.named_buffers()))
    client.parts.train()
    g = slope(client, w, batch)
    client.load(before)
    slope(client, add(w, g, -0.3), batch)
    return copied(dict(client.parts.named_buffers()))
