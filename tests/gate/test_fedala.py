"""FedALA's mixing weights, worked out."""

from itertools import pairwise

import torch
from torch.func import grad

from gate.by_hand import FULL_BATCH, loss_of, near, run, seated
from gate.fedala import FedALA
from pluribus.methods.fedavg import FedAvg
from pluribus.state import copied, digest, select, under, within
from toy import Net, history, place

OWN, RECEIVED = (now.server.shared for now in history(place(FedAvg()), number=2))
TOP = select(OWN, "head")


def halves(**settings):
    """A client whose head was OWN's, that receives RECEIVED, and whose weights all are a half."""
    kept = {**under("own", TOP), **under("w", {n: torch.full_like(t, 0.5) for n, t in TOP.items()})}
    return seated(place(FedALA(**settings), training=FULL_BATCH), message=RECEIVED, kept=kept)


def test_the_weights_go_downhill():
    """C14-L4: ∂L/∂W is the slope of L at own + (received - own) W, here taken by torch.func; η_W = 0.1."""
    method = FedALA(share=1.0, rate=0.1)
    client = halves()

    new = method.mixed(client)

    w = {n: torch.full_like(t, 0.5) for n, t in TOP.items()}
    x, y = client.data.x, client.data.y
    slopes = grad(
        lambda v: loss_of({**RECEIVED, **{n: torch.lerp(OWN[n], RECEIVED[n], v[n]) for n in v}}, x, y)
    )(w)
    assert near(new, {n: t - 0.1 * slopes[n] for n, t in w.items()})
    assert not near(new, w)


def test_the_top_is_mixed_and_all_else_as_received():
    """C14-L3, with W = ½ throughout: half way."""
    client = halves()

    FedALA(rate=0.0).mixed(client)

    half = {n: (OWN[n] + RECEIVED[n]) / 2 for n in TOP}
    assert near(copied(client.parts.state_dict()), {**RECEIVED, **half})


def test_weights_stay_between_zero_and_one():
    client = halves()

    new = FedALA(rate=1e6).mixed(client)

    values = torch.cat([t.flatten() for t in new.values()])
    assert set(values.tolist()) <= {0.0, 0.5, 1.0}
    assert len(set(values.tolist())) > 1


def test_weights_that_never_move_are_fedavg_to_the_bit():
    """C14-L1."""
    assert digest(run("fedala", method=FedALA(rate=0.0))[-1].server.shared) == digest(
        history(place(FedAvg()))[-1].server.shared
    )


def test_the_first_turn_is_fedavgs():
    """C14-L5: there is nothing to mix."""
    first = run("fedala", number=1)[-1]

    assert digest(first.server.shared) == digest(history(place(FedAvg()), number=1)[-1].server.shared)
    assert all(not within("w", held.kept) for held in first.held.values())


def test_weights_are_learnt_until_the_loss_settles_then_for_one_epoch():
    """One batch an epoch, of 0.8 · 45 = 36 examples: 11 epochs at least, 100 at most; later 1."""
    kept = under("own", TOP)
    epochs = []
    for settled, w in ((1e9, {}), (0.0, {}), (0.0, under("w", TOP))):
        client = seated(place(FedALA(), training=FULL_BATCH), message=RECEIVED, kept={**kept, **w})
        FedALA(settled=settled).mixed(client)
        epochs.append(client.work.samples / 36)

    assert epochs == [11, 100, 1]


def test_running_statistics_are_those_received():
    """The mixing trains in training mode; what it moves is put back."""
    at = place(FedALA(), model=Net(norm=True))
    kept = {**under("own", {n: t + 1 for n, t in TOP.items()})}
    client = seated(at, kept=kept)
    before = copied(dict(client.parts.named_buffers()))

    FedALA().mixed(client)

    assert digest(dict(client.parts.named_buffers())) == digest(before)


def test_mixing_for_a_reading_trains_nothing_but_the_mixture():
    """What is personal is the mixture, before any training."""
    client = halves()
    FedALA(rate=0.0).personal(client)

    assert near(select(client.parts.state_dict(), "encoder"), select(RECEIVED, "encoder"), atol=0)


def test_the_last_own_model_is_kept_and_the_weights_stay_at_home():
    """C14-L6."""
    rounds = run("fedala", number=3)

    for before, now in pairwise(rounds):
        for k in now.heard:
            assert set(within("own", now.held[k].kept)) == set(TOP)
        for k in before.held.keys() - set(now.cohort):
            assert digest(now.held[k].kept) == digest(before.held[k].kept)
    assert all(set(of) == set(OWN) for of in [rounds[-1].server.shared])
