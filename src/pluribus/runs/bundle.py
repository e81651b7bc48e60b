"""A bundle: groups of named tensors as one safetensors file. Nothing is lost on the way there and back.

Order of names, memory layout and types come back as they were, so that sums over them do, to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from ..state import Tensors

Axes = tuple[int, ...]
Table = tuple[tuple[str, Axes], ...]  # name and order of the axes in memory, of each tensor of a group


class Contents(msgspec.Struct, frozen=True):
    """Which tensors a bundle's groups have; many groups share a table."""

    tables: list[Table]
    groups: list[int]


def pack(groups: Sequence[Tensors], notes: msgspec.Raw) -> bytes:
    """The groups as a file, with notes that `unpack` gives back."""
    tables: dict[Table, int] = {}
    contents = Contents([], [tables.setdefault(table_of(group), len(tables)) for group in groups])
    contents.tables.extend(tables)
    header = {"contents": msgspec.json.encode(contents).decode(), "notes": bytes(notes).decode()}
    return safetensors.torch.save(dict(laid_out(groups)), metadata=header)


def unpack(data: bytes) -> tuple[list[dict[str, Tensor]], msgspec.Raw]:
    """The groups and the notes; ValueError if these bytes are no bundle."""
    try:
        header = header_of(data)
        contents = msgspec.json.decode(header["contents"], type=Contents)
        tensors = safetensors.torch.load(data)
        groups = [restored(tensors, i, contents.tables[kind]) for i, kind in enumerate(contents.groups)]
        return groups, msgspec.Raw(header["notes"].encode())
    except (safetensors.SafetensorError, msgspec.MsgspecError, KeyError, IndexError, RuntimeError) as error:
        raise ValueError(f"it is no bundle of tensors ({error})") from error


def header_of(data: bytes) -> dict[str, str]:
    """What stands in a safetensors file before its tensors: eight bytes of length, then JSON."""
    length = int.from_bytes(data[:8], "little")
    header = msgspec.json.decode(data[8 : 8 + length])
    return msgspec.convert(header["__metadata__"], dict[str, str])


def table_of(group: Tensors) -> Table:
    return tuple((name, axes_of(t)) for name, t in group.items())


def axes_of(t: Tensor) -> Axes:
    """The axes from the slowest in memory to the fastest; none if that is their own order."""
    if t.is_contiguous():
        return ()
    axes = tuple(sorted(range(t.dim()), key=lambda axis: -t.stride()[axis]))
    return axes if t.permute(axes).is_contiguous() else ()


def laid_out(groups: Sequence[Tensors]) -> Iterator[tuple[str, Tensor]]:
    """Every tensor as it lies in memory, under group and place; none shares memory with another."""
    seen = set()
    for i, group in enumerate(groups):
        for j, t in enumerate(group.values()):
            axes = axes_of(t)
            flat = (t.permute(axes) if axes else t).detach().cpu().contiguous()
            storage = flat.untyped_storage().data_ptr()
            yield f"{i}.{j}", flat.clone() if storage in seen else flat
            seen.add(storage)


def restored(tensors: Tensors, group: int, table: Table) -> dict[str, Tensor]:
    return {name: laid_back(tensors[f"{group}.{j}"], axes) for j, (name, axes) in enumerate(table)}


def laid_back(t: Tensor, axes: Axes) -> Tensor:
    return t.permute(torch.argsort(torch.tensor(axes)).tolist()) if axes else t
