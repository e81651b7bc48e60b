"""What stays of a finished cell, when it is found again, and when it is not."""

import hashlib
import json

import msgspec
import pytest

from pluribus.experiments import Number, Store, finished
from pluribus.experiments.finished import Course, of_run, read
from pluribus.readings.score import Score, summary
from pluribus.runs import members_of, rounds_in, run

from .conftest import ONE


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """One run that several tests look at."""
    settings = ONE.settings.with_(rounds=2, newcomers=1, val=0.2, method="fedper")
    return run(settings, out=tmp_path_factory.mktemp("run"))


@pytest.fixture
def kept(result):
    store = Store()
    store.keep(result)
    return store, store.cells / f"{result.settings_hash[:16]}.json"


def test_a_finished_cell_is_a_small_file_that_reads_back_as_it_was(kept, result):
    _, path = kept

    assert read(path) == of_run(result)
    assert path.read_bytes() == read(path).as_bytes()
    assert path.stat().st_size < 6_000
    assert str(path) == f"results/cells/{result.settings_hash[:16]}.json"


def test_its_numbers_are_those_of_the_run(kept, result):
    cell, lines = read(kept[1]), rounds_in(result.run_dir)

    name = "personal/network"
    assert cell.settings_hash == result.settings_hash
    assert cell.hash == result.hash
    assert cell.payload_bytes == result.payload_bytes
    assert (cell.samples, cell.partition_hash) == (result.samples, result.partition_hash)
    assert cell.readings[name].last == pytest.approx(result.personal.last, abs=5e-7)
    assert cell.courses[name].accuracy == [round(x.readings[name].accuracy, 6) for x in lines]
    assert cell.losses == [round(x.loss, 4) for x in lines]
    assert cell.newcomers.clients == 1
    assert cell.where.versions["torch"]


def test_every_clients_score_can_be_had_from_it(kept, result):
    cell = read(kept[1])
    each = cell.clients

    members = members_of(result.run_dir)
    assert (each.id, each.newcomer) == ([m.id for m in members], [m.id for m in members if m.newcomer])
    right, took_part = each.right["personal/network"], [i not in each.newcomer for i in each.id]
    scores = {k: Score(r, n) for k, r, n, t in zip(each.id, right, each.test, took_part, strict=True) if t}
    assert summary(scores).client_mean == pytest.approx(cell.number(Number(over="clients")), abs=1e-6)
    assert [r is None for r in right] == [not t for t in took_part]


def test_no_path_and_no_name_of_a_machine_is_in_it(kept, result, tmp_path):
    text = kept[1].read_text()

    assert str(tmp_path.parent) not in text
    assert result.run_dir not in text
    assert "host" not in json.loads(text)["where"]


@pytest.mark.parametrize(
    ("number", "wanted"),
    [
        (Number(), 0.4),
        (Number(when="best_on_test"), 0.9),
        (Number(when="selected"), 0.6),
        (Number(over="clients"), 0.3),
        (Number(over="clients", when="best_on_test"), 0.8),
        (Number(over="clients", when="selected"), 0.8),
        (Number(of="personal/other"), 0.5),
        (Number(of="personal/other", when="selected"), None),
        (Number(of="generic"), None),
        (Number(of="zero-shot"), 0.1),
        (Number(of="adapted"), None),
    ],
)
def test_a_number_is_read_as_it_says(kept, number, wanted):
    """Accuracies of three rounds 0.6, 0.9, 0.4; the validation data like the first best."""
    course = Course(
        rounds=[1, 2, 3], accuracy=[0.6, 0.9, 0.4], client_mean=[0.8, 0.7, 0.3], validation=[0.5, 0.2, 0.5]
    )
    other = Course(rounds=[3], accuracy=[0.5], client_mean=[0.5])
    cell = msgspec.structs.replace(
        read(kept[1]),
        courses={"personal/network": course, "personal/other": other},
        newcomers=finished.Newcomers(clients=1, zero_shot=0.1),
    )

    assert cell.number(number) == wanted


def test_a_cell_is_found_by_its_settings(kept, result):
    store, _ = kept

    found = store.finished(lambda _: None)

    assert list(found) == [result.settings_hash]


def test_a_setting_that_is_new_in_the_library_leaves_older_cells_valid(kept, result):
    """A cell made before `quorum` was a setting: it stands for the default of today."""
    store, path = kept
    document = json.loads(path.read_text())
    del document["settings"]["quorum"]
    written_as_of_old(document, path)

    assert list(store.finished(pytest.fail)) == [result.settings_hash]


def test_a_default_that_has_changed_reuses_no_older_cell(kept, result):
    store, path = kept
    document = json.loads(path.read_text())
    document["settings"]["quorum"] = 0.9
    written_as_of_old(document, path)

    assert result.settings_hash not in store.finished(pytest.fail)


def test_settings_that_mean_nothing_any_more_are_passed_over(kept):
    store, path = kept
    document = json.loads(path.read_text())
    document["settings"]["method"] = "fedgone"
    written_as_of_old(document, path)

    assert store.finished(pytest.fail) == {}


def written_as_of_old(document, path):
    """The cell with the hash and the name that belong to its settings."""
    settings = msgspec.json.encode(document["settings"], order="deterministic")
    document["settings_hash"] = hashlib.sha256(settings).hexdigest()
    path.unlink()
    (path.parent / f"{document['settings_hash'][:16]}.json").write_text(json.dumps(document))


def torn(path):
    path.write_bytes(path.read_bytes()[:-40])


def edited(path):
    path.write_text(path.read_text().replace('"lr": 0.1', '"lr": 0.2'))


def renamed(path):
    path.rename(path.with_name("0123456789abcdef.json"))


def merged(path):
    path.write_text(f"<<<<<<< ours\n{path.read_text()}")


@pytest.mark.parametrize("damage", [torn, edited, renamed, merged])
def test_a_damaged_file_counts_as_missing_and_is_named(kept, damage):
    store, path = kept
    notes = []

    damage(path)

    assert store.finished(notes.append) == {}
    assert len(notes) == 1
    assert "is damaged" in notes[0]
    assert "it counts as missing" in notes[0]


def test_only_one_holds_a_cell_at_a_time():
    store = Store()

    with store.claimed(ONE) as first, store.claimed(ONE) as second:
        assert (first, second) == (True, False)
    with store.claimed(ONE) as again:
        assert again
