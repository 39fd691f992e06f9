"""HDF5 by h5py: of what type the values are."""

from __future__ import annotations

from typing import Any

import h5py
import ml_dtypes
import numpy as np
from h5py import h5d, h5p, h5s, h5t

from ci.readers.cases.case import Case
from ci.readers.cases.hdf5 import ROWS, hdf5

__all__ = ["CASES"]

_COUNTS = np.random.default_rng(1).integers(-2000, 2000, (24, 5))


def _typed(name: str, dtype: Any, values: np.ndarray = ROWS, *, word: str = "") -> Case:
    """A data set of NumPy's *dtype*, beside a plain one."""

    def fill(file: Any) -> None:
        file["x"] = values.astype(dtype)
        file["y"] = np.arange(24)

    return hdf5(name, fill, word=word)


def _stored(
    name: str, kind: Any, values: np.ndarray, *, chunks: Any = None, word: str = ""
) -> Case:
    """A data set of HDF5's own type *kind*, converted from *values* by HDF5, beside a plain one."""

    def fill(file: Any) -> None:
        properties = h5p.create(h5p.DATASET_CREATE)
        if chunks:
            properties.set_chunk(chunks)
        space = h5s.create_simple(values.shape)
        made = h5d.create(file.id, b"x", kind, space, dcpl=properties)
        made.write(h5s.ALL, h5s.ALL, np.ascontiguousarray(values))
        file["y"] = np.arange(24)

    return hdf5(name, fill, word=word)


def _integer(base: Any, bits: int, offset: int = 0) -> Any:
    """An integer of fewer bits than its bytes have, *offset* bits from the right."""
    kind = base.copy()
    kind.set_precision(bits)
    kind.set_offset(offset)
    return kind


def _float(size: int, exponent: int, mantissa: int, bias: int, base: Any = h5t.IEEE_F32LE) -> Any:
    """A float of *size* bytes with so many bits of exponent and mantissa."""
    kind = base.copy()
    kind.set_fields(exponent + mantissa, mantissa, exponent, 0, mantissa)
    kind.set_size(size)
    kind.set_ebias(bias)
    return kind


def _beside(name: str, make: Any, word: str = "number|type|shape") -> Case:
    """Something that is no numbers, beside a plain data set."""

    def fill(file: Any) -> None:
        make(file)
        file["y"] = np.arange(24)

    return hdf5(name, fill, word=word)


def _time(file: Any) -> None:
    h5d.create(file.id, b"x", h5t.UNIX_D32LE, h5s.create_simple((24,)))


def _opaque(file: Any) -> None:
    times = np.arange(24).astype("M8[s]")
    file["x"] = times.astype(h5py.opaque_dtype(times.dtype))


def _references(file: Any) -> None:
    made = file.create_dataset("x", (24,), dtype=h5py.ref_dtype)
    made[0] = file.create_group("g").ref


def _ragged(file: Any) -> None:
    made = file.create_dataset("x", (24,), dtype=h5py.vlen_dtype(np.float32))
    for row in range(24):
        made[row] = np.arange(row)


_BF16 = _float(2, 8, 7, 127)
_POINT = np.dtype([("a", "f4"), ("b", "i2")])

CASES = [
    *(_typed(f"{dtype}", dtype, np.abs(_COUNTS)) for dtype in ("u1", "<u2", "<u4", "<u8")),
    *(_typed(f"{dtype}", dtype, _COUNTS) for dtype in ("i1", "<i2", "<i4", "<i8")),
    *(_typed(f"{dtype}", dtype, _COUNTS) for dtype in (">i2", ">u4", ">i8", ">f4", ">f8")),
    _typed("float16", "<f2"),
    _typed("big-endian float16", ">f2"),
    _typed("long double", np.longdouble),
    _typed("not a number and infinity", "f8", np.where(ROWS > 1, np.nan, ROWS / (ROWS > -1))),
    _typed("bool", bool, ROWS > 0),
    _typed("complex", "c16", word="complex"),
    _typed("fixed strings", "S5", _COUNTS, word="number|S5"),
    _typed("compound", _POINT, _COUNTS[:, 0], word="number|compound"),
    hdf5("big-endian, chunked", lambda file: file.create_dataset(
        "x", data=ROWS.astype(">f4"), chunks=(5, 5), compression="gzip")),
    hdf5("bool, chunked", lambda file: file.create_dataset("x", data=ROWS > 0, chunks=(5, 5))),
    hdf5("uint64 above 2^63", lambda file: file.create_dataset(
        "x", data=np.arange(24, dtype="u8") + (1 << 63))),
    _stored("bfloat16 by HDF5", _BF16, ROWS.astype(ml_dtypes.bfloat16).astype("f4")),
    _stored("bfloat16 by HDF5, chunked", _BF16, ROWS.astype(ml_dtypes.bfloat16).astype("f4"),
            chunks=(5, 5)),
    _stored("float8 e4m3", _float(1, 4, 3, 7), np.round(ROWS).astype("f4"), word="float|type"),
    _stored("float of 24 bits", _float(3, 8, 15, 127), np.round(ROWS, 2).astype("f4")),
    _stored("12 bits on the right", _integer(h5t.STD_I16LE, 12), _COUNTS.astype("i2")),
    _stored("12 bits on the left", _integer(h5t.STD_I16LE, 12, 4), _COUNTS.astype("i2")),
    _stored("12 bits on the left, big-endian", _integer(h5t.STD_I16BE, 12, 4),
            _COUNTS.astype("i2")),
    _stored("12 bits unsigned on the left, chunked", _integer(h5t.STD_U16LE, 12, 4),
            np.abs(_COUNTS).astype("u2"), chunks=(5, 5)),
    _stored("10 bits unsigned", _integer(h5t.STD_U16LE, 10), (np.abs(_COUNTS) % 1024).astype("u2")),
    _stored("bits of STD_B8LE", h5t.STD_B8LE, np.abs(_COUNTS).astype("u1"), word="type|number"),
    hdf5("enum of three", lambda file: file.create_dataset(
        "x", data=np.arange(24) % 3, dtype=h5py.enum_dtype({"a": 0, "b": 1, "c": 2}, "u1"))),
    _beside("variable strings", lambda file: file.create_dataset("x", data=["a", "bc"] * 12)),
    _beside("ragged rows", _ragged),
    _beside("array type in a compound", lambda file: file.create_dataset(
        "x", (24,), np.dtype([("a", "f4", (3,))]))),
    hdf5("array type", lambda file: (
        file.create_dataset("x", (24,), np.dtype(("f4", (3,))))[...].fill(0),
        file.create_dataset("y", data=np.arange(24)))),
    _beside("references", _references),
    _beside("opaque", _opaque),
    _beside("H5T_TIME", _time),
    hdf5("a named type", lambda file: (
        file.__setitem__("kind", np.dtype("f4")),
        file.create_dataset("x", data=ROWS, dtype=file["kind"]))),
    hdf5("strings only", lambda file: file.create_dataset("x", data=["a", "b"]), word="number"),
]  # fmt: skip
