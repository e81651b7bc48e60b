"""Short spellings of values: `dirichlet:0.1`, `convnet:head_layers=3`, `fedrep:head_epochs=5`.

A value is a frozen dataclass in a catalogue (a dict of names).  After the name and a colon come its
fields, separated by commas: first those without a name, in the order of the class, then name=value.
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from .errors import SettingError, UnknownName

TYPES = {"int": "a whole number", "float": "a number", "str": "text", "bool": "true or false",
         "object": "a table", "array": "a list"}  # fmt: skip


def read(text: str, catalogue: Mapping[str, type], kind: str) -> Any:
    """The value that the text spells."""
    name, _, rest = text.strip().partition(":")
    if name not in catalogue:
        raise UnknownName(kind, name, catalogue)
    return make(catalogue[name], given(rest, catalogue[name], name), name)


def given(rest: str, cls: type, name: str) -> dict[str, str]:
    """The fields named in `0.1,min_examples=5`, as text."""
    order = list(fields(cls))
    values: dict[str, str] = {}
    for position, item in enumerate(filter(None, (piece.strip() for piece in rest.split(",")))):
        field, equals, value = item.partition("=")
        if not equals:
            if position >= len(order):
                raise SettingError(
                    f"{name} takes {len(order)} values, got '{rest}'\n    they are: {', '.join(order)}"
                )
            field, value = order[position], item
        once(values, field.strip(), value.strip())
    return values


def once(values: dict[str, str], field: str, value: str) -> None:
    """Adds the field; an error if it was given before."""
    if field in values:
        raise SettingError(
            f"{field} is given twice, as '{values[field]}' and as '{value}'\n    leave one of them out"
        )
    values[field] = value


def fields(cls: type) -> dict[str, Any]:
    """Name and type of each field a user may set."""
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls) if f.init}


def make(cls: type, values: Mapping[str, Any], name: str) -> Any:
    """The value with these fields; text is read as the field's type."""
    known = fields(cls)
    for field in values:
        if field not in known:
            raise UnknownName(f"setting of {name}", field, known)
    return cls(**{field: typed(value, known[field], f"{name}: {field}") for field, value in values.items()})


def typed(value: Any, type_: Any, where: str) -> Any:
    """The value as this type, or an error that names where it stood."""
    try:
        return msgspec.convert(unquoted(value, type_), type_, strict=False)
    except msgspec.ValidationError as error:
        raise misfit(value, type_, where, str(error)) from None


def misfit(value: Any, type_: Any, name: str, reason: str) -> SettingError:
    """What to say of a value that is not of its type."""
    if get_origin(type_) is Literal and isinstance(value, str) and name.isidentifier():
        return UnknownName(name, value, get_args(type_))
    if words(type_):
        numbers = {float: ", or a number", int: ", or a whole number"}
        others = "".join(said for kind, said in numbers.items() if kind in get_args(type_))
        reason = f"Expected one of {', '.join(words(type_))}{others}"
    reason = reason.split(" - at ")[0].replace("got `float`", "got a fraction")
    reason = reason.replace("Number out of range", "a number in range")
    wanted = re.sub("`([^`]+)`", in_words, reason.removeprefix("Expected "))
    return SettingError(f"{name} is {value!r}; it should be {wanted}")


def words(type_: Any) -> tuple[str, ...]:
    """The words that a choice is among; there may be numbers besides: `Literal["mean", "max"] | float`."""
    if get_origin(type_) is Literal:
        return get_args(type_)
    return tuple(word for each in get_args(type_) if get_origin(each) is Literal for word in get_args(each))


def in_words(types: re.Match[str]) -> str:
    """`int | null` is a whole number: what is left out needs no word."""
    return " or ".join(TYPES.get(name, name) for name in types[1].split(" | ") if name != "null")


def unquoted(value: Any, type_: Any) -> Any:
    """Text for a tuple is separated by '+': `encoder+head`."""
    is_tuple = getattr(type_, "__origin__", type_) is tuple
    return [piece for piece in value.split("+") if piece] if isinstance(value, str) and is_tuple else value


def write(value: Any, catalogue: Mapping[str, type]) -> str:
    """The shortest text that `read` turns into an equal value."""
    names = [name for name, cls in catalogue.items() if type(value) is cls]
    if not names:
        raise UnknownName("catalogue entry for", type(value).__name__, catalogue)
    changed = {
        f.name: getattr(value, f.name)
        for f in dataclasses.fields(value)
        if f.init and (f.default is dataclasses.MISSING or getattr(value, f.name) != f.default)
    }
    text = ",".join(f"{n}={as_text(v)}" for n, v in changed.items())
    return f"{names[0]}:{text}" if text else names[0]


def as_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "+".join(map(str, value)) if isinstance(value, tuple) else str(value)
