"""netCDF: values as the attributes of their variable say what they mean, classic and in HDF5.

What is expected is what netCDF4-python 1.7.5 gives, with NaN for what it masks; but it overflows
with an integer scale, ignores ``_Unsigned = "false"``, takes limits of unpacked values for packed
ones, and -127 and 255 in bytes for values that nobody wrote.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from matex import data
from matex.errors import InputError

NAN = np.nan
F4, F8, I2, I4, I8, U1 = np.float32, np.float64, np.int16, np.int32, np.int64, np.uint8
NUMBERS = {
    "i1": 1,
    "i2": 3,
    "i4": 4,
    "f4": 5,
    "f8": 6,
    "u1": 7,
    "u2": 8,
    "u4": 9,
    "i8": 10,
    "u8": 11,
}
Attributes = dict[str, Any]


def padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 4)


def named(name: str) -> bytes:
    return struct.pack(">q", len(name)) + padded(name.encode())


def classic(path: Path, values: np.ndarray, attributes: Attributes) -> None:
    """CDF-5: one dimension, one variable ``x``."""
    content = b""
    for name, value in attributes.items():
        if isinstance(value, str):
            content += named(name) + struct.pack(">iq", 2, len(value)) + padded(value.encode())
            continue
        array = np.atleast_1d(value)
        head = struct.pack(">iq", NUMBERS[array.dtype.str[1:]], len(array))
        content += (
            named(name) + head + padded(array.astype(array.dtype.newbyteorder(">")).tobytes())
        )
    count = len(attributes)
    listed = struct.pack(">iq", 12 if count else 0, count) + content
    head = b"CDF\5" + struct.pack(">qiq", 0, 10, 1) + named("row") + struct.pack(">q", len(values))
    head += struct.pack(">iq", 0, 0) + struct.pack(">iq", 11, 1)
    head += named("x") + struct.pack(">qq", 1, 0) + listed
    head += struct.pack(">iq", NUMBERS[values.dtype.str[1:]], values.nbytes)
    begin = len(head) + 8
    raw = values.astype(values.dtype.newbyteorder(">")).tobytes()
    path.write_bytes(head + struct.pack(">q", begin) + padded(raw))


UNWRITTEN = {
    "i2": -32767,
    "i4": -(2**31) + 1,
    "i8": -(2**63) + 2,
    "f4": 9.96921e36,
    "f8": 9.969209968386869e36,
}


def in_hdf5(path: Path, values: np.ndarray, attributes: Attributes) -> None:
    """Write a variable like the netCDF library, whose attributes are arrays of one."""
    with h5py.File(path, "w") as file:
        fill = UNWRITTEN.get(values.dtype.str[1:])
        x = file.create_dataset("x", data=values, fillvalue=fill)
        for name, value in attributes.items():
            x.attrs[name] = np.bytes_(value) if isinstance(value, str) else np.atleast_1d(value)


Case = tuple[np.ndarray, Attributes, np.dtype[Any], list[float], str]


def case(
    stored: list[Any], kind: Any, given: Any, expected: list[Any], note: str, **attributes: Any
) -> Case:
    return np.array(stored, kind), attributes, np.dtype(given), expected, note


CASES: dict[str, Case] = {
    "scale alone": case([0, 3], I2, F8, [0, 3 * 0.1], "unpacked to float64", scale_factor=F8(0.1)),
    "offset alone": case([0, 3], I2, F4, [5, 8], "unpacked to float32", add_offset=F4(5)),
    "float scale of 32 bits": case([2**24 + 1], I4, F8, [2**24 + 1], "float64", scale_factor=F4(1)),
    "integer scale": case([30_000], I2, F8, [60_000], "float64", scale_factor=I2(2)),
    "seconds since 1900": case(
        [1234567], I4, F8, [3.9e9 + 1234567], "float64", scale_factor=F8(1), add_offset=F8(3.9e9)
    ),
    "times of 64 bits": case(
        [3913056019, 5], F8, F8, [3913056019, NAN], "5.0 read as NaN", _FillValue=F8(5)
    ),
    "unsigned": case([1, -1], I2, np.uint16, [1, 65535], "taken for uint16", _Unsigned="true"),
    "unsigned, packed": case(
        [1, -1, -2],
        np.int8,
        F4,
        [0.5, NAN, 127],
        "255 read as NaN",
        _Unsigned="true",
        scale_factor=F4(0.5),
        _FillValue=np.int8(-1),
    ),
    "unsigned limits": case(
        [1, -2, -1],
        np.int8,
        F4,
        [1, 254, NAN],
        "values above 254",
        _Unsigned="true",
        valid_range=np.array([0, -2], np.int8),
    ),
    "signed": case([1, 255], U1, np.int8, [1, -1], "taken for int8", _Unsigned="false"),
    "several missing": case(
        [1, -8, -9, 4],
        I2,
        F4,
        [1, NAN, NAN, 4],
        "-8, -9 read as NaN",
        missing_value=np.array([-8, -9], I2),
    ),
    "missing and fill": case(
        [1, -8, -9],
        F4,
        F4,
        [1, NAN, NAN],
        "-9.0, -8.0 read as NaN",
        missing_value=F4(-8),
        _FillValue=F4(-9),
    ),
    "integers of 16 bits": case([1, -9], I2, F4, [1, NAN], "-9 read as NaN", _FillValue=I2(-9)),
    "integers of 32 bits": case(
        [2**31 - 2, -9], I4, F8, [2**31 - 2, NAN], "-9 read", _FillValue=I4(-9)
    ),
    "integers of 64 bits": case(
        [2**62 + 1, -9],
        I8,
        I8,
        [2**62 + 1, -9],
        "-9 mean no value, and are given as they are",
        _FillValue=I8(-9),
    ),
    "a mark of another type": case(
        [1, 1e20], F4, F4, [1, NAN], "read as NaN", missing_value=F8(1e20)
    ),
    "a mark that cannot be": case([1, 2], I2, I2, [1, 2], "never written", missing_value=F8(1e20)),
    "NaN as the mark": case([1, NAN], F4, F4, [1, NAN], "mapped", _FillValue=F4(NAN)),
    "range": case(
        [1, 5, 9],
        F8,
        F8,
        [NAN, 5, NAN],
        "values below 2.0, values above 8.0",
        valid_range=np.array([2.0, 8]),
    ),
    "least": case([1, 5], I2, F4, [NAN, 5], "values below 2", valid_min=I2(2)),
    "most": case([1, 5], I2, F4, [1, NAN], "values above 2", valid_max=I2(2)),
    "packed range": case(
        [1, 5, 9],
        I2,
        F4,
        [NAN, 2.5, NAN],
        "values below 2",
        scale_factor=F4(0.5),
        valid_range=np.array([2, 8], I2),
    ),
    "unpacked range": case(
        [1, 5, 9],
        I2,
        F4,
        [NAN, 2.5, NAN],
        "unpacked values below 1.0",
        scale_factor=F4(0.5),
        valid_range=np.array([1, 4], F4),
    ),
    "unwritten floats": case([1, 9.96921e36], F4, F4, [1, NAN], "mapped"),
    "unwritten, packed": case([2, -32767], I2, F8, [1, NAN], "float64", scale_factor=F8(0.5)),
    "unwritten integers": case(
        [1, -32767], I2, I2, [1, -32767], "a value never written reads as the fill value -32767"
    ),
    "bytes are all values": case([1, 255], U1, F4, [0.5, 127.5], "float32", scale_factor=F4(0.5)),
    "plain": case([1.5], F8, F8, [1.5], "mapped"),
}


@pytest.mark.parametrize("write", [classic, in_hdf5])
@pytest.mark.parametrize("name", CASES)
def test_values_are_what_they_mean(
    name: str, write: Callable[[Path, np.ndarray, Attributes], None], tmp_path: Path
) -> None:
    stored, attributes, given, expected, note = CASES[name]
    write(tmp_path / "data.nc", stored, attributes)
    with data.open(tmp_path / "data.nc") as opened:
        assert opened.x.dtype == given
        assert opened.x[:].dtype == given
        assert np.array_equal(opened.x, np.array(expected, given), equal_nan=given.kind == "f")
        assert opened.x[-1:].shape == (1,)
        assert note in opened.notes["x"]


@pytest.mark.parametrize("write", [classic, in_hdf5])
@pytest.mark.parametrize("scale", ["0.1", np.array([0.1, 0.2])])
def test_a_scale_that_is_none_is_no_guess(
    scale: Any, write: Callable[[Path, np.ndarray, Attributes], None], tmp_path: Path
) -> None:
    write(tmp_path / "data.nc", np.arange(3, dtype=I2), {"scale_factor": scale})
    with pytest.raises(
        InputError, match=r"variable of numbers.*x: .*scale_factor must be a number"
    ):
        data.open(tmp_path / "data.nc")


def test_a_value_that_was_not_prefilled_is_a_value(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "data.nc", "w") as file:  # as with fill_value=False
        file["x"] = np.array([-32767, 1], I2)
        file["x"].attrs["scale_factor"] = F8(2)
    with data.open(tmp_path / "data.nc") as opened:
        assert opened.x[:].tolist() == [-65534, 2]


def test_what_else_netcdf_4_keeps_in_hdf5(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "data.nc", "w") as file:
        file["time"] = np.arange(3)
        file["group/x"] = np.array([1, -9, 3], I2)
        file["group/x"].attrs["_FillValue"] = np.array([-9], I2)
        file["again"] = file["group/x"]
        scale = file.create_dataset("row", (3,), ">f4")
        scale.make_scale("This is a netCDF dimension but not a netCDF variable.         3")
        file["time"].make_scale("time")
        file["_nc4_non_coord_row"] = np.arange(6.0).reshape(3, 2)
        file["flag"] = h5py.Empty("f4")
        file.create_dataset("kind", data=[0, 1], dtype=h5py.enum_dtype({"a": 0, "b": 1}, "i1"))
        file["word"] = ["a", "b", "c"]
        file["letters"] = np.array([b"a", b"b"])
    with data.open(tmp_path / "data.nc") as opened:
        assert sorted(opened) == ["again", "group/x", "kind", "row", "time"]
        assert np.array_equal(opened.row, np.arange(6.0).reshape(3, 2))
        assert opened.again is opened["group/x"]
        assert opened.kind[:].tolist() == [0, 1]
        for name in ("again", "group/x"):
            assert "-9 read as NaN" in opened.notes[name]
        assert "text" in opened.notes["word"]


def test_a_dimension_alone_is_no_variable(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "data.nc", "w") as file:
        scale = file.create_dataset("row", (3,), ">f4")
        scale.make_scale("This is a netCDF dimension but not a netCDF variable.         3")
    with pytest.raises(InputError, match=r"one row. Received: row: a dimension without values"):
        data.open(tmp_path / "data.nc")


def unlimited(file: h5py.File, name: str, values: np.ndarray, *scales: str) -> None:
    """A variable along unlimited dimensions, as the netCDF library writes it."""
    most = (None,) * values.ndim
    x = file.create_dataset(name, data=values, maxshape=most, fillvalue=UNWRITTEN.get(
        values.dtype.str[1:]))  # fmt: skip
    for axis, scale in enumerate(scales):
        x.dims[axis].attach_scale(file[scale])


def test_variables_are_as_long_as_their_unlimited_dimensions(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "data.nc", "w") as file:
        unlimited(file, "time", np.arange(3, dtype=I4))
        file["time"].make_scale("time")
        level = file.create_dataset("level", (0,), ">f4", maxshape=(None,))
        level.make_scale("This is a netCDF dimension but not a netCDF variable.         0")
        unlimited(file, "x", np.ones((2, 3), F4), "time", "level")
        unlimited(file, "packed", np.array([2, 4], I2), "time")
        file["packed"].attrs["scale_factor"] = np.array([0.5])
        file["packed"].attrs["_FillValue"] = np.array([-9], I2)
        unlimited(file, "group/bytes", np.arange(5, dtype=U1), "time")
        unlimited(file, "whole", np.arange(4.0), "level")
        file.create_dataset("words", (4,), h5py.string_dtype(), maxshape=(None,))
        file["words"].dims[0].attach_scale(level)
    with data.open(tmp_path / "data.nc") as opened:
        assert opened.time[:].tolist() == [0, 1, 2, -(2**31) + 1, -(2**31) + 1]
        assert opened["group/bytes"][:].tolist() == [0, 1, 2, 3, 4]
        assert opened.packed[[4, 0, 1]].tolist()[1:] == [1, 2]
        assert np.isnan(opened.packed[[4, 0]]).tolist() == [True, False]
        expected = np.full((5, 4), np.nan)
        expected[:2, :3] = 1
        assert np.array_equal(opened.x, expected, equal_nan=True)
        order = np.array([4, 1, 3, 0])
        assert np.array_equal(opened.x.rows(order), expected[order], equal_nan=True)
        assert opened.whole[:].tolist() == [0, 1, 2, 3]
        assert "stored" not in opened.notes["whole"]
        note = "(2, 3) of (5, 4) are stored, the rest is the fill value 9.96"
        assert note in opened.notes["x"]
        assert "the fill value -9" in opened.notes["packed"]


def test_a_dimension_that_leads_nowhere(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "data.nc", "w") as file:
        unlimited(file, "time", np.arange(3, dtype=I4))
        file["time"].make_scale("time")
        unlimited(file, "x", np.ones(2, F4), "time")
        del file["time"]
    with pytest.raises(InputError, match=r"must say which dimensions /x has. Received: "):
        data.open(tmp_path / "data.nc")
