"""An experiment of a few cells, each of which takes a moment."""

import pytest

from pluribus.experiments import Claim, Experiment, Number, Row

G, P = Number(of="generic"), Number(of="personal")
SMALL = Experiment(
    title="A few small runs",
    settings={"data": "digits", "clients": 5, "join": "0.6", "model": "mlp:4", "rounds": 3, "lr": 0.1},
    rows={
        "FedAvg": Row("fedavg", reads=("G",)),
        "Per": Row("fedper", reads=("P",), settings={"momentum": 0.5}),
        "Per, mean": Row("fedper", reads=("P mean",), settings={"momentum": 0.5}),
    },
    columns={"alike": {"partition": "iid"}, "unlike": {"partition": "dirichlet:0.3", "batch": 10}},
    numbers={"G": G, "P": P, "P mean": Number(of="personal", over="clients")},
    seeds=2,
    published={("FedAvg", "alike", "G"): 90.0, ("Per", "unlike", "P"): 80.0},
    misprints={("Per", "unlike", "P"): "printed upside down"},
    claims=(Claim(("FedAvg", "G"), ("Per", "P")),),
    note="of no importance",
)
ONE = SMALL.narrowed(only=["FedAvg"], seeds=1).cells[0]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
