"""Partitions: who gets which rows, against the definitions and against numbers worked out by hand."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pluribus import spelling
from pluribus.data import division as divisions
from pluribus.data.dataset import from_tensors
from pluribus.data.division import divide, spelled
from pluribus.data.partitions import (
    PARTITIONS,
    Dirichlet,
    DirichletClient,
    NWayKShot,
    Pathological,
    dirichlet,
    dirichlet_client,
)
from pluribus.data.partitions.partition import cut, largest, portion
from pluribus.data.partitions.shares import cumulative_shares, log_gammas
from pluribus.errors import PartitionError, PluribusError, SettingError, UnknownName
from pluribus.seeds import numpy_generator

SPELLINGS = [
    "iid", "dirichlet:0.1,least=5", "dirichlet-client:0.1", "pathological:2", "pathological:5,balanced=true",
    "nway-kshot:3,5,2,m=2,reserve=7", "domain", "natural:writer,limit=9",
]  # fmt: skip
seeds = st.integers(0, 10_000)


def toy(sizes, official=None, **groups):
    """A dataset with so many rows of each class, in no order; three quarters of each are for training."""
    rows, groups = np.repeat(np.arange(len(sizes)), sizes), {n: torch.as_tensor(g) for n, g in groups.items()}
    train = np.arange(len(rows)) % 4 < 3
    labels = np.concatenate(
        [numpy_generator("toy").permutation(part) for part in (rows[train], rows[~train])]
    )
    inputs, classes = (
        torch.zeros(len(rows), 1, 1, 1, dtype=torch.uint8),
        tuple("abcdefghijklmnop"[: len(sizes)]),
    )
    official = int(train.sum()) if official is None else official
    return from_tensors(
        "toy", inputs, torch.from_numpy(labels), classes=classes, official=official, groups=groups
    )


TOY = toy([200] * 10, domain=np.arange(2000) % 4, writer=np.arange(2000) % 40)

LABELS = TOY.labels.numpy()


def divided(spec, dataset=TOY, **settings):
    """The splits, in the order of the clients."""
    return list(divide(dataset, spec, **settings).everyone.values())


def source_of(dataset, clients):
    return divisions.source(dataset, divide(dataset, "iid", clients=1).recipe, clients, test=0.25)


def labels_of(split, dataset=TOY):
    return dataset.labels[torch.tensor(split.rows)].numpy()


class Scripted:
    """A generator that says what it was told: gamma variables as they are, uniforms of 1."""

    def __init__(self, *gammas):
        self.gammas = list(gammas)

    def standard_gamma(self, alpha, size):
        return np.array([self.gammas.pop(0)], dtype=float)

    def random(self, size):
        return np.zeros(size)


# what holds for all of them


@pytest.mark.parametrize("spec", SPELLINGS)
@given(seed=seeds)
def test_no_row_is_given_away_twice(spec, seed):
    rows = np.concatenate([split.rows for split in divided(spec, seed=seed, val=0.2)])

    assert len(np.unique(rows)) == len(rows)
    assert rows.min() >= 0
    assert rows.max() < len(TOY)


@pytest.mark.parametrize(
    "spec", ["iid", "dirichlet:0.1,least=5", "dirichlet-client:0.1", "pathological:2", "domain"]
)
@given(seed=seeds)
def test_every_row_is_given_away(spec, seed):
    splits = divided(spec, seed=seed)

    assert sum(len(split.rows) for split in splits) == len(TOY)


@pytest.mark.parametrize("spec", SPELLINGS)
def test_the_same_seed_gives_the_same_partition_and_another_seed_another(spec):
    first, again, other = (divide(TOY, spec, seed=seed).hash for seed in (5, 5, 6))

    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("spec", "golden"),
    [
        ("iid", "e7f367f602ffb03f"),
        ("dirichlet:0.1,least=5", "f8beadff425093b0"),
        ("dirichlet-client:0.1", "715b665d6d84a65a"),
        ("pathological:2", "62653d8bb9eaf1c6"),
        ("pathological:5,balanced=true", "563ca50db64676b1"),
        ("nway-kshot:3,5,2,m=2,reserve=7", "2bce6149a3da4183"),
        ("domain", "d32271937fc1350e"),
        ("natural:writer,limit=9", "40a7a46c159d8e31"),
    ],
)
def test_the_numbers_do_not_move(spec, golden):
    division = divide(TOY, spec, seed=1, val=0.1, newcomers=2)

    assert division.hash[:16] == golden


@pytest.mark.parametrize("spec", SPELLINGS)
def test_a_partition_is_spelled_so_that_it_can_be_read_back(spec):
    partition = spelling.read(spec, PARTITIONS, "partition")

    assert spelling.read(spelled(partition), PARTITIONS, "partition") == partition


def test_a_partition_of_ones_own_needs_no_catalogue():
    class Halves:
        pools = ("mix",)

        def splits(self, source):
            return source.split([source.rows[::2], source.rows[1::2]])

        def __repr__(self):
            return "halves"

    division = divide(TOY, Halves())

    assert division.recipe.partition == "halves"
    assert [len(split.rows) for split in division.clients.values()] == [1000, 1000]


def test_global_generators_are_neither_read_nor_moved():
    np.random.seed(0)  # noqa: NPY002
    before, torch_before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002

    hashes = {divide(TOY, spec).hash for spec in SPELLINGS}

    assert len(hashes) == len(SPELLINGS)
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), torch_before)


def test_the_training_pool_leaves_the_official_test_set_alone():
    splits = divided("dirichlet:0.5", clients=5, pool="train")

    assert sorted(np.concatenate([split.rows for split in splits])) == list(range(1500))


# split


@given(seed=seeds, number=st.integers(0, 50), percent=st.integers(0, 99))
def test_the_training_part_is_rounded_down(seed, number, percent):
    dataset = toy([number + 1])

    (split,) = divided("iid", dataset, clients=1, seed=seed, test=percent / 100)

    assert len(split.train) == (100 - percent) * (number + 1) // 100
    assert len(split.test) == number + 1 - len(split.train)


def test_a_portion_is_not_disturbed_by_binary_fractions():
    # 1 - 0.9 is 0.09999999999999998, times 10 is below 1
    assert portion(1 - 0.9, 10) == 1
    assert portion(0.25, 7) == 1
    assert portion(0.75, 7) == 5


def test_validation_rows_are_taken_from_training_rows_only():
    without, with_val = divided("iid", clients=3, val=0.0), divided("iid", clients=3, val=0.2)

    for a, b in zip(without, with_val, strict=True):
        assert np.array_equal(a.test, b.test)
        assert np.array_equal(a.train, np.sort(np.concatenate([b.train, b.val])))
        assert len(b.val) == len(a.train) // 5


def test_the_split_does_not_look_at_classes():
    # 30 of one class, 10 of another, test 0.25: stratified would be 7 or 8 and 2 or 3 every time
    cuts = [cut(np.arange(40), numpy_generator(seed), num_test=10, val=0.0) for seed in range(200)]

    picked = [int((split.test >= 30).sum()) for split in cuts]

    assert {0, 1, 2, 3, 4, 5} <= set(picked)
    assert 2.2 < np.mean(picked) < 2.8


def test_every_client_is_split_in_its_own_way():
    same = np.arange(40)

    first, second = source_of(TOY, clients=2).split([same, same])

    assert not np.array_equal(first.test, second.test)


def test_which_samples_of_a_class_a_client_gets_is_random():
    # one class of 100, 50 for each of two clients: neither the first nor the last half of the file
    first, second = source_of(toy([100]), clients=2).dealt(np.array([[50], [50]]))

    assert 10 < (first.rows < 50).sum() < 40
    assert sorted([*first.rows, *second.rows]) == list(range(100))


# iid


@given(seed=seeds, clients=st.integers(1, 300))
def test_iid_parts_differ_by_one_at_most(seed, clients):
    sizes = [len(split.rows) for split in divided("iid", seed=seed, clients=clients)]

    assert max(sizes) - min(sizes) <= 1


def test_iid_clients_have_all_classes():
    for split in divided("iid", clients=4):
        assert len(np.unique(labels_of(split))) == 10


# dirichlet


@given(
    seed=seeds, clients=st.integers(1, 25), alpha=st.sampled_from([0.1, 0.5, 100.0]), least=st.integers(0, 60)
)
def test_the_smallest_dirichlet_client_has_the_least_number(seed, clients, alpha, least):
    splits = divided(Dirichlet(alpha, least), seed=seed, clients=clients)

    assert min(len(split.rows) for split in splits) >= min(least, 2000 // (2 * clients))


@pytest.mark.parametrize(
    ("least", "clients", "minimum"), [(40, 20, 40), (400, 20, 50), (40, 100, 10), (0, 20, 0)]
)
def test_the_least_number_is_half_the_average_at_most(least, clients, minimum):
    # 2,000 samples: N / 2K is 50 for 20 clients and 10 for 100
    assert Dirichlet(least=least).minimum(source_of(TOY, clients)) == minimum


def test_a_class_is_cut_where_the_running_sum_of_shares_says():
    # shares 1/4, 1/2, 1/4 of 10: cut at floor(2.5) = 2 and floor(7.5) = 7
    rng = Scripted([1, 2, 1])

    (counts,) = dirichlet.drawn(rng, np.array([10]), (1, 3), alpha=0.3)

    assert counts[:, 0].tolist() == [2, 5, 3]


def test_a_client_with_the_average_number_gets_no_more():
    # N / K = 20 / 2; after the first class client 0 has 10 and client 1 none, so it gets all of the second
    rng = Scripted([1, 0], [9, 1])

    with np.errstate(divide="ignore"):
        (counts,) = dirichlet.drawn(rng, np.array([10, 10]), (1, 2), alpha=0.3)

    assert counts.tolist() == [[10, 0], [0, 10]]


def test_a_client_just_below_the_average_gets_its_full_share():
    # N / K = 10: client 0 has 9 after the first class, and half of the second
    rng = Scripted([9, 1], [1, 1])

    (counts,) = dirichlet.drawn(rng, np.array([10, 10]), (1, 2), alpha=0.3)

    assert counts.tolist() == [[9, 5], [1, 5]]


def test_a_class_without_rows_is_no_obstacle():
    splits = divided("dirichlet:0.5", toy([100, 0, 100]), clients=4)

    assert sum(len(split.rows) for split in splits) == 200


def test_shares_have_the_mean_and_variance_of_a_dirichlet_distribution():
    # Dir(α·1) over K: mean 1/K, variance (1/K)(1 - 1/K) / (Kα + 1); for K = 4, α = 0.3: 0.25 and 0.1875 / 2.2
    logs = log_gammas(numpy_generator("moments"), 0.3, (20_000, 4))

    shares = np.diff(cumulative_shares(logs, np.ones(4, dtype=bool)), prepend=0)

    assert shares.mean(axis=0) == pytest.approx([0.25] * 4, abs=0.01)
    assert shares.var(axis=0) == pytest.approx([0.1875 / 2.2] * 4, rel=0.05)


def test_shares_that_are_not_open_are_nothing_and_the_others_grow():
    sums = cumulative_shares(np.log([1.0, 6.0, 3.0]), np.array([True, False, True]))

    assert sums.tolist() == pytest.approx([0.25, 0.25, 1.0])


def test_a_tiny_alpha_gives_whole_classes_to_clients():
    splits = divided(Dirichlet(1e-5, least=0), clients=5)

    assert sum(len(split.rows) for split in splits) == 2000
    assert all(len(labels_of(split)) % 200 == 0 for split in splits)


def test_a_small_alpha_makes_clients_differ_more_than_a_large_one():
    num_classes = {
        alpha: np.mean([len(np.unique(labels_of(s))) for s in divided(Dirichlet(alpha), clients=10)])
        for alpha in (0.1, 100.0)
    }

    assert num_classes[0.1] < 7
    assert num_classes[100.0] == 10


# dirichlet-client


@given(seed=seeds, clients=st.integers(1, 300), alpha=st.sampled_from([0.001, 0.1, 1.0]))
def test_dirichlet_clients_have_the_same_size(seed, clients, alpha):
    splits = divided(DirichletClient(alpha), seed=seed, clients=clients)

    assert {len(split.rows) for split in splits} == {2000 // clients}


def test_draws_stop_at_the_last_sample_of_a_class():
    # two are left of class 0; its second draw is at position 3
    draws = np.array([0, 1, 1, 0, 0, 1])

    kept = dirichlet_client.until_exhausted(draws, np.array([2, 9]))

    assert kept.tolist() == [0, 1, 1, 0]


def test_when_a_class_is_exhausted_the_others_take_its_share():
    # q is (1, almost 0, almost 0) with class 2 a thousand times likelier than class 1
    logs = np.array([0.0, -900.0, -893.0])

    counts = dirichlet_client.drawn(numpy_generator("x"), logs, np.array([3, 50, 50]), 10)

    assert counts.tolist() == [3, 0, 7]


def test_a_class_with_nothing_left_is_never_drawn_not_even_by_the_smallest_number():
    counts = dirichlet_client.drawn(Scripted(), np.log([0.5, 0.5]), np.array([0, 9]), 4)

    assert counts.tolist() == [0, 4]


def test_samples_come_in_the_proportions_of_q():
    # q = (0.7, 0.3), 10,000 draws from plenty: 7,000 with a deviation of 46
    counts = dirichlet_client.drawn(
        numpy_generator("q"), np.log([0.7, 0.3]), np.array([10**6, 10**6]), 10_000
    )

    assert counts.sum() == 10_000
    assert abs(counts[0] - 7000) < 200


# pathological


def test_pathological_clients_come_in_groups_with_the_same_classes():
    splits = divided("pathological:2", clients=20)

    classes = [np.unique(labels_of(split)).tolist() for split in splits]

    assert classes == [[0, 1]] * 4 + [[2, 3]] * 4 + [[4, 5]] * 4 + [[6, 7]] * 4 + [[8, 9]] * 4


@given(seed=seeds, c=st.sampled_from([1, 2, 3, 4, 6, 12]), groups=st.integers(1, 4), balanced=st.booleans())
def test_every_pathological_client_has_exactly_its_classes_and_all_rows_are_used(seed, c, groups, balanced):
    dataset, clients = toy([60] * 12), 12 // c * groups

    splits = divided(Pathological(c, balanced), dataset, seed=seed, clients=clients)

    assert [len(np.unique(labels_of(split, dataset))) for split in splits] == [c] * clients
    assert sum(len(split.rows) for split in splits) == 720


def test_who_takes_a_class_when_the_numbers_do_not_fit():
    # 5 clients, 4 classes, 2 for each: ceil(5 · 2 / 4) = 3 takers of each class while quotas last
    takers = Pathological(2).takers(5, 4)

    assert {k: who.tolist() for k, who in takers.items()} == {
        0: [0, 1, 2],
        1: [0, 1, 2],
        2: [3, 4],
        3: [3, 4],
    }


def test_classes_nobody_may_take_any_more_are_left_over():
    # 3 clients, 10 classes, 4 for each: 2 takers a class, so classes 8 and 9 find nobody
    takers = Pathological(4).takers(3, 10)

    assert {k: who.tolist() for k, who in takers.items()} == {k: [0, 1] if k < 4 else [2] for k in range(8)}


def test_balanced_parts_are_equal_and_the_last_gets_the_rest():
    splits = divided(Pathological(1, balanced=True), toy([10, 11]), clients=6)

    assert [len(split.rows) for split in splits] == [3, 3, 4, 3, 3, 5]


@given(seed=seeds)
def test_unbalanced_parts_stay_within_their_bounds(seed):
    # 200 of a class for 4 takers: 50 each; from max(50 / 10, 40 / 10) = 5 to 49, and the last gets the rest
    splits = divided("pathological:2", seed=seed, clients=20)

    counts = np.array([np.bincount(labels_of(split), minlength=10) for split in splits])

    for k in range(10):
        *first, last = counts[counts[:, k] > 0, k]
        assert all(5 <= part < 50 for part in first)
        assert last == 200 - sum(first)


def test_unbalanced_parts_reach_both_bounds():
    many = [divided("pathological:2", seed=seed) for seed in range(80)]

    counts = np.concatenate([np.bincount(labels_of(split)) for splits in many for split in splits[0:3]])

    assert set(counts[counts > 0]) == set(range(5, 50))


def test_the_least_number_counts_where_it_is_above_a_tenth():
    # 100 of a class for 4 takers: 25 each, a tenth is 2.5; least min(60, 400 / 8) = 50, over 4 classes 12.5
    partition, source = Pathological(4, least=60), source_of(toy([100] * 4), clients=4)

    bounds = partition.bounds(source, 100, 4)

    assert bounds == (13, 25)


# nway-kshot


def test_nway_rows_are_blocks_of_the_official_sets():
    dataset = toy([100] * 4, official=300)
    splits = divided(NWayKShot(n=2, k=5, s=0, m=3, reserve=7), dataset, clients=4)

    for i, split in enumerate(splits):
        labels = dataset.labels.numpy()
        for k in np.unique(labels_of(split, dataset)):
            of_class = np.flatnonzero(labels == k)
            train, test = of_class[of_class < 300], of_class[of_class >= 300]
            assert split.train[labels[split.train] == k].tolist() == train[7 * i : 7 * i + 5].tolist()
            assert split.test[labels[split.test] == k].tolist() == test[3 * i : 3 * i + 3].tolist()


@given(seed=seeds, n=st.integers(2, 9), s=st.integers(0, 4))
def test_nway_numbers_stay_within_their_ranges(seed, n, s):
    splits = divided(NWayKShot(n=n, k=6, s=s, m=3, reserve=10), seed=seed, clients=10)

    for split in splits:
        train, test = (
            np.bincount(TOY.labels.numpy()[rows], minlength=10) for rows in (split.train, split.test)
        )
        assert max(2, n - s) <= (train > 0).sum() <= min(9, n + s)
        assert len(set(train[train > 0])) == 1
        assert (6 - s + 1 if s else 6) <= train.max() <= 6 + s
        assert test.tolist() == (3 * (train > 0)).tolist()


def test_nway_ranges_are_reached_at_both_ends():
    many = [divided("nway-kshot:3,5,2,m=2,reserve=7", seed=seed, clients=10) for seed in range(60)]

    train = [np.bincount(LABELS[split.train], minlength=10) for splits in many for split in splits]

    assert {int((t > 0).sum()) for t in train} == {2, 3, 4, 5}
    assert {int(t.max()) for t in train} == {4, 5, 6, 7}


def test_what_an_nway_client_gets_does_not_depend_on_how_many_there_are():
    few, many = (divided("nway-kshot:3,5,2,m=2,reserve=7", clients=n) for n in (4, 10))

    assert all(np.array_equal(a.rows, b.rows) for a, b in zip(few, many[:4], strict=True))


@pytest.mark.parametrize(
    ("too_much", "short"),
    [
        ("nway-kshot:2,5,0,m=6,reserve=25", "client 1 needs 6 test samples"),
        ("nway-kshot:2,6,0,m=5,reserve=25", "client 1 needs 6 training samples"),
    ],
)
def test_nway_takes_the_last_sample_of_a_class_and_no_more(too_much, short):
    # 30 training and 10 test samples of each class; client 1 begins at 25 and at m
    dataset = toy([40] * 3)

    splits = divided("nway-kshot:2,5,0,m=5,reserve=25", dataset, clients=2)

    assert [(len(split.train), len(split.test)) for split in splits] == [(10, 10), (10, 10)]
    with pytest.raises(PartitionError, match=short):
        divided(too_much, dataset, clients=2)


# natural and domain


def test_each_domain_is_a_client():
    splits = divided("domain")

    assert [set(TOY.groups["domain"][split.rows].tolist()) for split in splits] == [{0}, {1}, {2}, {3}]


def test_a_domain_keeps_its_test_part_rounded_down_and_a_limit_bounds_the_training_part():
    # PACS, DualFed: art has 2,048 images: floor(0.2 · 2048) = 409 to test, 500 to train
    dataset = toy([2048], domain=np.zeros(2048, dtype=np.int64))

    (split,) = divided("domain:500", dataset, test=0.2)
    (whole,) = divided("domain:all", dataset, test=0.2)

    assert (len(split.train), len(split.test)) == (500, 409)
    assert (len(whole.train), len(whole.test)) == (1639, 409)


def test_a_limit_leaves_the_test_part_as_it_is():
    free, limited = divided("natural:writer"), divided("natural:writer,limit=9")

    for a, b in zip(free, limited, strict=True):
        assert np.array_equal(a.test, b.test)
        assert set(b.train) < set(a.train)
        assert len(b.train) == 9


def test_fewer_clients_than_groups_are_drawn_at_random():
    first, other = (divided("natural:writer", clients=7, seed=seed) for seed in (0, 1))

    writers = [[int(TOY.groups["writer"][split.rows[0]]) for split in splits] for splits in (first, other)]

    assert len(first) == 7
    assert writers[0] == sorted(writers[0])
    assert writers[0] != writers[1]


def test_every_group_is_split_in_its_own_way():
    first, second, *_ = divided("domain")

    # domain d has the rows d, d + 4, d + 8, ...
    assert not np.array_equal(first.test, second.test - 1)


def test_a_writer_gets_the_same_split_whoever_else_takes_part():
    alone = divided("natural:writer", clients=1, seed=3)[0]
    writer = int(TOY.groups["writer"][alone.rows[0]])

    among_all = divided("natural:writer", seed=3)[writer]

    assert np.array_equal(alone.train, among_all.train)
    assert np.array_equal(alone.test, among_all.test)


# what cannot be done


@pytest.mark.parametrize(
    ("spec", "settings", "error", "text"),
    [
        ("dirichlet:0", {}, SettingError, "alpha is 0.0"),
        ("dirichlet:-1", {}, SettingError, "alpha is -1.0"),
        ("dirichlet:nan", {}, SettingError, "alpha is nan"),
        ("dirichlet:inf", {}, SettingError, "alpha is inf"),
        ("dirichlet:a lot", {}, SettingError, "alpha is 'a lot'"),
        ("dirichlet:0.1,least=-1", {}, SettingError, "least is -1"),
        ("dirichlet:beta=1", {}, UnknownName, "'beta'"),
        ("dirichlet-client:0", {}, SettingError, "alpha is 0.0"),
        ("dirichlett", {}, UnknownName, "did you mean 'dirichlet'"),
        ("pathological:0", {}, SettingError, "classes is 0"),
        ("pathological:11", {}, PartitionError, "11 classes for each client, but toy has 10"),
        ("nway-kshot:1", {}, SettingError, "n is 1"),
        ("nway-kshot:3,0", {}, SettingError, "k is 0"),
        ("nway-kshot:3,10,-1", {}, SettingError, "s is -1"),
        ("nway-kshot:3,10,11", {}, SettingError, "s is 11, more than k=10"),
        ("nway-kshot:3,10,2,0", {}, SettingError, "m is 0"),
        ("nway-kshot:3,110,2", {}, SettingError, "112"),
        ("nway-kshot:12,10,2", {}, PartitionError, "12 classes for each client, but toy has 10"),
        ("nway-kshot", {"pool": "mix"}, PartitionError, "try pool=official"),
        ("iid", {"pool": "official"}, PartitionError, "try pool=mix, or pool=train"),
        ("iid", {"pool": "test"}, UnknownName, "no pool 'test'"),
        ("domain:0", {}, SettingError, "limit is 0"),
        ("natural:author", {}, PartitionError, "it has: domain, writer"),
        ("natural:writer,limit=0", {}, SettingError, "limit is 0"),
        ("iid", {"clients": 0}, SettingError, "clients is 0"),
        ("iid", {"newcomers": -1}, SettingError, "newcomers is -1"),
        ("iid", {"test": 1.0}, SettingError, "test is 1.0"),
        ("iid", {"test": -0.1}, SettingError, "test is -0.1"),
        ("iid", {"test": float("nan")}, SettingError, "test is nan"),
        ("iid", {"val": 1.5}, SettingError, "val is 1.5"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(spec, settings, error, text):
    with pytest.raises(error) as raised:
        divide(TOY, spec, **settings)

    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("spec", "settings"),
    [
        ("iid", {"clients": 2001}),
        ("iid", {"clients": 5, "newcomers": 5}),
        ("iid", {"newcomers": 20}),
        ("dirichlet:0.01,least=100", {"clients": 15}),
        ("dirichlet:0.1", {"clients": 300}),
        ("pathological:11", {"clients": 5}),
        ("pathological:2", {"clients": 1100}),
        ("pathological:2,balanced=true", {"clients": 1100}),
        ("nway-kshot:3,5,2,m=2,reserve=7", {"clients": 60}),
        ("nway-kshot:3,5,2,m=2,reserve=40", {"clients": 8}),
        ("nway-kshot:10,5,0,m=2,reserve=7", {"clients": 4}),
        ("nway-kshot", {"pool": "train", "clients": 1}),
        ("domain", {"clients": 5}),
        ("natural:writer", {"newcomers": 40}),
    ],
)
def test_what_an_error_proposes_works(spec, settings, monkeypatch):
    monkeypatch.setattr(dirichlet, "ATTEMPTS", 200)
    with pytest.raises(PartitionError) as raised:
        divide(TOY, spec, **settings)

    proposed = re.findall(r"(\w+)=([\w.]+)", str(raised.value).split("    try ")[-1])

    assert proposed
    for name, value in proposed:
        if name in ("clients", "newcomers", "pool"):
            divide(TOY, spec, **{**settings, name: value if name == "pool" else int(value)})
        else:
            changed = {**as_fields(spec), name: value}
            divide(TOY, spelling.make(PARTITIONS[spec.split(":")[0]], changed, "it"), **settings)


def as_fields(spec):
    name, _, rest = spec.partition(":")
    return spelling.given(rest, PARTITIONS[name], name)


def test_a_dataset_without_an_official_test_set_has_no_nway_kshot():
    with pytest.raises(PartitionError, match="toy has one set"):
        divide(toy([50] * 4, official=200), "nway-kshot:2,5,0,m=3")


@given(answer=st.integers(0, 60), below=st.integers(1, 50))
def test_the_largest_number_that_works_is_found(answer, below):
    found = largest(lambda n: n <= answer, below)

    assert found == (min(answer, below - 1) or None)


def test_every_error_is_one_the_user_can_put_right(monkeypatch):
    monkeypatch.setattr(dirichlet, "ATTEMPTS", 100)
    for clients in (1, 2, 7, 50, 1000, 2000):
        for name in PARTITIONS:
            try:
                divide(TOY, name, clients=clients)
            except PluribusError as error:
                assert "    " in str(error)  # noqa: PT017
