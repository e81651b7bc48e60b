"""What there is is said: by help, and in the documentation."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from pluribus.cli.program import program

DOCS = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
COMMAND = typer.main.get_command(program())
VERBS = set(COMMAND.commands)


def section(verb: str) -> str:
    return re.split(r"^## ", DOCS.partition(f"\n## {verb}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def options(verb: str) -> set[str]:
    """Long options of a verb, and of the verbs below it."""
    command = COMMAND.commands[verb]
    below = [command, *getattr(command, "commands", {}).values()]
    names = {name for c in below for p in c.params for name in (*p.opts, *p.secondary_opts)}
    return {name for name in names if name.startswith("--")} - {"--help"}


def test_the_verbs_are_those_of_the_design():
    looking, running = {"methods", "datasets", "partitions", "models", "show", "data"}, {"run", "compare"}

    assert looking | running | {"resume", "export"} <= VERBS


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_a_verb_says_what_it_does(pluribus, verb):
    said = pluribus(verb, "--help")

    assert (said.code, said.err) == (0, "")
    assert COMMAND.commands[verb].help.split()[0] in said.out


def test_the_program_says_what_it_does_and_which_version_it_is(pluribus):
    assert "Personalised federated learning" in pluribus("--help").out
    assert re.fullmatch(r"pluribus (\d+\.\d+\S*|not installed)\n", pluribus("--version").out)


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_option_of_a_verb_is_documented(verb):
    told = section(verb)

    known = options("run") if verb == "compare" else set()  # compare: "takes the options of run"

    assert told, f"docs/cli.md has no section {verb}"
    assert sorted(name for name in options(verb) - known if f"`{name}`" not in told) == []


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_nothing_is_documented_that_there_is_not(verb):
    mentioned = set(re.findall(r"`(--[a-z-]+)`", section(verb)))

    known = options("run") if verb == "compare" else set()

    assert sorted(mentioned - options(verb) - known) == []


def test_every_verb_below_data_is_documented():
    assert [name for name in COMMAND.commands["data"].commands if f"`{name}`" not in section("data")] == []


def test_help_does_not_wait_for_torch():
    program = (
        "import sys, pluribus.cli as cli; sys.exit(cli.main(['run', '--help']) or 'torch' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
