"""Whole runs on digits: what they leave behind, and that an interruption at any moment changes nothing."""

import json
import signal
import threading
from pathlib import Path

import msgspec
import pytest
import torch

from pluribus.errors import PluribusError, RunError, SettingError
from pluribus.runs import Interrupted, Listener, Result, members_of, reopen, result_in, resume, rounds_in, run
from pluribus.settings import Settings
from pluribus.state import digest
from pluribus.study import prepare


class Fault(Exception):
    """What ends a run in the middle."""


class FaultAfter(Listener):
    """Fails when the line of this round is written and its checkpoint is not."""

    def __init__(self, round):
        self.round = round

    def passed(self, line):
        if line.round == self.round:
            raise Fault


class Heard(Listener):
    """Remembers what it was told."""

    def __init__(self):
        self.told, self.notes = [], []

    def started(self, study, folder):
        self.told.append(("started", folder))

    def passed(self, line):
        self.told.append(("passed", line.round))

    def evaluated(self, round, readings, line):
        self.told.append(("evaluated", round, readings.accuracy("personal")))

    def note(self, text):
        self.notes.append(text)

    def finished(self, result):
        self.told.append(("finished", result))


def without_seconds(folder):
    return [msgspec.structs.replace(line, seconds=None) for line in rounds_in(folder)]


def numbers(result):
    """All of a result that must be equal when two runs are."""
    return msgspec.structs.replace(result, seconds=None, run_dir="")


@pytest.fixture(scope="session")
def whole(study, tmp_path_factory):
    """A run that nothing interrupted."""
    return run(study.settings, out=tmp_path_factory.mktemp("whole"), study=study)


# what it leaves behind --------------------------------------------------------------------------------


def test_a_run_leaves_exactly_these_files(whole):
    folder = Path(whole.run_dir)

    names = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}

    assert names - {n for n in names if n.startswith("checkpoint/")} == {
        "settings.toml",
        "environment.json",
        "division.safetensors",
        "rounds.jsonl",
        "clients.jsonl",
        "result.json",
    }
    assert {n for n in names if n.endswith(".json")} >= {"checkpoint/000003.json", "checkpoint/000004.json"}


def test_the_result_on_disk_is_the_result(whole):
    text = (Path(whole.run_dir) / "result.json").read_text()

    assert msgspec.json.decode(text, type=Result) == whole
    assert "NaN" not in text
    assert {
        "method",
        "data",
        "clients",
        "rounds",
        "seed",
        "generic",
        "personal",
        "payload_bytes",
        "wire_bytes",
        "hash",
        "seconds",
        "run_dir",
        "newcomers",
        "settings",
        "missing",
    } <= json.loads(text).keys()


def test_the_settings_in_the_folder_repeat_the_run(whole, study):
    settings = Settings.from_toml(Path(whole.run_dir) / "settings.toml")

    assert settings == study.settings
    assert numbers(run(settings)) == numbers(whole)


def test_readings_are_of_the_last_round_the_best_and_the_one_that_validation_selects(whole):
    lines = rounds_in(whole.run_dir)
    name = "personal/network"
    best = max(range(4), key=lambda i: lines[i].validation[name].accuracy)

    assert whole.personal.last == lines[-1].readings[name].accuracy
    assert whole.personal.best_on_test == max(line.readings[name].accuracy for line in lines)
    assert whole.personal.selected == lines[best].readings[name].accuracy
    assert whole.personal.worst_tenth == lines[-1].readings[name].worst_tenth


def test_every_client_and_newcomer_has_a_line_with_its_readings(whole, study):
    members = members_of(whole.run_dir)

    assert [m.id for m in members] == list(study.division.everyone)
    assert [m.id for m in members if m.newcomer] == list(study.division.newcomers)
    for m in members:
        kinds = (
            {"zero-shot/network", "adapted/network"}
            if m.newcomer
            else {"personal/network", "generic/whole models"}
        )
        assert set(m.readings) == kinds
        assert sum(m.classes) == m.train == len(study.place.data_of(m.id).train)
    right = sum(m.readings["adapted/network"].right for m in members if m.newcomer)
    assert whole.newcomers.adapted == right / sum(m.test for m in members if m.newcomer)


def test_bytes_are_those_of_the_shared_part_both_ways(whole):
    """mlp:8 on digits: the encoder has 64 x 8 + 8 numbers of four bytes; who is heard uploads them."""
    lines = rounds_in(whole.run_dir)
    heard, asked = (sum(getattr(line.cohort, name) for line in lines) for name in ("heard", "asked"))

    assert whole.payload_bytes.up == heard * 4 * (64 * 8 + 8)
    assert whole.payload_bytes.down == asked * 4 * (64 * 8 + 8)
    assert lines[-1].total_bytes == whole.payload_bytes
    assert heard < asked


def test_the_seconds_of_a_round_add_up_to_its_wall_time(whole):
    for line in rounds_in(whole.run_dir):
        s = line.seconds

        assert s.train + s.evaluate + s.aggregate + s.overhead == pytest.approx(s.wall, abs=1e-6)
        assert min(s.train, s.evaluate, s.wall) > 0


def test_hashes_are_of_what_the_last_checkpoint_holds(whole):
    study, now = reopen(whole.run_dir)

    assert digest(now.server.shared) == whole.hash.shared
    assert now.number == 4
    assert study.settings.hash == whole.settings_hash


def test_nothing_of_the_machine_stands_in_the_files(whole, tmp_path):
    folder = Path(whole.run_dir)

    assert str(folder.parent) not in (folder / "environment.json").read_text()
    assert str(folder.parent) not in (folder / "settings.toml").read_text()


def test_without_validation_data_and_newcomers_it_says_why_there_is_no_such_number(study):
    result = run(study.settings.with_(val=0.0, newcomers=0, rounds=1))

    assert result.personal.selected is None
    assert (result.newcomers.zero_shot, result.newcomers.clients) == (None, 0)
    assert {"selected", "newcomers"} <= result.missing.keys()
    assert result.clients == 8


def test_fedavg_is_read_by_its_own_model_and_watches_nobody(study):
    result = run(study.settings.with_(method="fedavg", rounds=1, personal_on="received"))

    assert set(result.readings) == {"personal/network", "generic/network"}
    assert result.generic == result.personal


def test_it_evaluates_every_so_many_rounds_and_after_the_last(study):
    heard = Heard()

    result = run(study.settings.with_(rounds=5, eval_every=2), listener=heard)

    assert [event[1] for event in heard.told if event[0] == "evaluated"] == [2, 4, 5]
    assert [bool(line.readings) for line in rounds_in(result.run_dir)] == [False, True, False, True, True]


def test_a_listener_hears_everything_in_order(study):
    heard = Heard()

    result = run(study.settings.with_(rounds=2), listener=heard)

    assert [event[0] for event in heard.told] == [
        "started",
        "passed",
        "evaluated",
        "passed",
        "evaluated",
        "finished",
    ]
    assert heard.told[-1][1] == result
    assert heard.told[-2][2] == result.personal.last


def test_threads_are_given_back(study):
    before = torch.get_num_threads()

    run(study.settings, study=study)

    assert torch.get_num_threads() == before


def test_a_study_of_other_settings_is_refused(study):
    with pytest.raises(SettingError, match="prepared from other settings"):
        run(study.settings.with_(rounds=1), study=study)


@pytest.mark.parametrize(
    "go", [lambda study: run(study.settings, checkpoint_every=0), lambda _: resume(".", checkpoint_every=0)]
)
def test_a_checkpoint_is_written_every_one_or_more_rounds(study, go):
    with pytest.raises(SettingError, match="checkpoint_every is 0"):
        go(study)


# folders ----------------------------------------------------------------------------------------------


def test_two_runs_of_the_same_settings_do_not_collide(study):
    settings = study.settings.with_(rounds=1)

    folders = [Path(run(settings).run_dir) for _ in range(3)]

    assert len({f.name for f in folders}) == 3
    assert folders[1].name == f"{folders[0].name}-2"
    assert folders[2].name == f"{folders[0].name}-3"


def test_a_folder_that_is_not_empty_is_refused(study):
    Path("mine").mkdir()
    Path("mine/thesis.txt").write_text("no copy")

    with pytest.raises(RunError, match=r"mine is not empty.*\n.*resume mine"):
        run(study.settings, out="mine", study=study)

    assert [p.name for p in Path("mine").iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("name", ["a/b", "..", "/root"])
def test_a_name_is_that_of_one_folder(study, name):
    with pytest.raises(SettingError, match="name is"):
        run(study.settings, name=name, study=study)


def test_a_folder_that_cannot_be_written_is_refused_and_nothing_is_left(study):
    Path("file").write_text("")

    with pytest.raises(RunError, match="cannot write file/run"):
        run(study.settings, out="file/run", study=study)


def test_settings_that_cannot_work_leave_nothing(study):
    with pytest.raises(PluribusError):
        run(study.settings.with_(clients=100_000))

    assert not Path("runs").exists()


# interruption -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("round", [1, 2, 3, 4])
def test_killed_before_a_checkpoint_and_resumed_it_ends_with_the_same_bits(study, whole, round):
    with pytest.raises(Fault):
        run(study.settings, out="run", study=study, listener=FaultAfter(round))

    result = resume("run")

    assert numbers(result) == numbers(whole)
    assert without_seconds("run") == without_seconds(whole.run_dir)
    assert members_of("run") == members_of(whole.run_dir)


@pytest.mark.parametrize("round", [2, 3])
def test_it_does_not_matter_how_often_a_checkpoint_is_written(study, whole, round):
    with pytest.raises(Fault):
        run(study.settings, out="run", study=study, listener=FaultAfter(round), checkpoint_every=2)

    assert numbers(resume("run", checkpoint_every=3)) == numbers(whole)
    assert without_seconds("run") == without_seconds(whole.run_dir)


class FaultAtTheEnd(Listener):
    """Fails when only the result is left to be told."""

    def finished(self, result):
        raise Fault


def test_killed_when_only_the_result_is_missing_it_is_made_again(study, whole):
    with pytest.raises(Fault):
        run(study.settings, out="run", study=study, listener=FaultAtTheEnd())
    Path("run/result.json").write_bytes(Path("run/result.json").read_bytes()[:100])

    result = resume("run")

    assert numbers(result) == numbers(whole)
    assert result_in("run") == result


def test_a_finished_run_is_not_done_again(whole):
    heard = Heard()
    before = {p: p.stat().st_mtime_ns for p in Path(whole.run_dir).rglob("*")}

    result = resume(whole.run_dir, listener=heard)

    assert result == whole
    assert "is finished" in heard.notes[0]
    assert {p: p.stat().st_mtime_ns for p in Path(whole.run_dir).rglob("*")} == before


def test_a_torn_line_and_those_after_the_checkpoint_are_cut_off(study, whole):
    with pytest.raises(Fault):
        run(study.settings, out="run", study=study, listener=FaultAfter(3))
    with Path("run/rounds.jsonl").open("ab") as file:
        file.write(b'{"round":4,"stages":4,"rea')

    resume("run")

    assert without_seconds("run") == without_seconds(whole.run_dir)


def test_a_damaged_checkpoint_costs_a_round_and_no_bit(study, whole):
    with pytest.raises(Fault):
        run(study.settings, out="run", study=study, listener=FaultAfter(4))
    Path("run/checkpoint/000003.server.safetensors").write_bytes(b"")
    heard = Heard()

    result = resume("run", listener=heard)

    assert numbers(result) == numbers(whole)
    assert "000003 cannot be used" in heard.notes[0]


def test_a_log_that_lacks_rounds_makes_its_checkpoint_unusable(study, whole):
    with pytest.raises(Fault):
        run(study.settings, out="run", study=study, listener=FaultAfter(4))
    log = Path("run/rounds.jsonl")
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:2]))

    result = resume("run")

    assert numbers(result) == numbers(whole)
    assert without_seconds("run") == without_seconds(whole.run_dir)


def test_a_damaged_division_is_divided_again(study, whole):
    with pytest.raises(Fault):
        run(study.settings, out="run", study=study, listener=FaultAfter(2))
    Path("run/division.safetensors").write_bytes(b"\0" * 100)
    heard = Heard()

    result = resume("run", listener=heard)

    assert numbers(result) == numbers(whole)
    assert "divided again" in heard.notes[0]


def test_settings_that_were_edited_are_noticed(study):
    with pytest.raises(Fault):
        run(study.settings, out="run", study=study, listener=FaultAfter(2))
    path = Path("run/settings.toml")
    path.write_text(path.read_text().replace("lr = 0.01", "lr = 0.02"))

    with pytest.raises(RunError, match=r"not what this run began with\n.*--config"):
        resume("run")


def test_an_unknown_field_in_the_settings_names_the_file(study):
    with pytest.raises(Fault):
        run(study.settings, out="run", study=study, listener=FaultAfter(1))
    path = Path("run/settings.toml")
    path.write_text("rouns = 4\n" + path.read_text())

    with pytest.raises(SettingError, match=r"run/settings.toml: no setting 'rouns'; did you mean 'rounds'\?"):
        resume("run")


def test_what_is_no_run_cannot_be_resumed(tmp_path):
    with pytest.raises(RunError, match="not the folder of a run"):
        resume(tmp_path)


def test_a_run_on_another_processor_says_that_its_bits_may_differ(study):
    with pytest.raises(Fault):
        run(study.settings, out="run", study=study, listener=FaultAfter(1))
    path = Path("run/environment.json")
    began = json.loads(path.read_text())
    began["versions"]["torch"], began["capability"] = "1.0", "abacus"
    path.write_text(json.dumps(began))
    heard = Heard()

    resume("run", listener=heard)

    assert "torch" in heard.notes[0]
    assert "was abacus" in heard.notes[0]


def test_only_one_process_works_in_a_folder(study):
    seen = []

    class Second(Listener):
        def passed(self, line):
            with pytest.raises(RunError, match="another process is at work in run") as caught:
                resume("run")
            seen.append(caught.value)

    run(study.settings.with_(rounds=1), out="run", listener=Second())

    assert len(seen) == 1


# ctrl-c -----------------------------------------------------------------------------------------------


class Impatient(Listener):
    """Presses Ctrl-C after this round is logged, so many times."""

    def __init__(self, round, times=1):
        self.round, self.times = round, times
        self.notes = []

    def passed(self, line):
        if line.round == self.round:
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)

    def note(self, text):
        self.notes.append(text)


def test_ctrl_c_finishes_the_round_writes_and_says_how_to_go_on(study, whole):
    before = signal.getsignal(signal.SIGINT)
    listener = Impatient(2)

    with pytest.raises(Interrupted, match="stopped after round 2 of 4; to go on: pluribus resume run"):
        run(study.settings, out="run", study=study, listener=listener, checkpoint_every=4)

    assert signal.getsignal(signal.SIGINT) is before
    assert "finishing this round" in listener.notes[-1]
    assert [p.stem for p in Path("run/checkpoint").glob("*.json")] == ["000002"]
    assert numbers(resume("run")) == numbers(whole)


def test_whoever_began_it_can_have_it_stopped_after_a_round(study, whole):
    asked = iter([False, True])

    with pytest.raises(Interrupted, match="stopped after round 2 of 4"):
        run(study.settings, out="run", study=study, stop=lambda: next(asked), checkpoint_every=4)
    with pytest.raises(Interrupted, match="stopped after round 3 of 4"):
        resume("run", stop=lambda: True)

    assert numbers(resume("run", stop=lambda: True)) == numbers(whole)  # what is done is not stopped


def test_ctrl_c_twice_stops_at_once(study, whole):
    with pytest.raises(KeyboardInterrupt) as caught:
        run(study.settings, out="run", study=study, listener=Impatient(2, times=2))

    assert not isinstance(caught.value, Interrupted)
    assert numbers(resume("run")) == numbers(whole)


def test_ctrl_c_in_the_last_round_lets_the_run_finish(study, whole):
    result = run(study.settings, out="run", study=study, listener=Impatient(4))

    assert numbers(result) == numbers(whole)


def test_a_run_in_another_thread_leaves_signals_alone(study):
    results = []
    settings = study.settings.with_(rounds=1)
    worker = threading.Thread(target=lambda: results.append(run(settings)))

    worker.start()
    worker.join()

    assert len(results) == 1


# disk -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["rounds.jsonl", "000003.server", "000003.clients", "000003.json", "clients.jsonl"]
)
def test_a_full_disk_is_one_error_and_what_was_written_stays_usable(study, whole, monkeypatch, name):
    really = Path.open

    def full(self, mode="r", *args, **kwargs):
        if name in self.name and ("w" in mode or ("a" in mode and len(rounds_in("run")) == 2)):
            raise OSError(28, "No space left on device")
        return really(self, mode, *args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", full)
        with pytest.raises(RunError, match=r"cannot write .*No space left on device\n.*make room"):
            run(study.settings, out="run", study=study)

    assert numbers(resume("run")) == numbers(whole)
    assert without_seconds("run") == without_seconds(whole.run_dir)


def test_a_folder_that_vanishes_is_one_error(study):
    class Vanishing(Listener):
        def passed(self, line):
            Path("run").rename("elsewhere")

    with pytest.raises(RunError, match="cannot write run"):
        run(study.settings, out="run", study=study, listener=Vanishing())

    assert not Path("run").exists()


def test_a_full_disk_at_the_beginning_leaves_nothing(study, monkeypatch):
    really = Path.open

    def full(self, mode="r", *args, **kwargs):
        if "settings.toml" in self.name and "w" in mode:
            raise OSError(28, "No space left on device")
        return really(self, mode, *args, **kwargs)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(RunError, match="No space left"):
        run(study.settings, study=study)

    assert not Path("runs").exists()


def test_prepare_is_enough_to_run_twice(study, whole):
    assert numbers(run(study.settings, study=prepare(study.settings))) == numbers(whole)
