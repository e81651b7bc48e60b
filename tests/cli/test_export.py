"""`pluribus export`: what is written predicts what the client predicted."""

import json
from pathlib import Path

import pytest
import torch

from pluribus.data import load as dataset_of
from pluribus.data.division import load as division_of
from pluribus.report.export import load
from pluribus.runs import members_of

from .conftest import SMALL


def right(network, manifest, rows):
    """How many of these rows of digits the exported network gets right, scaled as its manifest says."""
    data = dataset_of("digits")
    x = (data.inputs[rows].float() / 255 - torch.tensor(manifest["mean"])) / torch.tensor(manifest["std"])
    with torch.inference_mode():
        return int((network(x).argmax(1) == data.labels[rows]).sum())


@pytest.mark.parametrize("method", ["fedavg", "fedper", "local"])
def test_an_exported_client_is_right_as_often_as_it_was(pluribus, method):
    pluribus("run", method, *SMALL, "--out", "mine", "--quiet")

    said = pluribus("export", "mine", "--client", "2", "--json")

    tensors, path = map(Path, said.json["files"])
    manifest = json.loads(path.read_text())
    rows = torch.from_numpy(division_of("mine/division.safetensors").clients["c02"].test.copy())
    member = next(m for m in members_of("mine") if m.id == "c02")
    assert (tensors.name, manifest["client"], manifest["method"]) == ("c02.safetensors", "c02", method)
    assert manifest["parts"] == {"encoder": 1040, "head": 170}
    assert manifest["classes"] == list("0123456789")
    assert right(load(path), manifest, rows) == member.readings["personal/network"].right


def test_a_newcomer_is_exported_as_adapted(pluribus):
    pluribus("run", "fedper", *SMALL, "--newcomers", "1", "--out", "mine", "--quiet")
    [newcomer] = [m for m in members_of("mine") if m.newcomer]

    said = pluribus("export", "mine", "--client", newcomer.id, "--out", "taken")

    path = Path(said.out.split()[1])
    rows = torch.from_numpy(division_of("mine/division.safetensors").newcomers[newcomer.id].test.copy())
    assert path == Path(f"taken/{newcomer.id}.json")
    assert right(load(path), json.loads(path.read_text()), rows) == newcomer.readings["adapted/network"].right


def test_the_model_of_everybody_is_exported_if_there_is_one(pluribus):
    pluribus("run", "fedavg", *SMALL, "--out", "avg", "--quiet")
    pluribus("run", "fedper", *SMALL, "--out", "per", "--quiet")

    one, none = pluribus("export", "avg", "--generic"), pluribus("export", "per", "--generic")

    manifest = json.loads(Path("avg/export/generic.json").read_text())
    assert (one.code, manifest["client"]) == (0, None)
    assert none.code == 1
    assert "fedper has no model for everybody" in none.err
    assert not Path("per/export").exists()


def test_an_unknown_client_is_told_which_there_are(pluribus):
    pluribus("run", "fedavg", *SMALL, "--out", "mine", "--quiet")

    said = pluribus("export", "mine", "--client", "c9")

    assert said.code == 1
    assert "no client 'c9'" in said.err
    assert "c00, c01, c02, c03" in said.err


def test_a_damaged_export_is_refused(pluribus):
    pluribus("run", "fedavg", *SMALL, "--out", "mine", "--quiet")
    tensors, path = map(Path, pluribus("export", "mine", "--generic").out.split())
    tensors.write_bytes(tensors.read_bytes()[:100])

    with pytest.raises(Exception, match="is no exported model"):
        load(path)


def test_of_clients_with_other_networks_each_is_exported_with_its_own(pluribus):
    """And without what is no part of the network: pFedPM's relation module."""
    models = "mlp:8|mlp:12+8"
    pluribus("run", "pfedpm", *SMALL, "--model", models, "--out", "mine", "--quiet")
    first, *_, last = members_of("mine")

    for member, model in ((first, "mlp:hidden=8"), (last, "mlp:hidden=12+8")):
        path = Path(pluribus("export", "mine", "--client", member.id).out.split()[1])
        manifest = json.loads(path.read_text())

        assert manifest["model"] == model
        assert set(manifest["parts"]) == {"encoder", "head"}
        rows = torch.from_numpy(division_of("mine/division.safetensors").clients[member.id].test.copy())
        assert right(load(path), manifest, rows) == member.readings["personal/head"].right
