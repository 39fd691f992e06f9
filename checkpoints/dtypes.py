"""Element types of arrays in a snapshot, and their representation in the file.

NumPy's own numbers and booleans are stored as they are, little-endian. The short types of
machine learning (bfloat16 and others), unknown to NumPy and HDF5, are stored as unsigned integers
of the same width, with the type's name as an attribute. They are read as the type of `ml_dtypes` if
that is installed, otherwise as a record of one field, named after the type, that holds the bits:
``array["bfloat16"]`` is then an array of uint16. Such a record cannot be mistaken for numbers, and
is saved again as its original type.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

NATIVE = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)

#: Names of foreign types and the unsigned integers that carry their bits.
FOREIGN = {
    "bfloat16": "uint16",
    "float8_e4m3fn": "uint8",
    "float8_e5m2": "uint8",
    "int4": "uint8",
    "uint4": "uint8",
}


@functools.cache  # NumPy computes the name at each access
def stored_name(dtype: np.dtype[Any]) -> str | None:
    """Name under which arrays of *dtype* are stored; None if they cannot be stored."""
    if dtype.names is not None:
        (name, *more) = dtype.names or ("",)
        is_bits = not more and name in FOREIGN and dtype == np.dtype([(name, FOREIGN[name])])
        return name if is_bits else None
    if dtype.name in FOREIGN:
        return dtype.name if dtype.itemsize == np.dtype(FOREIGN[dtype.name]).itemsize else None
    return dtype.name if dtype.name in NATIVE else None


def storage_dtype(name: str) -> np.dtype[Any]:
    """Little-endian dtype of arrays stored as *name*. Raises KeyError for an unknown name."""
    if name in NATIVE:
        return np.dtype(name).newbyteorder("<")
    return np.dtype(FOREIGN[name]).newbyteorder("<")


def to_storage(array: Array) -> Array:
    """*array* in its dtype of the file, shape and bits kept, C-contiguous; a view if possible."""
    name = stored_name(array.dtype)
    if name is None:
        raise ValueError(f"a storable array was wanted. Received: dtype={array.dtype}.")
    target = storage_dtype(name)
    packed = np.asarray(array, order="C")
    return packed.view(target) if name in FOREIGN else packed.astype(target, copy=False)


def from_storage(array: Array, name: str) -> Array:
    """Inverse of `to_storage`; a view on little-endian machines."""
    if name in NATIVE:
        return array.astype(np.dtype(name), copy=False)
    native = array.astype(np.dtype(FOREIGN[name]), copy=False)
    return native.view(_foreign_dtype(name))


def _foreign_dtype(name: str) -> np.dtype[Any]:
    bits = np.dtype([(name, FOREIGN[name])])
    try:
        ml_dtypes = importlib.import_module("ml_dtypes")
    except ImportError:
        return bits
    # Older releases lack some of the types.
    scalar = getattr(ml_dtypes, name, None)
    return bits if scalar is None else np.dtype(scalar)
