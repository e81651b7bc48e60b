"""The one place that knows devices and number formats.

Outside a turn every tensor lies in the machine's memory, as float32; in a turn it lies on the device.
Written for cuda as for cpu; run and tested on cpu only.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor

from .errors import SettingError

Precision = Literal["auto", "float32", "bf16"]
Device = Literal["auto", "cpu", "cuda"]


def chosen_device(name: Device) -> Literal["cpu", "cuda"]:
    """`auto` is cuda where there is one."""
    if name == "cuda" and not torch.cuda.is_available():
        raise SettingError(
            "device is 'cuda', but this PyTorch sees none\n    device = 'cpu' works everywhere"
        )
    return "cuda" if name != "cpu" and torch.cuda.is_available() else "cpu"


def chosen_precision(name: Precision, device: Literal["cpu", "cuda"]) -> Literal["float32", "bf16"]:
    """`auto` is bf16 where the processor multiplies it faster than float32."""
    if name != "auto":
        return name
    return "bf16" if multiplies_bf16(device) else "float32"


def multiplies_bf16(device: Literal["cpu", "cuda"]) -> bool:
    if device == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    told = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return bool(told.get("avx512_bf16") or told.get("amx_bf16"))


@contextmanager
def computing(device: str, precision: Precision) -> Iterator[None]:
    """In here matrix products and convolutions are done in this format; weights stay float32."""
    enabled = precision == "bf16"
    with torch.autocast(device, dtype=torch.bfloat16, enabled=enabled, cache_enabled=False):
        yield


def on_device(tensors: Mapping[str, Tensor], device: str) -> dict[str, Tensor]:
    """The same tensors on the device; themselves if they are there."""
    return {n: t.to(device) for n, t in tensors.items()}
