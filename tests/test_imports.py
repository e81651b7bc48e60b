"""Who may import whom, read from the source."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "pluribus"
FILES = sorted(PACKAGE.rglob("*.py"))

FOUNDATION = {
    "augment", "descent", "device", "errors", "examples", "losses", "masking", "rebalancing", "seeds",
    "side_networks", "spelling", "stage", "state", "training",
}  # fmt: skip
WHAT_A_METHOD_SEES = {
    "method", "usual", "client", "augment", "examples", "losses", "masking", "prototypes",
    "rebalancing", "side_networks", "stage", "state",
}  # fmt: skip
MAY_IMPORT = {  # a module or folder, and all of the package that it may import besides itself
    **dict.fromkeys(FOUNDATION, FOUNDATION),
    "data": FOUNDATION,
    "models": FOUNDATION,
    "client": FOUNDATION,
    "prototypes": FOUNDATION | {"client"},
    "method": FOUNDATION | {"client"},
    "usual": FOUNDATION | {"client", "method"},
    "methods": WHAT_A_METHOD_SEES,
}
MUST_NOT_IMPORT = {  # for all else: what lies above it
    "executors": {"engine", "data", "methods", "runs", "readings", "experiments", "report", "cli"},
    "engine": {"data", "methods", "runs", "experiments", "report", "cli"},
    "readings": {"methods", "experiments", "report", "cli"},
    "runs": {"experiments", "report", "cli"},
    "experiments": {"report", "cli"},
}
NAMES_FOR_ANYTHING = {"base", "common", "core", "helper", "helpers", "misc", "util", "utils"}
GLOBAL_SEEDS = {
    "torch.manual_seed", "torch.seed", "torch.initial_seed", "torch.random.manual_seed",
    "torch.set_rng_state", "np.random.seed", "numpy.random.seed", "random.seed",
}  # fmt: skip


def module(file: Path, package: Path = PACKAGE) -> tuple[str, ...]:
    """`("methods", "fedrep")` of methods/fedrep.py; a package is its folder."""
    parts = file.relative_to(package).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def imports(file: Path, package: Path = PACKAGE) -> Iterator[tuple[str, ...]]:
    """What the file imports of the package, as tuples of names; `from .. import state` counts as `state`."""
    folder = file.relative_to(package).parts[:-1]
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Import(names=names):
                yield from within(tuple(a.name.split(".")) for a in names)
            case ast.ImportFrom(module=origin, names=names, level=level):
                start = ("pluribus", *folder[: len(folder) - level + 1]) if level else ()
                path = (*start, *(origin.split(".") if origin else ()))
                yield from within([path] if len(path) > 1 else ((*path, a.name) for a in names))


def within(paths: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Those of these paths that lead into the package, from there on."""
    return (path[1:] for path in paths if path[0] == "pluribus")


def allowed(here: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Whether a module of the package may import another."""
    top, other = here[0] if here else "", path[0]
    if top == other:
        return top != "methods" or here == (
            "methods",
        )  # the catalogue knows the methods, they not each other
    if other == "cli":
        return top == "__main__"
    if top in MAY_IMPORT:
        return other in MAY_IMPORT[top]
    return other not in MUST_NOT_IMPORT.get(top, ())


def forbidden(file: Path, package: Path = PACKAGE) -> list[str]:
    """The imports of this file that break the rule."""
    return [".".join(path) for path in imports(file, package) if not allowed(module(file, package), path)]


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_nothing_imports_what_lies_above_it(file):
    assert forbidden(file) == []


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_no_module_is_named_after_nothing(file):
    assert not NAMES_FOR_ANYTHING & set(module(file))


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_global_seeds_are_touched_in_one_place_only(file):
    calls = (n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.Attribute))

    touched = {ast.unparse(c) for c in calls} & GLOBAL_SEEDS

    assert not touched or module(file) == ("seeds",)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("methods/fedx.py", "from ..engine import rounds"),
        ("methods/fedx.py", "from ..data import federation"),
        ("methods/fedx.py", "from .. import executors"),
        ("methods/fedx.py", "from .fedavg import FedAvg"),
        ("methods/fedx.py", "from . import fedavg"),
        ("methods/fedx.py", "import pluribus.engine"),
        ("methods/fedx.py", "from pluribus.methods.fedavg import FedAvg"),
        ("state.py", "from .client import Client"),
        ("data/mnist.py", "from ..method import Method"),
        ("models/cnn.py", "from .. import engine"),
        ("engine.py", "from .methods import METHODS"),
        ("executors/serial.py", "from ..engine import rounds"),
        ("experiments/fedreg.py", "def later():\n    from ..cli import main"),
        ("__init__.py", "from .cli import main"),
    ],
)
def test_the_rule_sees_what_is_forbidden(tmp_path, path, line):
    file = tmp_path / path
    file.parent.mkdir(exist_ok=True)
    file.write_text(line)

    assert len(forbidden(file, tmp_path)) == 1


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("methods/fedx.py", "import torch\nfrom ..method import Method\nfrom ..state import average"),
        ("methods/__init__.py", "from .fedavg import FedAvg\nfrom ..method import Method"),
        ("data/mnist.py", "from .idx import read\nfrom ..errors import DataError"),
        ("cli/run.py", "from ..engine import rounds\nfrom . import options"),
        ("__main__.py", "from pluribus.cli import main"),
    ],
)
def test_the_rule_lets_pass_what_is_allowed(tmp_path, path, line):
    file = tmp_path / path
    file.parent.mkdir(exist_ok=True)
    file.write_text(line)

    assert forbidden(file, tmp_path) == []
