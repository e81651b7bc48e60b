"""Races: the same rounds in turns, and what is made of their times."""

import io
import json
import sys
import textwrap

import pytest

from pluribus.bench import Entrant, Race, Ratio, race, race_table, seen_by, workload
from pluribus.bench.held import Held, Over, changed
from pluribus.bench.race import in_turns, laps_of
from pluribus.bench.records import Lap, ratio_of
from pluribus.bench.side import Side, ours
from pluribus.bench.task import task_of
from pluribus.bench.workload import WORKLOADS, random_images, study_of
from pluribus.data import entry
from pluribus.engine import rounds
from pluribus.errors import RunError, SettingError, UnknownName
from pluribus.readings.evaluate import evaluate
from pluribus.runs import Line
from pluribus.runs.records import Bytes, Cohort, Seconds


def lap(seconds, samples=100):
    return Lap(seconds, seconds, 0.0, samples, 1)


def entrant(name, body, folder):
    """A side whose answer to a line is what this expression of `number` says."""
    script = folder / f"{name}.py"
    script.write_text(
        textwrap.dedent(f"""
        import json, sys
        for line in sys.stdin:
            number = int(line)
            print(json.dumps({body}), flush=True)
    """)
    )
    return Entrant(name, (sys.executable, "-S", str(script)))


ANSWER = '{"round": number, "seconds": 2.0, "train": 1.5, "evaluate": 0.5, "samples": 10}'


@pytest.fixture
def sides(tmp_path):
    """Makes sides, and ends them after the test."""
    made = []

    def make(name, body=ANSWER):
        made.append(Side(entrant(name, body, tmp_path), tmp_path, 1))
        return made[-1]

    yield make
    for side in made:
        side.close()


def test_a_ratio_is_the_median_of_the_laps_ratios():
    """Ratios 1.1, 1.2, 1.0, 1.4, 1.3; of the sums it would be 21.5 / 19 = 1.13."""
    ours, theirs = [1.1, 1.2, 15.0, 2.8, 1.3], [1.0, 1.0, 15.0, 2.0, 1.0]

    ratio = ratio_of([lap(s) for s in ours], [lap(s) for s in theirs])

    assert ratio.median == pytest.approx(1.2)
    assert (ratio.low, ratio.high) == (pytest.approx(1.1), pytest.approx(1.3))


def test_the_ratio_of_one_lap_has_no_spread():
    assert ratio_of([lap(3.0)], [lap(2.0)]) == Ratio(1.5, 1.5, 1.5)


def test_rounds_are_put_together_to_laps():
    rounds = [{"seconds": s, "train": 1.0, "evaluate": s - 1, "samples": 10} for s in (1.0, 2.0, 3.0, 4.0)]

    laps = laps_of({"engine": rounds}, 2)

    assert laps == {"engine": [Lap(3.0, 2.0, 1.0, 20, 2), Lap(7.0, 2.0, 5.0, 20, 2)]}


def test_sides_that_did_not_do_the_same_work_are_not_compared():
    one = {"seconds": 1.0, "train": 1.0, "evaluate": 0.0}

    with pytest.raises(RunError, match="did not do the same work"):
        laps_of({"engine": [one | {"samples": 10}], "bare": [one | {"samples": 9}]}, 1)


def test_sides_take_turns_in_going_first_and_the_first_round_does_not_count(sides):
    heard = []

    counted = in_turns([sides("a"), sides("b")], 2, heard.append)

    assert [line.split()[2] for line in heard] == ["b", "a", "a", "b", "b", "a"]
    assert [[answer["round"] for answer in counted[name]] for name in "ab"] == [[1, 2], [1, 2]]


def test_a_side_that_ends_is_an_error_with_its_last_words(sides):
    side = sides("lost", "[][number]")

    with pytest.raises(RunError, match=r"(?s)lost gave no answer.*IndexError"):
        side.round(0)


def test_a_side_that_does_another_round_is_an_error(sides):
    with pytest.raises(RunError, match="was asked for round 3 and did 4"):
        sides("ahead", '{"round": number + 1}').round(3)


def test_a_program_that_is_not_there_is_an_error_that_names_it():
    with pytest.raises(RunError, match="flower cannot be started"):
        race(workload("tiny"), [Entrant("flower", ("./no-such-program",))], repeats=1)


def test_a_run_is_held_until_the_next_round_is_asked_for():
    answers, asks = io.StringIO(), io.StringIO("0\n1\n")
    held = Held(asks, answers)
    line = Line(round=1, stages=1, loss=None, bytes=Bytes(), total_bytes=Bytes(), samples=7,
                cohort=Cohort(1, 1), seconds=Seconds(train=0.25, evaluate=0.5))  # fmt: skip

    held.wait()
    held.passed(line)

    answer = json.loads(answers.getvalue())
    assert (answer["round"], answer["samples"], answer["train"], answer["evaluate"]) == (0, 7, 0.25, 0.5)
    with pytest.raises(Over):
        held.passed(line)


def test_the_engine_may_differ_in_single_settings():
    settings = workload("tiny").settled(3)

    other = changed(settings, ours(reuse=False, clients=20).command[5:])

    assert (other.training.reuse, other.clients) == (False, 20)
    assert (settings.training.reuse, settings.clients) == (True, 10)


def test_a_task_says_who_trains_and_is_tested_as_the_engine_does_it():
    study = study_of(workload("tiny").settled(3, method="fedper"))

    task = task_of(study, "float32")

    seen, last = set(), None
    for now, plan in zip(rounds(study.place, study.conduct), task["rounds"], strict=True):
        assert plan["cohort"] == now.cohort
        seen |= set(now.cohort)
        alone = {group[0] for group in plan["evaluate"] if len(group) == 1}
        assert alone >= seen
        last = now
    looks = Recorder()
    evaluate(study.place, last, looks, whole=last.trained)
    assert sorted(map(sorted, looks.groups)) == sorted(map(sorted, task["rounds"][-1]["evaluate"]))


class Recorder:
    """An executor that notes whom it is asked to look at together."""

    def run(self, work, items):
        self.groups = [item.clients for item in items]
        for item in items:
            yield item.done_in(work)


def test_a_task_without_personal_parts_tests_everybody_once():
    study = study_of(workload("tiny").settled(2))

    task = task_of(study, "float32")

    everybody = [k for k, client in study.federation.items() if len(client.test)]
    assert [plan["evaluate"] for plan in task["rounds"]] == [[everybody]] * 2


def test_a_round_without_evaluation_tests_nobody():
    settings = workload("tiny").settings.with_(eval_every=2, rounds=3).resolved()

    task = task_of(study_of(settings), "float32")

    assert [len(plan["evaluate"]) for plan in task["rounds"]] == [0, 1, 1]


def test_random_images_stand_in_for_a_dataset_that_is_not_here(monkeypatch, tmp_path):
    monkeypatch.setenv("PLURIBUS_CACHE", str(tmp_path))
    monkeypatch.delenv("PLURIBUS_DATA", raising=False)
    images = random_images(entry("fashion-mnist"), 100)

    assert images.inputs.shape == (100, 1, 28, 28)
    assert len(images.labels.unique()) == 10
    assert images.digest == random_images(entry("fashion-mnist"), 100).digest


def test_a_federation_of_so_many_rows_each_has_them():
    settings = workload("tiny").settings.with_(partition="iid", clients=300, test=0.2, rounds=1).resolved()

    study = study_of(settings, rows_each=10)

    assert {(len(c.train), len(c.test)) for c in study.federation.values()} == {(8, 2)}


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_has_the_model_and_the_clients_it_says(name):
    work = WORKLOADS[name]

    settings = work.settled(5, method="fedper")

    assert settings.method == "fedper"
    assert settings.set["epochs"] == work.settings.set["epochs"]
    assert f"{settings.clients:,} clients" in work.title
    assert work.lap == settings.eval_every


@pytest.mark.parametrize(
    ("wrong", "error"),
    [({"repeats": 0}, SettingError), ({"workers": 0}, SettingError), ({"method": "fedprox"}, UnknownName),
     ({"precision": "bf8"}, UnknownName)],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused_before_anything_starts(wrong, error):
    with pytest.raises(error):
        race(workload("tiny"), **wrong)


def test_the_same_laps_are_seen_by_another_side():
    """Half the time of flower's three, and of the engine nothing is said."""
    laps = {"engine": [lap(2.0)], "bare": [lap(1.9)], "half": [lap(1.5)], "flower": [lap(3.0)]}
    shown = Race(
        setting="tiny", title="small", method="fedavg", precision="float32", data="real", workers=2,
        laps=laps, ratio=1.05, ratios={}, gflops=200.4, product_gflops=243.2, machine={}, versions={},
        date="2026-11-18",
    )  # fmt: skip

    other = seen_by(shown, "half", ["flower"], "bf16")

    assert list(other.laps) == ["half", "flower"]
    assert other.ratios == {"flower": Ratio(0.5, 0.5, 0.5)}
    assert (other.precision, other.ratio, other.gflops) == ("bf16", None, None)


def test_the_table_has_a_row_for_each_side_and_the_ratios():
    laps = {"engine": [lap(1.2), lap(1.1)], "bare": [lap(1.0), lap(1.0)]}
    shown = Race(
        setting="tiny", title="small", method="fedavg", precision="float32", data="real", workers=2,
        laps=laps, ratio=1.15, ratios={"bare": Ratio(1.15, 1.125, 1.175)}, gflops=200.4, product_gflops=243.2,
        machine={}, versions={}, date="2026-11-18",
    )  # fmt: skip

    table = race_table(shown)

    assert table.cells[1] == ["bare", "1.000", "1.000", "0.000", "100", "1.150 (1.125 to 1.175)"]
    assert "200 GFLOP/s" in table.below[-1]
    assert "243" in table.below[-1]
