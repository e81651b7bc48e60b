"""FedDyn, by hand. Letters as in its file."""

from dataclasses import replace

import pytest
import torch

import one_weight
from contracts import ENCODER, HEAD, World
from one_weight import One, Two, values, weights
from pluribus.cohort import Join
from pluribus.engine import Round
from pluribus.method import Server, Upload
from pluribus.methods.feddyn import FedDyn
from pluribus.methods.fedprox import FedProx
from pluribus.seeds import generator
from pluribus.stage import GENERIC, PERSONAL, Stage
from pluribus.state import average, digest, under, within
from pluribus.training import Training
from pluribus.turn import Turn
from toy import PEOPLE, Net, history, place
from worlds import Double

WORLD = World(down=ENCODER + HEAD, up=ENCODER + HEAD, averages=False)
ROUND = Stage("round", 1, 1)
EXACT = {
    k: replace(p, train=replace(p.train, inputs=p.train.inputs.double()),
               test=replace(p.test, inputs=p.test.inputs.double()))
    for k, p in PEOPLE.items()
}  # fmt: skip


def memory(h: float, clients: int) -> dict[str, torch.Tensor]:
    return {"clients/number": torch.tensor(clients), **under("dual", weights(head=h))}


def test_a_and_b_two_steps_and_the_linear_term_after_them_by_hand() -> None:
    """
    L(w) = ½ (w - 5)², w_t = 2, g = 0.4, α = 0.5, η = 0.1.
    (a)  slope -3   - 0.4 + 0.5 · 0    = -3.4      w = 2.34
         slope -2.66 - 0.4 + 0.5 · 0.34 = -2.89    w = 2.629
    (b)  g = 0.4 - 0.5 · 0.629 = 0.0855
    """
    outcome = one_weight.turn(
        FedDyn(epochs=2, alpha=0.5), One(w=7.0), kept=under("dual", weights(head=0.4)), head=2.0
    )

    assert values(outcome.tensors) == pytest.approx({"head": 2.629}, abs=1e-12)
    assert values(within("dual", outcome.kept)) == pytest.approx({"head": 0.0855}, abs=1e-12)


def test_a_both_terms_take_in_every_parameter() -> None:
    """u = 2, v = 3, a = 5, α = 0.5, η = 0.1, g_u = 1, g_v = -1.
    step 1, d = 1:        u: 2 - 0.1 (3 - 1) = 1.8                     v: 3 - 0.1 (2 + 1) = 2.7
    step 2, d = -0.14:    u: 1.8 - 0.1 (2.7 · -0.14 - 1 - 0.5 · 0.2) = 1.9478
                          v: 2.7 - 0.1 (1.8 · -0.14 + 1 - 0.5 · 0.3) = 2.6402
    """
    outcome = one_weight.turn(
        FedDyn(epochs=2, alpha=0.5),
        Two(),
        kept=under("dual", weights(encoder=1.0, head=-1.0)),
        encoder=2.0,
        head=3.0,
    )

    assert values(outcome.tensors) == pytest.approx({"encoder": 1.9478, "head": 2.6402}, abs=1e-12)
    assert values(within("dual", outcome.kept)) == pytest.approx({"encoder": 1.0261, "head": -0.8201})


def test_a_both_terms_are_sums_over_all_weights_of_a_real_network() -> None:
    """One full batch: w = w_t - η (∇L(w_t) - g)."""
    at = place(FedDyn(alpha=0.7), clients=EXACT, model=Double(), training=Training(lr=0.1, batch=1000))
    initial, network, data = at.built("c0").initial, at.build(Double()).parts, EXACT["c0"].train
    g = {n: torch.full_like(t, 0.3) for n, t in initial.items()}

    sent = at.take(Turn(1, ROUND, "c0", initial, 0, under("dual", g))).tensors or {}

    loss = torch.nn.functional.cross_entropy(network(data.x), data.y)
    names, params = zip(*network.named_parameters(), strict=True)
    for name, slope in zip(names, torch.autograd.grad(loss, params), strict=True):
        assert torch.allclose(sent[name], initial[name] - 0.1 * (slope - 0.3), rtol=0, atol=1e-10)


def test_c_and_d_the_server_by_hand() -> None:
    """
    w_t = 2, h = 0.3, α = 0.5, two of K = 4 clients send 3 and 6; sizes do not count.
    (c)  h = 0.3 - 0.5 (1 + 4) / 4 = -0.325
    (d)  w = 4.5 + 0.325 / 0.5 = 5.15
    """
    uploads = {"a": Upload(weights(head=3.0), 1), "b": Upload(weights(head=6.0), 30)}

    server = FedDyn(alpha=0.5).aggregate(
        Server(weights(head=2.0), memory(0.3, 4)), uploads, ROUND, generator("aggregate")
    )

    assert values(server.shared) == pytest.approx({"head": 5.15})
    assert values(within("dual", server.memory)) == pytest.approx({"head": -0.325})


def test_c_and_d_running_statistics_are_averaged_without_correction() -> None:
    uploads = {
        k: Upload(weights(head=w, mean=m), 1, frozenset({"mean.weight"}))
        for k, w, m in (("a", 3.0, 10.0), ("b", 6.0, 20.0))
    }
    before = Server(weights(head=2.0, mean=0.0), memory(0.3, 4))

    server = FedDyn(alpha=0.5).aggregate(before, uploads, ROUND, generator("aggregate"))

    assert values(server.shared) == pytest.approx({"head": 5.15, "mean": 15.0})
    assert within("dual", server.memory).keys() == {"head.weight"}


def test_c_and_d_the_engine_tells_which_are_running_statistics() -> None:
    now = history(place(FedDyn(), model=Net(norm=True)), number=2)[-1]

    assert {n for n in now.server.shared if "running" in n} == {
        "encoder.norm.running_mean",
        "encoder.norm.running_var",
    }
    assert not [n for n in now.server.memory if "running" in n]


@pytest.mark.parametrize(("question", "stage"), [("personal", PERSONAL), ("generic", GENERIC)])
def test_e_everybody_predicts_with_what_was_received(question: str, stage: Stage) -> None:
    at = one_weight.place(FedDyn(), One(w=2.0), a=[5.0])
    message = FedDyn().message(Server(weights(head=4.0)), "a", stage)

    predictors = getattr(FedDyn(), question)(at.seat(Turn(0, stage, "a", message, 0, {})))

    x = torch.tensor([[5.0]], dtype=torch.float64)
    assert torch.allclose(
        predictors["network"](x), one_weight.logits(torch.tensor([0.5], dtype=torch.float64))
    )


def duals(now: Round) -> list[dict[str, torch.Tensor]]:
    return [within("dual", held.kept) for held in now.held.values()]


@pytest.mark.parametrize("join", [Join(), Join(number=3)])
def test_the_server_knows_the_mean_of_all_linear_terms(join: Join) -> None:
    """C4-L1: h = (1/K) Σ g_k after every round, with everybody and with half; who never trained has 0."""
    at = place(FedDyn(epochs=2, alpha=0.1), clients=EXACT, model=Double())
    for now in history(at, join=join):
        h, all_of = within("dual", now.server.memory), duals(now)

        assert h
        for name in h:
            mean = torch.stack([g[name] for g in all_of]).sum(0) / len(EXACT)
            assert torch.allclose(h[name], mean, rtol=0, atol=1e-10)


def test_the_first_local_models_are_fedproxs() -> None:
    """C4-L2, to the bit: the linear term is 0, and what is left is a pull of μ = α."""
    training = Training(lr=0.1, batch=8, momentum=0.9)
    dyn, prox = (
        history(place(m, training=training), number=1, watch=1)[0]
        for m in (FedDyn(epochs=2, alpha=0.3), FedProx(epochs=2, mu=0.3))
    )

    assert dyn.trained.keys() == prox.trained.keys()
    assert all(digest(dyn.trained[k]) == digest(prox.trained[k]) for k in dyn.trained)


def test_the_first_step_of_the_server_goes_twice_as_far_as_the_mean() -> None:
    """C4-L3: 2 mean(w_k) - w_0, where everybody takes part."""
    at = place(FedDyn(alpha=0.2), clients=EXACT, model=Double())
    now = history(at, number=1, join=Join(), watch=1)[0]

    mean, first = average(list(now.trained.values()), [1] * 6), at.built("c0").initial
    for name, tensor in now.server.shared.items():
        assert torch.allclose(tensor, 2 * mean[name] - first[name], rtol=0, atol=1e-12)


def solved(method: FedDyn, curvatures: list[float], targets: list[float], join: Join) -> list[Round]:
    """Quadratics of different steepness: with a rate of 1 / (c + α) one step would be exact; 25 do."""
    model = lambda client: One(w=2.0, curvature=curvatures["abc".index(client)])  # noqa: E731
    at = one_weight.place(
        method,
        model,  # type: ignore[arg-type]
        training=Training(lr=0.2, batch=1),
        **dict(zip("abc", ([t] for t in targets), strict=True)),
    )
    return history(at, number=100, join=join)


@pytest.mark.parametrize("join", [Join(), Join(number=2)])
def test_it_ends_in_the_optimum_of_everybodys_mean(join: Join) -> None:
    """
    C4-L4: g_k is the slope of L_k where client k ended; c_k (w_k - a_k).
    C4-L5: w is the least of the mean of L_k: Σ c_k a_k / Σ c_k = (1 + 8 + 21) / (1 + 2 + 3) = 5.
    """
    curvatures, targets = [1.0, 2.0, 3.0], [1.0, 4.0, 7.0]
    last = solved(FedDyn(epochs=25, alpha=1.0), curvatures, targets, join)[-1]

    assert values(last.server.shared)["head"] == pytest.approx(5.0, abs=1e-6)
    for client, held in last.held.items():
        k = "abc".index(client)
        assert values(within("dual", held.kept))["head"] == pytest.approx(
            curvatures[k] * (5.0 - targets[k]), abs=1e-5
        )


def test_where_fedprox_ends_elsewhere() -> None:
    """C4-L5's other half: FedProx forgets the steepness. Uneven curvatures, everybody, exact solves."""
    at = one_weight.place(
        FedProx(epochs=25, mu=1.0),
        lambda client: One(w=2.0, curvature={"a": 1.0, "b": 2.0, "c": 3.0}[client]),  # type: ignore[arg-type]
        training=Training(lr=0.2, batch=1),
        a=[1.0], b=[4.0], c=[7.0],
    )  # fmt: skip
    last = history(at, number=40, join=Join())[-1]

    assert abs(values(last.server.shared)["head"] - 5.0) > 0.1


def test_sizes_do_not_count() -> None:
    """Everybody weighs the same, as in the paper."""
    at = place(FedDyn(epochs=1, alpha=0.1))
    now = history(at, number=1, join=Join(), watch=1)[0]

    mean = average(list(now.trained.values()), [1] * 6)
    by_hand = {n: 2 * mean[n] - t for n, t in at.built("c0").initial.items()}
    assert all(torch.allclose(now.server.shared[n], t, atol=1e-6) for n, t in by_hand.items())
