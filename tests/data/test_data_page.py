"""The documentation's page on data forgets no dataset, no augmentation and no setting of images."""

from dataclasses import fields
from pathlib import Path

import pytest

from pluribus import data
from pluribus.augment import AUGMENTATIONS
from pluribus.data.entry import Look

PAGE = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", data.DATASETS)
def test_every_dataset_is_on_the_page(name):
    assert f"`{name}`" in PAGE or f"`{name.removeprefix('emnist')}`" in PAGE


@pytest.mark.parametrize("name", [*AUGMENTATIONS, *(field.name for field in fields(Look))])
def test_every_augmentation_and_every_setting_of_images_is_on_the_page(name):
    assert f"`{name}" in PAGE
