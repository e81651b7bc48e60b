"""Augmentation: changes to a batch of 8-bit images before they are scaled, spelled as a setting.

    flips · dualfed · crop-flip · simple · auto:imagenet

Each value is called with images and a generator and draws from nothing else: the same generator gives the
same images, in any process.  Images stay bytes; what is drawn is drawn anew for each image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from . import spelling
from .errors import SettingError, UnknownName
from .seeds import lent

Policy = Literal["cifar10", "imagenet", "svhn"]
Steps = Callable[[Any, Sequence[int]], list[nn.Module]]  # of kornia's module and the images' size


class Augmentation(Protocol):
    """What every entry of the catalogue can do."""

    def __call__(self, images: Tensor, rng: torch.Generator) -> Tensor: ...


@dataclass(frozen=True)
class Flips:
    """Half of the images are mirrored."""

    chance: float = 0.5

    def __post_init__(self) -> None:
        check_chance("flips: chance", self.chance)

    def __call__(self, images: Tensor, rng: torch.Generator) -> Tensor:
        mirrored = torch.rand(len(images), generator=rng) < self.chance
        return torch.where(mirrored[:, None, None, None], images.flip(3), images)


@dataclass(frozen=True)
class DualFed:
    """DualFed's: half are mirrored, all are turned by up to so many degrees."""

    degrees: float = 30.0

    def __post_init__(self) -> None:
        if not 0 <= self.degrees <= 180:
            raise SettingError(f"dualfed: degrees is {self.degrees}; it should be from 0 to 180")

    def __call__(self, images: Tensor, rng: torch.Generator) -> Tensor:
        return drawn(images, rng, lambda k, _: [k.RandomHorizontalFlip(p=0.5), rotation(k, self.degrees)])


@dataclass(frozen=True)
class CropFlip:
    """pFedPM's and many others' for CIFAR: a crop of the image with a black border, half are mirrored."""

    border: int = 4

    def __post_init__(self) -> None:
        if self.border < 0:
            raise SettingError(f"crop-flip: border is {self.border}; it should be 0 or more pixels")

    def __call__(self, images: Tensor, rng: torch.Generator) -> Tensor:
        return drawn(images, rng, lambda k, size: [crop(k, size, self.border), k.RandomHorizontalFlip(p=0.5)])


@dataclass(frozen=True)
class Simple:
    """FedReG's simple one: mirrored, cropped, turned, colours (if any) shifted, moved and scaled."""

    degrees: float = 15.0
    border: int = 4

    def __post_init__(self) -> None:
        if not (0 <= self.degrees <= 180 and self.border >= 0):
            raise SettingError(
                f"simple: degrees is {self.degrees} and border {self.border}; they should be "
                "from 0 to 180, and 0 or more pixels"
            )

    def __call__(self, images: Tensor, rng: torch.Generator) -> Tensor:
        colours = images.shape[1] == 3

        def steps(k: Any, size: Sequence[int]) -> list[nn.Module]:
            return [
                k.RandomHorizontalFlip(p=0.5),
                crop(k, size, self.border),
                rotation(k, self.degrees),
                *([k.ColorJitter(0.2, 0.2, 0.2, 0.1, p=1.0)] if colours else []),
                k.RandomAffine(0.0, translate=(0.1, 0.1), scale=(0.9, 1.1), p=1.0),
            ]

        return drawn(images, rng, steps)


@dataclass(frozen=True)
class Auto:
    """AutoAugment with one of its three learned policies, a sub-policy for each image."""

    policy: Policy = "cifar10"

    def __post_init__(self) -> None:
        if self.policy not in ("cifar10", "imagenet", "svhn"):
            raise UnknownName("policy", self.policy, ("cifar10", "imagenet", "svhn"))

    def __call__(self, images: Tensor, rng: torch.Generator) -> Tensor:
        from kornia.augmentation.auto import AutoAugment

        policies = list(AutoAugment(self.policy).children())
        chosen = torch.randint(len(policies), (len(images),), generator=rng)
        out = images.clone()
        for number in sorted(set(chosen.tolist())):
            rows = chosen == number
            out[rows] = changed(images[rows], policies[number], rng)
        return out


AUGMENTATIONS: dict[str, type] = {
    "flips": Flips,
    "dualfed": DualFed,
    "crop-flip": CropFlip,
    "simple": Simple,
    "auto": Auto,
}


def augmentation(text: str) -> Augmentation | None:
    """The augmentation that the text spells; None for `none`."""
    if text.strip() == "none":
        return None
    found: Augmentation = spelling.read(text, AUGMENTATIONS, "augmentation")
    return found


def spelled(text: str) -> str:
    """The shortest spelling of the same."""
    found = augmentation(text)
    return "none" if found is None else spelling.write(found, AUGMENTATIONS)


def drawn(images: Tensor, rng: torch.Generator, steps: Steps) -> Tensor:
    """The images after these steps of kornia's, one after the other."""
    try:
        import kornia.augmentation as k
    except ImportError:
        raise SettingError("augmentation needs kornia\n    pip install 'pluribus[data]'") from None
    return changed(images, nn.Sequential(*steps(k, images.shape[-2:])), rng)


def changed(images: Tensor, transform: nn.Module, rng: torch.Generator) -> Tensor:
    """The images as this transform leaves them, in bytes; grey ones stay grey.

    Kornia draws from torch's global generator, which is lent to it and put back.
    """
    channels = images.shape[1]
    with torch.no_grad(), lent("augment", int(torch.randint(1 << 62, (), generator=rng))):
        out: Tensor = transform(images.expand(-1, 3, -1, -1) / 255)[:, :channels]
        return (out.clamp(0, 1) * 255).round().byte()


def crop(k: Any, size: Sequence[int], border: int) -> nn.Module:
    """A piece of the old size out of the image with a black border."""
    made: nn.Module = k.RandomCrop(tuple(size), padding=border) if border else nn.Identity()
    return made


def rotation(k: Any, degrees: float) -> nn.Module:
    """A turn by up to so many degrees; what comes from outside is black."""
    made: nn.Module = k.RandomRotation(degrees, resample="nearest", p=1.0)
    return made


def check_chance(setting: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise SettingError(f"{setting} is {value}; it should be from 0 to 1")
