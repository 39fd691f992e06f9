"""Damaged files are refused by a line that names them, whatever their readers made of the damage.

What is damaged here was found at random by ci/readers/damages.py.
"""

from __future__ import annotations

import struct
from pathlib import Path

import h5py
import numpy as np
import pytest

from matex import data
from matex.errors import DataError

MOST = 2**32 - 1
IMAGES = struct.pack(">4B3I", 0, 0, 8, 3, 2, 2, 2) + bytes(8)


def idx(*shape: int) -> bytes:
    """The head of an idx file of bytes."""
    return struct.pack(f">4B{len(shape)}I", 0, 0, 8, len(shape), *shape)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\0\0\x08", "a format that is not known here"),
        (b"\0\0", "a format that is not known here"),
        (idx(*[MOST] * 8), "must have .* bytes for the values"),
        (idx(*[2**31] * 4), "must have .* bytes for the values"),
        (idx(0, *[MOST] * 7), "must have a shape for the values that an array can have"),
    ],
    ids=["three bytes", "two bytes", "eight axes", "four axes", "no rows of eight axes"],
)
def test_a_damaged_idx_file_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.idx"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        data.open(path)


@pytest.mark.parametrize(
    "content",
    [b"\0\0", b"\0\0\x08", idx(*[1] * 86) + b"\0"],
    ids=["two bytes", "three bytes", "86 axes"],
)
def test_damaged_labels_beside_images_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a-images-idx3-ubyte"
    path.write_bytes(IMAGES)
    path.with_name("a-labels-idx1-ubyte").write_bytes(content)
    with pytest.raises(DataError, match="a-labels-idx1-ubyte must be an idx file"):
        data.open(path)


def test_many_rows_of_no_values_are_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.idx"
    path.write_bytes(idx(MOST, 0))
    assert np.asarray(data.open(path).x).shape == (MOST, 0)


def classic(*, length: int = 2, attributes: int = 0, axes: int = 1, begin: int = 80) -> bytes:
    """A netCDF file of one variable ``x`` of two int32, CDF-1."""
    content = b"CDF\1" + struct.pack(">iiii", 0, 10, 1, 3) + b"row\0" + struct.pack(">i", length)
    content += struct.pack(">ii", 0, 0) + struct.pack(">iii", 11, 1, 1) + b"x\0\0\0"
    content += struct.pack(f">i{axes}i", axes, *[0] * axes)
    content += struct.pack(">iiiii", 0, attributes, 4, 8, begin)
    return content.ljust(80, b"\0") + struct.pack(">ii", 5, 6)


def test_the_netcdf_file_that_is_damaged_here_is_sound(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    path.write_bytes(classic())
    assert data.open(path).x[:].tolist() == [5, 6]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (classic(length=-2), "Received: the length -2 in its header"),
        (classic(attributes=-2), "Received: the length -2 in its header"),
        (classic(begin=-80), "must have a shape for x that an array can have"),
        (classic(length=1, axes=70), "must have a shape for x that an array can have"),
    ],
    ids=["a dimension", "a count", "a place", "70 axes"],
)
def test_a_damaged_netcdf_file_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        data.open(path)


def test_an_hdf5_name_that_is_listed_but_not_found(tmp_path: Path) -> None:
    """The names of a group are looked for by halves, so that one out of order is not found."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for name in ("first", "second", "third"):
            file[name] = np.arange(3)
    path.write_bytes(path.read_bytes().replace(b"first\0", b"zirst\0"))
    with pytest.raises(DataError, match="Received: zirst is listed but not found"):
        data.open(path)


def test_texts_of_a_heap_that_is_zeroed(tmp_path: Path) -> None:
    """libhdf5 would look without end for a text's length, so nothing of the file is given."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(3)
        text = h5py.string_dtype()
        file.create_dataset("words", (3,), text, fillvalue="none")[:] = ["one", "two", "three"]
    content = path.read_bytes()
    heap = content.index(b"GCOL") + 16
    size = int.from_bytes(content[heap - 8 : heap], "little")
    path.write_bytes(content[:heap] + bytes(size - 16) + content[heap + size - 16 :])
    with pytest.raises(DataError, match=f"a heap at byte {heap - 16} in which an object has no"):
        data.open(path)


def test_an_empty_file_among_those_of_a_set(tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(b"")
    with pytest.raises(DataError, match=r"a\.tfrecord must have at least one record"):
        data.open(tmp_path)


def test_an_image_is_refused_in_words_of_its_own(tmp_path: Path) -> None:
    import tensorflow as tf

    content = bytearray(tf.io.encode_png(np.zeros((6, 4, 3), np.uint8)).numpy())
    content[-20] ^= 1
    folder = tmp_path / "set" / "class"
    folder.mkdir(parents=True)
    (folder / "0.png").write_bytes(content)
    with pytest.raises(DataError, match=r"0\.png .*must be a whole image. Received: Invalid PNG"):
        data.open(tmp_path / "set")
