"""What the README says is true: its generated parts are new, and its Python runs."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

from contracts import CONTRACTS

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def scripts_docs():
    spec = importlib.util.spec_from_file_location("scripts_docs", ROOT / "scripts" / "docs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_generated_parts_of_the_readme_are_new():
    assert scripts_docs().filled(README) == README


def test_the_first_example_runs_as_it_stands(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", blocks("python")[0]], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert re.search(r"round 5: loss \d\.\d+, [\d,]+ bytes up\nP \d+\.\d%, worst tenth \d+\.\d%", done.stdout)


def test_the_method_in_the_readme_is_the_librarys():
    shown = blocks("python")[1].partition("@dataclass")[2]

    real = (ROOT / "src" / "pluribus" / "methods" / "fedper.py").read_text().partition("@dataclass")[2]
    assert shown.split() == re.sub(r"  # \(.\)", "", real.partition('"""')[0]).split()


def test_every_command_of_the_readme_is_one_that_exists():
    from pluribus.cli.program import program

    verbs = {c.name or c.callback.__name__ for c in program().registered_commands}
    verbs |= {g.name for g in program().registered_groups}

    lines = [line.split() for block in blocks("bash") for line in block.splitlines()]
    assert {words[1] for words in lines if words[:1] == ["pluribus"]} <= verbs


def test_the_readme_counts_the_contracts():
    assert f"{len(CONTRACTS)} contract tests" in README
