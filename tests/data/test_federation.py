"""A federation: the data of its dataset, without copies."""

import pickle

import pytest
import torch

from pluribus.data.dataset import from_tensors
from pluribus.data.division import divide
from pluribus.data.federation import federate
from pluribus.errors import PartitionError
from pluribus.examples import Scale


def toy(number=60):
    inputs = torch.arange(number, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 2, 1, 1)
    labels = torch.arange(number) % 3
    return from_tensors("toy", inputs.contiguous(), labels, classes=("a", "b", "c"), official=number // 2)


def federation_of(dataset, **settings):
    division = divide(dataset, "iid", val=0.2, **settings)
    return division, federate(dataset, division, Scale((0.0,), (1.0,)))


def test_clients_come_in_order_and_newcomers_stand_beside_them():
    division, federation = federation_of(toy(), clients=6, newcomers=2)

    assert list(federation) == list(division.clients)
    assert list(federation.newcomers) == list(division.newcomers)
    assert len(federation) == 4
    assert not set(federation) & set(federation.newcomers)


def test_a_client_has_exactly_the_rows_of_the_division():
    division, federation = federation_of(toy(), clients=6, newcomers=2)

    for name, client in {**federation.clients, **federation.newcomers}.items():
        assert (client.id, client.key) == (name, name)
        for part in ("train", "val", "test"):
            rows = getattr(division.everyone[name], part).tolist()
            assert getattr(client, part).index.tolist() == rows
            assert getattr(client, part).y.tolist() == [row % 3 for row in rows]


def test_inputs_are_scaled_when_a_batch_is_taken():
    _, federation = federation_of(toy(), clients=6)
    train = federation["c03"].train

    x, y = train.batch(torch.tensor([0, 1]))

    assert x.dtype == torch.float32
    assert (255 * x[:, 0, 0, 0]).round().int().tolist() == train.index[:2].tolist()
    assert y.tolist() == train.y[:2].tolist()


def test_nothing_is_copied_but_the_rows_which_lie_in_one_piece():
    dataset = toy()
    _, federation = federation_of(dataset, clients=6, newcomers=1)

    everything = [
        examples
        for client in (*federation.values(), *federation.newcomers.values())
        for examples in (client.train, client.val, client.test)
    ]

    assert {e.inputs.data_ptr() for e in everything} == {dataset.inputs.data_ptr()}
    assert {e.labels.data_ptr() for e in everything} == {dataset.labels.data_ptr()}
    assert len({e.index.untyped_storage().data_ptr() for e in everything}) == 1


def test_it_says_what_its_examples_look_like():
    _, federation = federation_of(toy(), clients=3)

    assert (federation.classes, federation.shape, federation.name) == (3, (2, 1, 1), "toy")


def test_a_division_of_another_dataset_is_refused():
    division = divide(toy(60), "iid", clients=3)

    with pytest.raises(PartitionError, match="was made for toy"):
        federate(toy(90), division, Scale())


def test_an_unknown_client_is_no_client():
    _, federation = federation_of(toy(), clients=3)

    assert "c03" not in federation
    assert federation.get("c03") is None


def test_a_federation_survives_a_trip_between_processes():
    _, federation = federation_of(toy(), clients=3)

    there = pickle.loads(pickle.dumps(federation))

    assert list(there) == list(federation)
    assert there["c01"].train.y.tolist() == federation["c01"].train.y.tolist()


def test_only_rows_travel_and_a_client_is_made_where_it_is_asked_for():
    _, federation = federation_of(toy(), clients=3)
    before = len(pickle.dumps(federation))
    assert [len(client.train) for client in federation.values()] == [12, 12, 12]

    there = pickle.loads(pickle.dumps(federation))

    assert len(pickle.dumps(federation)) == before
    assert there.clients.made == {}
    assert there["c02"] is there["c02"]
    assert list(there.clients.made) == ["c02"]
