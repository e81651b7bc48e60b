"""FedRIR's masks, its losses, its three Adams and its sizes, worked out."""

import math

import pytest
import torch
from torch import nn

from gate import GATE
from gate.by_hand import EVERYBODY, run, seated
from gate.fedrir import FedRIR, dependence, generator_of, masked, unlikelihood
from pluribus.client import Parts
from pluribus.models import FedRIRCNN
from pluribus.seeds import generator
from pluribus.state import copied, part_of
from toy import person

WORLD = GATE["fedrir"][1]


def client_of(**changes):
    return seated(WORLD.place(FedRIR(), **changes))


@pytest.mark.parametrize(("side", "zero"), [(28, 29), (32, 38), (64, 153)])
def test_exactly_so_many_patches_are_masked(side, zero):
    """1g.1: ⌊0.6 · 49⌋ = 29, ⌊0.6 · 64⌋ = 38, ⌊0.6 · 256⌋ = 153 patches of 4 x 4 over all channels."""
    x = 1 + torch.rand(3, 2, side, side, generator=generator("images"))

    hidden = masked(x, 0.6, generator("mask")) == 0

    patches = hidden.unfold(2, 4, 4).unfold(3, 4, 4).movedim(1, 3).flatten(3)
    assert bool((patches.all(3) | ~patches.any(3)).all()), "a patch is hidden as a whole, over all channels"
    assert patches.all(3).flatten(1).sum(1).tolist() == [zero] * 3
    assert not torch.equal(hidden[0], hidden[1])
    assert torch.equal(masked(x, 0.6, generator("mask"))[~hidden], x[~hidden])


def test_no_mask_and_a_mask_over_all():
    x = torch.rand(2, 1, 28, 28, generator=generator("images"))

    assert torch.equal(masked(x, 0.0, generator("mask")), x)
    assert not masked(x, 1.0, generator("mask")).any()


def test_inputs_that_are_no_images_are_masked_number_by_number():
    """⌊0.5 · 6⌋ = 3 of six."""
    assert (masked(torch.ones(5, 6), 0.5, generator("mask")) == 0).sum(1).tolist() == [3] * 5


def test_each_of_the_two_passes_moves_what_is_its_own():
    """1g.2, 1g.3: with other labels what the first pass trains ends the same, all else does not.
    The second pass moves F_cs's running statistics, and no parameter of it.
    """
    client = client_of()
    before = copied(client.parts.state_dict())
    FedRIR().train(client)
    one = copied(client.parts.state_dict())

    twin = client_of(clients={"c0": person("c0", (client.data.x, (client.data.y + 1) % 4))})
    FedRIR().train(twin)
    two = copied(twin.parts.state_dict())

    moved = {n for n, _ in client.parts.named_parameters() if not torch.equal(one[n], before[n])}
    assert moved == set(dict(client.parts.named_parameters()))
    same = {n for n in moved if torch.equal(one[n], two[n])}
    assert {part_of(n) for n in same} == {"encoder_own", "generator"}
    assert {part_of(n) for n in moved - same} == {"encoder", "head", "information"}


def test_the_private_encoder_counts_what_it_sees_in_both_passes():
    """45 examples in batches of 16 are 3 batches: 3 masked, 3 as they are."""
    client = client_of()

    FedRIR().train(client)

    assert int(client.parts.state_dict()["encoder_own.0.0.norm.num_batches_tracked"]) == 6
    assert int(client.parts.state_dict()["encoder.norm.num_batches_tracked"]) == 3


def given(mean, spread):
    """Parts whose I says this mean and this log variance, whatever it is asked."""
    answers = {"mean": torch.tensor(mean), "spread": torch.tensor(spread)}
    information = nn.ModuleDict({n: Always(t) for n, t in answers.items()})
    return Parts({"information": information}, ())


class Always(nn.Module):
    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def forward(self, x):
        return self.answer


def test_the_likelihood_by_hand():
    """m = 0, 1, v = 0, ln 2; t = 1, 3.  (0 - 1)² / 1 + 0 = 1 and (1 - 3)² / 2 + ln 2: 1.5 + ln 2 / 2."""
    parts = given([[0.0], [1.0]], [[0.0], [math.log(2)]])

    loss = unlikelihood(parts, torch.zeros(2, 1), torch.tensor([[1.0], [3.0]]))

    assert float(loss) == pytest.approx(1.5 + math.log(2) / 2)


def test_the_bound_by_hand():
    """m = 0, 1, v = 0, ln 2; t = 1, 3.  (-1 + (1 + 9) / 2) / 2 = 2 and (-4 + (0 + 4) / 2) / 4 = -½.
    Mean: 0.75.
    """
    parts = given([[0.0], [1.0]], [[0.0], [math.log(2)]])

    bound = dependence(parts, torch.zeros(2, 1), torch.tensor([[1.0], [3.0]]))

    assert float(bound) == pytest.approx(0.75)


def test_the_bound_is_at_least_nothing():
    """m = 3, 1 where t = 1, 3: (-4 + (4 + 0) / 2) / 2 = -1 for both."""
    parts = given([[3.0], [1.0]], [[0.0], [0.0]])

    assert float(dependence(parts, torch.zeros(2, 1), torch.tensor([[1.0], [3.0]]))) == 0


@pytest.mark.parametrize("f", [[[5.0]], [[2.0], [2.0], [2.0]]])
def test_one_example_or_equal_features_have_no_bound(f):
    """1g.4."""
    parts = given([[1.0]] * len(f), [[0.5]] * len(f))

    assert float(dependence(parts, torch.zeros(len(f), 1), torch.tensor(f))) == pytest.approx(0, abs=1e-6)


def test_an_information_that_ignores_its_input_has_no_bound():
    """1g.4."""
    parts = given([[1.0]] * 3, [[0.5]] * 3)

    assert float(dependence(parts, torch.zeros(3, 1), torch.tensor([[1.0], [5.0], [-2.0]]))) == pytest.approx(
        0, abs=1e-5
    )


def test_rebuilding_by_hand():
    """Mean 1 and log variance 0, x̂ = 3 where all x are 1: (3 - 1)² + 0.1 · ½ · (1 + 1 - 0 - 1)."""
    parts = Parts(
        {"encoder_own": Always(torch.tensor([[1.0, 0.0]])), "generator": Always(torch.full((1, 6), 3.0))}, ()
    )

    loss = FedRIR().rebuilding(parts, torch.ones(1, 6), generator("noise"))

    assert float(loss) == pytest.approx(4 + 0.1 * 0.5)


def test_the_moments_of_three_adams_are_kept():
    """Three batches a round, each step counted on from the last."""
    rounds = run("fedrir", join=EVERYBODY, number=3)

    for name in ("rebuild", "inform", "classify"):
        steps = [float(now.held["c0"].kept[f"moments/{name}/0.step"]) for now in rounds]
        assert steps == [3.0, 6.0, 9.0]


def test_running_statistics_stay_and_the_head_reads_both_features():
    """1g.8: f_g first, no sampling."""
    now = run("fedrir", join=EVERYBODY, number=2)[-1]
    assert "encoder.norm.running_mean" in now.held["c0"].kept
    assert not any("running" in n for n in now.server.shared)
    client = seated(WORLD.place(FedRIR()), message=now.server.shared, kept=now.held["c0"].kept)
    client.parts.eval()
    x = client.data.x

    scores = FedRIR().personal(client)["both features"](x)

    f, own = client.parts.encoder(x), client.parts.encoder_own(x)[:, :8]
    assert torch.equal(scores, client.parts.head(torch.cat([f, own], 1)))


def test_a_newcomer_trains_all_but_the_shared_encoder():
    client = client_of()
    before = copied(client.parts.state_dict())

    FedRIR().welcome(client, 1)

    still = {part_of(n) for n, p in client.parts.named_parameters() if torch.equal(p, before[n])}
    assert still == {"encoder"}


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((1, 28, 28), (577_088, 1_101_888, 577_345, 263_424, 10_250)),
        ((3, 32, 32), (873_600, 1_693_312, 874_435, 263_424, 10_250)),
    ],
)
def test_parts_are_as_large_as_the_sheet_says(shape, sizes):
    """1b, 1g.7, 1g.9: F_g, F_cs, G, I, H; and the generator gives what it was given."""
    parts = FedRIR().build(FedRIRCNN().build(shape, 10))

    counted = [
        sum(p.numel() for p in parts[n].module.parameters())
        for n in ("encoder", "encoder_own", "generator", "information", "head")
    ]
    assert tuple(counted) == sizes
    assert parts["generator"].module(torch.zeros(2, 512)).shape == (2, *shape)


@pytest.mark.parametrize("shape", [(6,), (1, 8, 8), (3, 30, 30), (1, 28, 32), (3, 64, 64)])
def test_a_generator_for_any_shape(shape):
    assert generator_of(shape, 5)(torch.zeros(2, 5)).shape == (2, *shape)
