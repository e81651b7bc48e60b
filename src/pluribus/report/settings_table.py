"""The fields of a value from a catalogue: what may be set, what it is otherwise, and within which limits."""

from __future__ import annotations

import dataclasses
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from .. import spelling
from .table import Column, Table

LIMITS = {"least": "at least", "above": "above", "most": "at most"}
FIELDS = (
    Column("name", "setting"),
    Column("type", "type"),
    Column("value", "value"),
    Column("default", "usual"),
    Column("limits", "limits"),
)


def settings_table(value: Any) -> Table:
    """A row for each field of this value."""
    types = spelling.fields(type(value))
    rows = tuple(
        {
            "name": f.name,
            "type": type_name(types[f.name]),
            "value": shown(getattr(value, f.name)),
            "default": None if f.default is dataclasses.MISSING else shown(f.default),
            "limits": limits(f),
        }
        for f in dataclasses.fields(value)
        if f.name in types
    )
    return Table(FIELDS, rows, tuple(f"{name} = {known}: {why}" for name, known, why in dull(value)))


def shown(value: Any) -> str:
    return "none" if value is None else spelling.as_text(value)


def type_name(type_: Any) -> str:
    """`int`, `a+b+...` for a tuple, `x | y` for a choice."""
    if get_origin(type_) is Literal:
        return " | ".join(map(str, get_args(type_)))
    if get_origin(type_) in (Union, UnionType):
        return " | ".join("none" if each is NoneType else type_name(each) for each in get_args(type_))
    if get_origin(type_) is tuple:
        inner = type_name(get_args(type_)[0])
        return f"{inner}+{inner}+..."
    return type_.__name__ if isinstance(type_, type) else str(type_)


def limits(field: dataclasses.Field[Any]) -> str | None:
    given = [
        f"{words} {field.metadata[name]:g}"
        for name, words in LIMITS.items()
        if field.metadata.get(name) is not None
    ]
    return " and ".join(given) or None


def dull(value: Any) -> list[tuple[str, Any, str]]:
    """Values that make the thing into another one, and why."""
    return [
        (f.name, known, why)
        for f in dataclasses.fields(value)
        for known, why in f.metadata.get("dull", {}).items()
    ]
