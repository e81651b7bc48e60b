"""The bare loop: it knows nothing of Pluribus, and does the same work."""

import ast
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from pluribus.bench import bare as entrant
from pluribus.models import MODELS

FILE = Path(entrant().command[1])


@pytest.fixture(scope="module")
def bare():
    spec = importlib.util.spec_from_file_location("bare", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["bare"] = module
    spec.loader.exec_module(module)
    return module


def test_it_imports_the_standard_library_torch_and_numpy_only():
    nodes = list(ast.walk(ast.parse(FILE.read_text())))

    names = {n.module for n in nodes if isinstance(n, ast.ImportFrom)}
    names |= {a.name for n in nodes if isinstance(n, ast.Import) for a in n.names}

    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names | {"torch", "numpy"}


@pytest.mark.parametrize(
    ("name", "shape"),
    [("pfllib-cnn", (1, 28, 28)), ("convnet", (1, 28, 28)), ("pfl-cnn", (3, 32, 32)), ("mlp", (1, 8, 8))],
)
def test_its_networks_are_ours(bare, name, shape):
    ours, x = MODELS[name]().build(shape, 10).eval(), torch.rand(2, *shape)
    theirs = bare.NETWORKS[name](shape, 10).eval()

    values = ours.state_dict().values()
    theirs.load_state_dict(dict(zip(theirs.state_dict(), values, strict=True)))

    assert torch.equal(theirs(x), ours(x))
    kinds = [type(m) for m in ours.modules() if not list(m.children())]
    assert [type(m) for m in theirs.modules() if not list(m.children())] == kinds


def test_a_samples_cost_is_counted_by_hand(bare):
    """conv1 24² · 32 · 25, conv2 8² · 64 · 32 · 25, linear 1024 · 512 and 512 · 10."""
    task = {"network": "pfllib-cnn", "shape": (1, 28, 28), "classes": 10}

    assert bare.multiply_adds(task) == 460_800 + 3_276_800 + 524_288 + 5_120


def small(folder, **changes):
    """A task of four clients with 7, 5, 5 and 1 images to train on, and 3 to test each."""
    sizes = {"a": 7, "b": 5, "c": 5, "d": 1}
    starts = dict(zip(sizes, np.cumsum([0, *(n + 3 for n in sizes.values())]), strict=False))
    task = {
        "network": "mlp", "shape": [1, 8, 8], "classes": 3, "batch": 4, "epochs": 2, "lr": 0.1,
        "momentum": 0.0, "precision": "float32",
        "train": {k: list(range(starts[k], starts[k] + n)) for k, n in sizes.items()},
        "test": {k: list(range(starts[k] + n, starts[k] + n + 3)) for k, n in sizes.items()},
        "rounds": [{"cohort": ["a", "b"], "evaluate": [["a"], ["b", "c", "d"]]},
                   {"cohort": ["d"], "evaluate": []}],
    }  # fmt: skip
    (folder / "task.json").write_text(json.dumps(task | changes, default=int))
    np.save(folder / "inputs.npy", np.random.default_rng(0).integers(0, 256, (30, 1, 8, 8), np.uint8))
    np.save(folder / "labels.npy", np.arange(30) % 3)
    return folder


def test_training_is_that_of_plain_sgd(bare, tmp_path):
    """Batch 7 of 7 images: an epoch is one step w ← w - η ∂L/∂w, and two epochs are two."""
    here = bare.bench(small(tmp_path, batch=7))
    expected = bare.built(here.task)
    expected.load_state_dict(here.network.state_dict())
    rows = here.rows["train"]["a"]
    x, y = (here.inputs[rows].float() / 255 - 0.5) / 0.5, here.labels[rows]
    for _ in range(2):
        loss = torch.nn.functional.cross_entropy(expected(x), y)
        steps = torch.autograd.grad(loss, list(expected.parameters()))
        with torch.no_grad():
            for p, g in zip(expected.parameters(), steps, strict=True):
                p.sub_(0.1 * g)

    here.train("a")

    pairs = zip(here.network.parameters(), expected.parameters(), strict=True)
    assert all(torch.allclose(p, q, atol=1e-5) for p, q in pairs)


def test_it_counts_what_it_has_right(bare, tmp_path):
    here = bare.bench(small(tmp_path))
    with torch.no_grad():
        here.network[-1].weight.zero_()
        here.network[-1].bias.copy_(torch.tensor([0.0, 1.0, 0.0]))

    assert here.test(["a", "b"]) == sum(row % 3 == 1 for k in "ab" for row in here.task["test"][k])


def test_bf16_trains_with_half_the_bits_and_keeps_whole_weights(bare, tmp_path):
    here = bare.bench(small(tmp_path, precision="bf16"))
    seen = []
    here.network[1].register_forward_hook(lambda _m, _i, out: seen.append(out.dtype))

    here.train("a")

    assert set(seen) == {torch.bfloat16}
    assert {p.dtype for p in here.network.parameters()} == {torch.float32}


def test_clients_of_one_model_are_tested_in_pieces(bare, tmp_path, monkeypatch):
    monkeypatch.setattr(bare, "PIECE", 6)
    team = bare.Team.__new__(bare.Team)
    team.task = json.loads((small(tmp_path) / "task.json").read_text())

    assert list(team.pieces(["a", "b", "c"])) == [["a", "b"], ["c"]]
