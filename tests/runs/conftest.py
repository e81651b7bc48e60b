"""A run small enough to be repeated often, with everything that must survive a kill."""

import pytest

from pluribus.settings import Settings
from pluribus.study import prepare
from pluribus.training import Training

ADAM = Training(lr=0.01, optimiser="adam", keep_moments=True)
SMALL = Settings(
    method="fedrep:head_epochs=1",
    data="digits",
    clients=8,
    newcomers=2,
    val=0.2,
    join="0.5",
    drop=0.2,
    rounds=4,
    model="mlp:8",
    personal_on="trained",
    adapt_epochs=1,
    training=ADAM,
)


@pytest.fixture(scope="session")
def study():
    return prepare(SMALL)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
