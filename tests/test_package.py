"""What is installed: one light package, whole without its checkout, whose metadata agree."""

import ast
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
IMPORTED_AS = {"pillow": "PIL", "scikit-learn": "sklearn", "paho-mqtt": "paho", "tomli-w": "tomli_w"}


def names(requirements):
    """The names of these requirements, without our own extras."""
    found = {re.split(r"[\[<>=~! ]", r)[0] for r in requirements}
    return found - {"pluribus"}


def run(*arguments, **options):
    done = subprocess.run(arguments, check=False, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    offline = ["--no-deps", "--no-index", "--no-build-isolation"]
    run(sys.executable, "-m", "pip", "wheel", "--quiet", *offline, "--wheel-dir", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder with the installed wheel and nothing else, and how to run Python with it from elsewhere."""
    site, elsewhere = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("elsewhere")
    offline = ["--no-deps", "--no-index", "--no-compile"]
    run(sys.executable, "-m", "pip", "install", "--quiet", *offline, "--target", site, wheel)
    return site, {"cwd": elsewhere, "env": os.environ | {"PYTHONPATH": str(site)}}


def test_the_wheel_holds_the_package_its_types_and_its_licence_and_nothing_else(wheel):
    held = zipfile.ZipFile(wheel).namelist()

    files = {n.removeprefix("pluribus/") for n in held if n.startswith("pluribus/")}
    source = ROOT / "src" / "pluribus"
    here = {p.relative_to(source).as_posix() for p in source.rglob("*") if p.is_file() and p.suffix != ".pyc"}
    assert files == here | {"bench/bare.py"}  # it lies in benchmarks/ and imports nothing of ours
    assert "py.typed" in files
    assert any(n.endswith("/licenses/LICENSE") for n in held)
    assert {n.split("/")[0].split("-")[0] for n in held} == {"pluribus"}


def test_every_module_of_the_installed_wheel_is_imported_without_a_checkout(installed):
    site, elsewhere = installed
    code = """
import importlib, pkgutil, sys, pluribus
for module in pkgutil.walk_packages(pluribus.__path__, "pluribus."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(*{m.__file__ for n, m in sys.modules.items() if n.split(".")[0] == "pluribus"}, sep="\\n")
"""

    files = run(sys.executable, "-c", code, **elsewhere).split()

    assert len(files) > 10
    assert all(Path(f).is_relative_to(site) for f in files)


def test_the_installed_command_runs_without_a_checkout(installed):
    site, elsewhere = installed

    out = run(site / "bin" / "pluribus", "--help", **elsewhere)

    assert all(verb in out for verb in ("run", "compare", "methods"))


def test_the_command_line_starts_without_any_extra():
    extras = {IMPORTED_AS.get(n, n) for group in ("data", "report", "mqtt") for n in extra(group)}
    code = "import sys, pluribus.cli; print(*{n.split('.')[0] for n in sys.modules})"

    loaded = set(run(sys.executable, "-c", code).split())

    assert "pluribus" in loaded
    assert loaded & extras == set()


def extra(group):
    return names(PROJECT["optional-dependencies"][group])


def test_type_checkers_see_the_public_names_that_are_imported_when_used():
    import pluribus

    tree = ast.parse((ROOT / "src" / "pluribus" / "__init__.py").read_text())
    told = {
        (node.module, alias.asname)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
    }

    assert told == {(module, name) for name, module in pluribus._MODULE.items()}
    assert [name for name in pluribus.__all__ if not hasattr(pluribus, name)] == []


def test_all_that_is_imported_is_declared():
    declared = names(PROJECT["dependencies"]) | extra("data") | extra("report") | extra("mqtt")
    imported = set()
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                imported |= {a.name.split(".")[0] for a in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add((node.module or "").split(".")[0])

    foreign = imported - set(sys.stdlib_module_names) - {"pluribus"}

    assert foreign <= {IMPORTED_AS.get(n, n) for n in declared}


def test_every_dependency_has_its_reason_written_down():
    wanted = names([r for group in PROJECT["optional-dependencies"].values() for r in group])
    wanted |= names(PROJECT["dependencies"])

    reasons = (ROOT / "docs" / "decisions" / "0001-dependencies.md").read_text()

    assert {n for n in wanted if not re.search(rf"\b{n}\b", reasons)} == set()


def test_the_version_is_the_same_wherever_it_stands():
    citation = (ROOT / "CITATION.cff").read_text()

    assert metadata.version("pluribus") == PROJECT["version"]
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE)[1] == PROJECT["version"]


def test_the_example_in_contributing_is_a_real_method():
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)

    assert example in (ROOT / "src" / "pluribus" / "methods" / "fedper.py").read_text()
