"""What goes wrong ends in a paragraph and an exit code, never in a traceback."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from typer.exceptions import Exit

from pluribus.cli.faults import exit_code
from pluribus.errors import SettingError

PLURIBUS = (sys.executable, "-c", "import sys; from pluribus.cli import main; sys.exit(main())")


def raising(error):
    def work():
        raise error

    return work


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "fedrap"], ["no method 'fedrap'; did you mean 'fedrep'?", "there are: "]),
        (["rum"], ["no such command 'rum'", "run"]),
        (["run", "--round", "3"], ["no such option: --round", "--rounds"]),
        (["run", "--rounds", "many"], ["--rounds", "integer"]),
        (["run", "--lr", "nan"], ["lr is nan", "finite"]),
        (["run", "--clients", "0"], ["clients is 0", "1 or more"]),
        (["run", "--data", "cifar11"], ["no dataset 'cifar11'; did you mean 'cifar10'?"]),
        (["run", "--join", "half"], ["join is 'half'"]),
        (["run", "--set", "mu"], ["set is 'mu'", "name=value"]),
        (["run", "--lr-at", "soon"], ["lr_at is 'soon'", "50=0.01"]),
        (["run", "--config", "nowhere.toml"], ["nowhere.toml"]),
        (["run", "fedrep", "--set", "head_epoch=3"], ["head_epoch", "did you mean 'head_epochs'?"]),
        (["run", "--executor", "moon"], ["--executor", "serial"]),
        (["compare"], ["METHOD"]),
        (["compare", "fedavg", "--seeds", "few"], ["seeds is 'few'"]),
        (["compare", "fedavg", "--seeds", "0"], ["seeds is '0'"]),
        (["compare", "fedavg", "--reading", "selected"], ["validation data", "val=0.1"]),
        (["resume", "nowhere"], ["nowhere"]),
        (["export", "nowhere", "--client", "3"], ["nowhere"]),
        (["export", "nowhere"], ["--client", "--generic"]),
        (["show", "fedrap"], ["did you mean 'fedrep'?"]),
        (["show", "dirichlet:0", "--data", "digits"], ["alpha is 0"]),
        (["show", "resnet18:stem=5x5"], ["stem"]),
        (["models", "--data", "cifar"], ["no dataset 'cifar'"]),
        (["data", "where", "nothing"], ["no dataset 'nothing'"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)  # fmt: skip
def test_what_a_user_can_fix_is_said_in_a_paragraph(pluribus, arguments, words, tmp_path):
    said = pluribus(*arguments)

    assert said.code == 1
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert [word for word in words if word not in said.err] == []
    assert "Traceback" not in said.err
    assert list(tmp_path.iterdir()) == []


def test_a_fault_of_ours_leaves_a_log(capsys):
    code = exit_code(raising(ZeroDivisionError("by nought")), ["run", "fedavg"])

    said = capsys.readouterr().err
    log = Path(said.split()[-1])
    assert code == 3
    assert "ZeroDivisionError: by nought" in said
    assert "Traceback" not in said
    text = log.read_text()
    log.unlink()
    assert "pluribus run fedavg" in text
    assert "Traceback" in text
    assert "torch" in text


def test_an_interrupted_run_ends_with_130_and_says_how_to_go_on(capsys):
    code = exit_code(raising(KeyboardInterrupt("stopped after round 3\n    pluribus resume here")), [])

    assert code == 130
    assert "pluribus resume here" in capsys.readouterr().err


def test_our_errors_end_with_1_and_help_with_0(capsys):
    assert exit_code(raising(SettingError("rounds is 0")), []) == 1
    assert exit_code(raising(Exit(0)), []) == 0
    assert exit_code(lambda: None, []) == 0
    assert capsys.readouterr().err == "error: rounds is 0\n"


def test_brackets_in_a_message_are_not_markup(capsys):
    exit_code(raising(SettingError("got ['head'] and [bold]")), [])

    assert "['head'] and [bold]" in capsys.readouterr().err


def test_the_librarys_warnings_are_told_and_those_of_others_are_not(capsys):
    def work():
        warnings.warn_explicit("cannot write the cache", UserWarning, "file", 1, module="pluribus.data.cache")
        warnings.warn_explicit("use something else", DeprecationWarning, "file", 1, module="numpy")

    assert exit_code(work, []) == 0
    assert capsys.readouterr().err == "warning: cannot write the cache\n"


def test_a_reader_that_has_seen_enough_is_no_error():
    read, write = os.pipe()
    os.close(read)

    done = subprocess.run([*PLURIBUS, "partitions"], stdout=write, stderr=subprocess.PIPE, check=False)

    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


PRESSED = """
import os, signal, sys
from pluribus.cli import display, main

def evaluated(self, round, *of, really=display.Plain.evaluated):
    really(self, round, *of)
    if round == 2:
        os.kill(os.getpid(), signal.SIGINT)

display.Plain.evaluated = evaluated
sys.exit(main(sys.argv[1:]))
"""


def test_ctrl_c_finishes_the_round_and_the_run_can_go_on(pluribus, tmp_path):
    long = (
        "run",
        "fedper",
        "--data",
        "digits",
        "--clients",
        "4",
        "--model",
        "mlp:16",
        "--rounds",
        "6",
        "--json",
    )
    pressed = [sys.executable, "-c", PRESSED, *long, "--out", "mine"]
    run = subprocess.run(pressed, capture_output=True, text=True, cwd=tmp_path, check=False)

    assert run.returncode == 130
    assert "stopped after round 2 of 6; to go on: pluribus resume mine" in run.stderr
    assert "Traceback" not in run.stderr
    whole = pluribus(*long, "--quiet").json
    assert pluribus("resume", "mine", "--json").json["hash"] == whole["hash"]
