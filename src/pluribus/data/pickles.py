"""Pickles that hold numbers, read without running anything: the functions a pickle calls are ours."""

import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from .files import damaged

ARRAY_MODULES = (
    "numpy.core.multiarray",
    "numpy._core.multiarray",
    "numpy.core.numeric",
    "numpy._core.numeric",
)


class Forbidden(pickle.UnpicklingError):
    """The pickle asks for something that is not an array."""


def loads(content: bytes, where: str) -> Any:
    """What the pickle holds: arrays, dictionaries, lists, text and numbers; anything else is refused."""
    try:
        return Arrays(io.BytesIO(content), encoding="bytes").load()
    except Forbidden as error:
        raise damaged(
            where, "a pickle of arrays and plain values", f"one that {error}; nothing was run"
        ) from None
    except Exception as error:  # a garbled pickle can raise almost anything
        raise damaged(where, "a whole pickle", f"one that breaks off or is garbled ({error})") from error


class Arrays(pickle.Unpickler):
    """Finds the few names from which NumPy builds an array, and stands in for each."""

    def find_class(self, module: str, name: str) -> Any:
        if module in ARRAY_MODULES and name in ("_reconstruct", "_frombuffer"):
            return {"_reconstruct": blank, "_frombuffer": from_buffer}[name]
        if (module, name) in STAND_INS:
            return STAND_INS[module, name]
        raise Forbidden(f"calls {module}.{name}")


def blank(*_: object) -> np.ndarray[Any, Any]:
    """An empty array, which the pickle then fills; whatever size it asks for, none is set aside."""
    return np.empty(0, np.uint8)


def from_buffer(
    buffer: Any, dtype: np.dtype[Any], shape: tuple[int, ...], order: Any
) -> np.ndarray[Any, Any]:
    return np.frombuffer(buffer, dtype).reshape(shape, order="F" if order in (b"F", "F") else "C")


def number_type(code: str | bytes, *_: object) -> np.dtype[Any]:
    """A type of plain numbers, whose byte order the pickle then sets; types that hold objects are refused."""
    kind = np.dtype(code.decode() if isinstance(code, bytes) else code, copy=True)
    if kind.kind not in "biuf":
        raise Forbidden(f"holds an array of type {kind}")
    return kind


def latin_bytes(text: str, encoding: str | bytes) -> bytes:
    """How Python 3 writes bytes into the old protocols; no other encoding has a business here."""
    if encoding not in ("latin1", b"latin1"):
        raise Forbidden(f"encodes with {encoding!r}")
    return text.encode("latin1")


STAND_INS: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "ndarray"): blank,  # only ever named as the class of an array, never called
    ("numpy", "dtype"): number_type,
    ("_codecs", "encode"): latin_bytes,
}
