"""Types of HDF5 that are not NumPy's: converted where they are numbers, else named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from h5py import h5d, h5s, h5t

from matex import data
from matex.data.arrays import as_table
from matex.errors import InputError, Unsupported


def made(base: Any, **fields: Any) -> Any:
    stored = base.copy()
    for name, value in fields.items():
        getattr(stored, f"set_{name}")(*(value if isinstance(value, tuple) else (value,)))
    return stored


def enumeration(base: Any, *names: bytes) -> Any:
    stored = h5t.enum_create(base)
    for number, name in enumerate(names):
        stored.enum_insert(name, number)
    return stored


def put(file: h5py.File, name: str, stored: Any, raw: bytes) -> None:
    """A contiguous data set with *raw* as its bytes, whatever they mean."""
    size = stored.get_size()
    space = h5s.create_simple((len(raw) // size,))
    dataset = h5d.create(file.id, name.encode(), stored, space)
    dataset.write(h5s.ALL, h5s.ALL, np.frombuffer(raw, f"V{size}"), mtype=stored)


I16, U16, F32 = h5t.STD_I16LE, h5t.STD_U16LE, h5t.IEEE_F32LE
BFLOAT16 = made(F32, fields=(15, 7, 8, 0, 7), precision=16, size=2)
FLOAT8 = made(
    h5t.IEEE_F16LE, fields=(7, 3, 4, 0, 3), precision=8, size=1, ebias=7
)  # one sign, four exponent, three fraction bits
NUMBERS: dict[str, tuple[Any, bytes, list[Any]]] = {
    "12 bits at the left": (
        made(U16, precision=12, offset=4), b"\x10\x00\xf0\xff\x00\x80", [1, 4095, 2048],
    ),
    "12 signed bits at the left, from the right": (
        made(h5t.STD_I16BE, precision=12, offset=4), b"\x00\x10\xff\xf0\x80\x00", [1, -1, -2048],
    ),
    "12 signed bits, the others anything": (
        made(I16, precision=12), b"\xff\x0f\xff\xff\x00\x08", [-1, -1, -2048],
    ),
    "three bytes": (
        made(h5t.STD_I32LE, precision=24, size=3), b"\x01\0\0\xff\xff\xff\0\0\x80",
        [1, -1, -(2**23)],
    ),
    "bfloat16": (
        BFLOAT16, np.array([0x3F80, 0xC020, 0x7F80, 0x0001], "<u2").tobytes(),
        [1, -2.5, np.inf, 2.0**-133],
    ),
    "float8": (FLOAT8, b"\x38\x3c\xc0\x08", [1, 1.5, -2, 2.0**-6]),
    "another bias": (made(F32, ebias=120), np.array([1, -3], "<f4").tobytes(), [128, -384]),
    "explicit first bit": (made(F32, norm=h5t.NORM_NONE), b"\x00\x00\x40\x3f", [0.5]),
    "booleans of two bytes": (enumeration(I16, b"FALSE", b"TRUE"), b"\0\0\1\0", [False, True]),
    "enumeration, big-endian": (enumeration(h5t.STD_I16BE, b"a", b"b"), b"\0\0\1\1", [0, 257]),
    "bits, big-endian": (h5t.STD_B16BE, b"\x10\x32", [0x1032]),
    "float, big-endian": (h5t.IEEE_F64BE, np.array([1.5], ">f8").tobytes(), [1.5]),
    "one byte, big-endian": (h5t.STD_I8BE, b"\x01\xff", [1, -1]),
}  # fmt: skip
MAPPED = {
    "enumeration, big-endian", "bits, big-endian", "float, big-endian", "one byte, big-endian",
}  # fmt: skip


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_are_those_that_were_stored(case: str, tmp_path: Path) -> None:
    stored, raw, expected = NUMBERS[case]
    with h5py.File(tmp_path / "data.h5", "w") as file:
        put(file, "x", stored, raw)
    with data.open(tmp_path / "data.h5") as opened:
        assert opened.x[:].tolist() == expected
        assert opened.x.dtype.isnative
        assert ("mapped" in opened.notes["x"]) == (case in MAPPED)
    with h5py.File(tmp_path / "data.h5") as file:
        assert as_table(file["x"], "x").rows(np.arange(1)).tolist() == expected[:1]


OTHERS: dict[str, tuple[Any, str]] = {
    "time": (h5t.UNIX_D32LE, "H5T_TIME"),
    "16 bytes": (made(h5t.STD_I64LE, size=16, precision=128), "integers of 16 bytes"),
    "text": (h5t.py_create(np.dtype("S4")), "text"),
    "text of any length": (h5t.py_create(h5py.string_dtype(), logical=True), "text"),
    "rows of any length": (h5t.vlen_create(h5t.STD_I32LE), "varying length"),
    "records": (h5t.py_create(np.dtype([("a", "i4"), ("b", "f8")])), "records.* a, b; write each"),
    "complex": (h5t.py_create(np.dtype("c8")), "complex numbers"),
    "opaque": (h5t.create(h5t.OPAQUE, 5), "opaque bytes"),
    "references": (h5t.STD_REF_OBJ, "references"),
    "arrays": (h5t.array_create(h5t.STD_I32LE, (3,)), "H5T_ARRAY"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_what_is_no_numbers_is_passed_over_and_named(case: str, tmp_path: Path) -> None:
    stored, words = OTHERS[case]
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        h5d.create(file.id, b"other", stored, h5s.create_simple((4,)))
    with pytest.raises(InputError, match=rf"one row. Received: other: shape \(4,\): .*{words}"):
        data.open(path)
    with h5py.File(path) as file, pytest.raises(Unsupported, match=rf"x of numbers.*{words}"):
        as_table(file["other"], "x")
    with h5py.File(path, "r+") as file:
        file["x"] = np.arange(3)
    with data.open(path) as opened:
        assert list(opened) == ["x"]
        assert "passed over" in opened.notes["other"]


def test_the_byte_order_of_vax_is_passed_over(tmp_path: Path) -> None:
    """libhdf5 1.14.6 marks it as big-endian when it writes: so the mark is set here."""
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(3)
        put(file, "vax", h5t.IEEE_F32BE, b"\x80\x40\0\0")
    mark = b"\x11\x21\x1f\0\4\0\0\0"  # version 1, class 1; big-endian, sign in bit 31; four bytes
    content = path.read_bytes()
    assert content.count(mark) == 1
    path.write_bytes(content.replace(mark, b"\x31\x61" + mark[2:]))
    with data.open(path) as opened:
        assert list(opened) == ["x"]
        assert "byte order of VAX" in opened.notes["vax"]
