"""Stored types of HDF5: which are numbers, and which are NumPy's own bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from h5py import h5t

__all__ = ["described", "memory_type", "same_bits"]

_NUMBERS = (h5t.INTEGER, h5t.FLOAT, h5t.BITFIELD, h5t.ENUM)
_WORDS = {
    h5t.STRING: "text",
    h5t.TIME: "times of the type H5T_TIME, which NumPy does not have",
    h5t.OPAQUE: "opaque bytes",
    h5t.REFERENCE: "references to other data sets",
    h5t.ARRAY: "elements that are arrays of their own (H5T_ARRAY)",
}


def memory_type(stored: h5t.TypeID) -> np.dtype[Any] | None:
    """NumPy dtype in which libhdf5 returns values stored as *stored*; None if there is none.

    It can differ from the stored type in size, precision and bit positions.
    """
    if stored.get_class() not in _NUMBERS:
        return None
    plain = _plain(stored)
    if plain.get_size() > 1 and plain.get_order() not in (h5t.ORDER_LE, h5t.ORDER_BE):
        return None  # libhdf5 1.14.6 gives other numbers than were written in VAX's order
    try:
        dtype = stored.dtype
    except (TypeError, ValueError):  # such as integers of three bytes, or floats of quad precision
        if plain.get_class() != h5t.INTEGER or plain.get_size() > 8:
            return None
        sign = "i" if plain.get_sign() == h5t.SGN_2 else "u"
        return np.dtype(f"{sign}{4 if plain.get_size() < 4 else 8}")
    return dtype if dtype.kind in "fiub" else None


def same_bits(stored: h5t.TypeID, dtype: np.dtype[Any]) -> bool:
    """Whether *stored* has the same bytes as *dtype*, byte order included."""
    plain = _plain(stored)
    size = plain.get_size()
    if size != dtype.itemsize:
        return False  # such as booleans stored in two bytes
    if plain.get_class() == h5t.FLOAT:
        return bool(plain == h5t.py_create(dtype))
    same_order = size == 1 or plain.get_order() == _order(dtype)
    if plain.get_class() == h5t.BITFIELD:
        return same_order and dtype.kind == "u"
    signed = plain.get_sign() == h5t.SGN_2
    return (
        same_order
        and plain.get_precision() == 8 * size
        and plain.get_offset() == 0
        and (dtype.kind == "b" or signed == (dtype.kind == "i"))
    )


def described(stored: h5t.TypeID) -> str:
    """Name of a stored type without a :func:`memory_type`, for messages."""
    kind = stored.get_class()
    if kind in _WORDS:
        return _WORDS[kind]
    if kind == h5t.VLEN:
        return "elements of varying length"
    if kind == h5t.COMPOUND:
        names = [stored.get_member_name(i).decode() for i in range(stored.get_nmembers())]
        if names in (["r", "i"], ["real", "imag"]):
            return "complex numbers"
        more = ", ..." if len(names) > 8 else ""
        return (
            f"records with the fields {', '.join(names[:8])}{more}; "
            f"write each field as a data set of its own"
        )
    if kind not in _NUMBERS:
        return "a type that is not known here"
    plain = _plain(stored)
    what = "floating-point numbers" if plain.get_class() == h5t.FLOAT else "integers"
    if plain.get_size() > 1 and plain.get_order() not in (h5t.ORDER_LE, h5t.ORDER_BE):
        return f"{what} in the byte order of VAX; write them in another"
    return f"{what} of {plain.get_size()} bytes, for which NumPy has no type"


def _order(dtype: np.dtype[Any]) -> int:
    little = dtype.newbyteorder("<") == dtype
    return int(h5t.ORDER_LE if little else h5t.ORDER_BE)


def _plain(stored: h5t.TypeID) -> Any:
    """The type of the numbers themselves, which an enumeration is made of."""
    return stored.get_super() if stored.get_class() == h5t.ENUM else stored
