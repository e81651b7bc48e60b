import msgspec
import pytest
import torch

from pluribus.runs.bundle import pack, unpack
from pluribus.state import digest

NOTES = msgspec.Raw(b'["a note"]')


def there_and_back(*groups):
    return unpack(pack(groups, NOTES))[0]


def test_groups_and_notes_come_back():
    a, b = {"encoder.weight": torch.randn(3, 2)}, {"control/head.bias": torch.arange(4)}

    groups, notes = unpack(pack([a, {}, b], NOTES))

    assert [digest(g) for g in groups] == [digest(a), digest({}), digest(b)]
    assert msgspec.json.decode(notes) == ["a note"]


def test_names_keep_their_order_since_sums_over_them_depend_on_it():
    names = ["z.weight", "a/b/c.d", "m.weight", "__metadata__"]

    (group,) = there_and_back({name: torch.ones(i + 1) for i, name in enumerate(names)})

    assert list(group) == names


@pytest.mark.parametrize(
    "t",
    [
        torch.randn(4, 3, 5, 5).to(memory_format=torch.channels_last),
        torch.randn(5, 3).t(),
        torch.randn(6, 4)[::2, 1:3],
        torch.zeros(2, 1).expand(2, 3),
    ],
    ids=["channels last", "transposed", "part of another", "expanded"],
)
def test_values_come_back_however_they_lie_in_memory(t):
    (group,) = there_and_back({"t": t})

    assert torch.equal(group["t"], t)


def test_the_order_in_memory_comes_back():
    t = torch.randn(4, 3, 5, 5).to(memory_format=torch.channels_last)

    (group,) = there_and_back({"t": t})

    assert group["t"].stride() == t.stride()


@pytest.mark.parametrize(
    "t",
    [
        torch.tensor(3.5, dtype=torch.float64),
        torch.zeros(0, 3),
        torch.tensor([True, False]),
        torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        torch.tensor(7),
        torch.tensor([float("nan"), float("inf"), -0.0]),
    ],
    ids=["double", "empty", "bool", "bfloat16", "int", "not finite"],
)
def test_types_and_shapes_come_back(t):
    (group,) = there_and_back({"t": t})

    assert digest(group) == digest({"t": t})


def test_tensors_that_share_memory_come_back_apart():
    t = torch.arange(6.0)

    a, b = there_and_back({"whole": t, "half": t[:3]}, {"whole": t})
    a["whole"].zero_()

    assert a["half"].tolist() == [0.0, 1.0, 2.0]
    assert torch.equal(b["whole"], t)


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 64, b"no tensors at all", pack([{"t": torch.ones(9)}], NOTES)[:-5]]
)
def test_other_bytes_are_no_bundle(data):
    with pytest.raises(ValueError, match="it is no bundle"):
        unpack(data)
