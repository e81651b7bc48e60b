"""The verbs that show what there is."""

import json

import pytest

from pluribus.data import DATASETS
from pluribus.data.partitions import PARTITIONS
from pluribus.methods import METHODS
from pluribus.models import MODELS


@pytest.mark.parametrize(
    ("verb", "catalogue"),
    [("methods", METHODS), ("datasets", DATASETS), ("partitions", PARTITIONS), ("models", MODELS)],
)
def test_a_list_names_all_there_is(pluribus, verb, catalogue):
    table, document = pluribus(verb), pluribus(verb, "--json")

    assert (table.code, document.code) == (0, 0)
    assert [row["name"] for row in document.json["rows"]] == list(catalogue)
    assert [name for name in catalogue if name not in table.out] == []


def test_the_list_of_methods_says_whose_the_parts_are_and_what_travels(pluribus):
    rows = {row["name"]: row for row in pluribus("methods", "--json").json["rows"]}

    assert rows["fedper"]["parts"] == {"encoder": "shared", "head": "personal"}
    assert rows["fedper"]["travels"] == "φ, both ways"
    assert rows["fedper"]["generic"] is False
    assert rows["fedper"]["generic_note"] == "every client has a head of its own"
    assert rows["fedavg"]["generic"] is True
    assert "arXiv:1602.05629" in rows["fedavg"]["paper"]
    assert rows["local"]["travels"] == "nothing"


def test_a_model_that_cannot_take_the_images_says_so_in_the_list(pluribus):
    rows = {row["name"]: row for row in pluribus("models", "--data", "digits", "--json").json["rows"]}

    assert rows["convnet"]["parameters"] is None
    assert "8" in rows["convnet"]["parameters_note"]
    assert rows["logistic"]["parameters"] == 64 * 10 + 10


def test_the_card_of_a_method_has_its_text_its_settings_and_its_bytes(pluribus):
    card = pluribus("show", "fedrep:head_epochs=3", "--model", "mlp:16", "--data", "digits", "--json").json

    shared = 4 * (64 * 16 + 16)  # float32 weights of the encoder
    settings = {row["name"]: row for row in card["settings"]["rows"]}
    assert (card["kind"], card["name"]) == ("method", "fedrep:head_epochs=3")
    assert settings["head_epochs"]["value"] == "3"
    assert settings["head_epochs"]["default"] == "10"
    assert settings["body_epochs"]["limits"] == "at least 0"
    assert card["bytes a round"]["rows"] == [{"stage": "round", "down": shared, "up": shared}]
    assert card["cite"].startswith("@inproceedings{collins2021")


def test_every_method_has_a_card(pluribus):
    for name in METHODS:
        said = pluribus("show", name, "--data", "digits")
        assert said.code == 0, said.err
        assert " of each client, on its own test data" in said.out


def test_the_card_of_a_model_counts_its_parts(pluribus):
    card = pluribus("show", "mlp:16", "--data", "digits", "--json").json

    assert [(row["part"], row["parameters"]) for row in card["parts"]["rows"]] == [
        ("encoder", 1040),
        ("head", 170),
    ]


def test_the_card_of_a_dataset_has_licence_and_citation(pluribus):
    said = pluribus("show", "fashion-mnist")

    assert "60,000 + 10,000 images of 1 x 28 x 28" in said.out
    assert "Ankle boot" in said.out
    assert "@" in said.out


def test_a_partition_is_drawn(pluribus, tmp_path):
    said = pluribus(
        "show", "dirichlet:0.5", "--data", "digits", "--clients", "6", "--newcomers", "1", "--json"
    )

    drawn = json.loads(said.out)
    assert (tmp_path / drawn["picture"]).with_suffix(".csv").exists()
    assert (tmp_path / drawn["picture"]).read_text().startswith("<?xml")
    assert len(drawn["counts"]) == 6
    assert sum(map(sum, drawn["counts"].values())) == 1797
    assert len(drawn["newcomers"]) == 1


def test_a_partition_in_text_has_a_line_for_each_class(pluribus):
    said = pluribus(
        "show", "pathological:2,least=1", "--data", "digits", "--clients", "5", "--out", "here.png"
    )

    lines = said.out.splitlines()
    assert [line[0] for line in lines[:10]] == list("9876543210")
    assert "classes of a client: 2 to 2" in said.out
    assert "here.png" in said.err


def test_a_datasets_card_tells_its_sources_with_their_checksums(pluribus):
    shown = pluribus("show", "cifar100").out

    assert "50,000 + 10,000 images of 3 x 32 x 32, 100 classes: apple, " in shown
    assert "cifar-100-python.tar.gz, 169,001,437 bytes, md5 eb9058c3a382ffc7106e4002c42a8d85" in shown
    assert "    https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz" in shown


def test_verify_says_how_many_files_were_compared():
    from pluribus.cli.data import said_of

    assert said_of(1, 0) == "1 file is right to the byte"
    assert said_of(2, 1) == "2 files are right to the byte; 1 without a published checksum can be read"
    assert said_of(0, 3) == "everything can be read and is as it should be; no checksums were ever published"


def test_data_says_where_the_files_are(pluribus):
    where = pluribus("data", "where", "digits")
    verified = pluribus("data", "verify", "digits", "--json")

    assert where.out.strip().endswith("digits.csv.gz")
    assert verified.json == {"data": "digits", "files": [where.out.strip()]}
    assert "right to the byte" in verified.err
