"""Augmentation in a turn: every batch is changed, what is read is not, and a run repeats."""

from dataclasses import replace

import pytest
import torch

from pluribus.errors import UnknownName
from pluribus.methods import METHODS
from pluribus.stage import Stage
from pluribus.training import Training
from pluribus.turn import Turn
from toy import place


def seated(augment, round=1):
    """A client whose examples are images, in this round."""
    world = place(METHODS["fedavg"]())
    name = next(iter(world.clients))
    images = torch.arange(4 * 5 * 5, dtype=torch.uint8).reshape(4, 1, 5, 5)
    client = world.seat(Turn(1, Stage("round", round, 3), name, {}, 0, {}))
    client.data = replace(client.data, inputs=images, labels=torch.arange(4) % 2, index=torch.arange(4))
    client.training = replace(client.training, augment=augment, batch=2)
    return client


def test_batches_are_changed_the_same_way_each_time_and_anew_each_round():
    once, again, later, plain = (
        [x for x, _ in seated(*how).batches(2)]
        for how in [("simple",), ("simple",), ("simple", 2), ("none",)]
    )

    assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(once, later, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(once, plain, strict=True))


def test_an_image_is_changed_anew_in_each_epoch():
    client = seated("simple")

    first, second = torch.cat([x for x, _ in client.batches(2)]).split(4)

    assert {str(x.tolist()) for x in first} != {str(x.tolist()) for x in second}


def test_what_is_read_in_order_is_not_changed():
    client = seated("simple")

    x, _ = next(client.in_order())

    assert torch.equal(x, client.data.x)


def test_features_are_not_computed_once_where_images_change():
    client = seated("flips")

    assert client.through("encoder") is client.data


def test_the_setting_is_spelled_in_one_way_and_checked():
    assert Training(augment=" dualfed:degrees=30").augment == "dualfed"
    with pytest.raises(UnknownName):
        Training(augment="flipp")
