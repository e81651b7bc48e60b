"""Torchvision's weight file of ResNet-18, where a user has it: a file of the same form is written here."""

import pytest
import torch

from pluribus.errors import ModelError, SettingError
from pluribus.models import describe, model
from pluribus.seeds import lent

SHAPE = (3, 32, 32)


def built(text, classes=5):
    with lent("network"):
        return model(text).build(SHAPE, classes)


@pytest.fixture
def file(tmp_path):
    """A file with the names of torchvision's: 1,000 classes, `fc` for the head."""
    with lent("another"):
        state = model("resnet18").build(SHAPE, 1000).state_dict()
    names = {name: name.removeprefix("encoder.").replace("head.", "fc.") for name in state}
    torch.save({names[name]: tensor for name, tensor in state.items()}, tmp_path / "resnet18-f37072fd.pth")
    return tmp_path / "resnet18-f37072fd.pth"


def test_the_encoder_has_the_weights_and_the_head_is_its_own(file):
    theirs, ours, bare = (
        torch.load(file),
        built(f"resnet18:weights={file}").state_dict(),
        built("resnet18").state_dict(),
    )

    assert all(
        torch.equal(t, theirs[n.removeprefix("encoder.")])
        for n, t in ours.items()
        if n.startswith("encoder.")
    )
    assert all(torch.equal(t, bare[n]) for n, t in ours.items() if n.startswith("head."))


def test_the_head_too_where_the_classes_are_as_many(file):
    ours = built(f"resnet18:weights={file}", classes=1000)

    assert torch.equal(ours.state_dict()["head.weight"], torch.load(file)["fc.weight"])


def test_a_description_reads_no_file():
    assert describe(model("resnet18:weights=missing.pth"), SHAPE, 5).features == 512


def test_what_does_not_fit_is_refused(file, tmp_path):
    torch.save({"layer1.0.conv1.weight": torch.zeros(3)}, tmp_path / "wrong.pth")
    torch.save({"features.weight": torch.zeros(3)}, tmp_path / "other.pth")

    with pytest.raises(ModelError, match="do not fit"):
        built(f"resnet18:weights={tmp_path / 'wrong.pth'}")
    with pytest.raises(ModelError, match="no tensor of torchvision's resnet18"):
        built(f"resnet18:weights={tmp_path / 'other.pth'}")
    with pytest.raises(ModelError, match="no weights at"):
        built("resnet18:weights=missing.pth")
    with pytest.raises(SettingError, match="7x7 stem"):
        model(f"resnet18:stem=3x3,weights={file}")
