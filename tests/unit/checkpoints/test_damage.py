"""No damage goes unnoticed: flipped bits, cuts, additions, other files."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import (
    DamagedSnapshot,
    NotASnapshot,
    Snapshot,
    SnapshotNotFound,
    StorageError,
    read_snapshot,
)
from checkpoints.seal import SIZE, parse_seal
from checkpoints.writer import encode


def whole_file() -> bytes:
    snapshot = Snapshot(
        weights={"a/kernel": np.arange(4, dtype=np.float32), "b": np.array([True, False])},
        optimizer={"iteration": np.int64(3)},
        cursor={"step": 8, "samples": 5},
        architecture='{"a": 1}',
    )
    return b"".join(encode(snapshot).pieces)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file.h5"


def test_the_untouched_file_loads(path):
    path.write_bytes(whole_file())
    assert read_snapshot(path).weights["a/kernel"].tolist() == [0, 1, 2, 3]


def test_any_single_flipped_bit_is_detected(path):
    content = whole_file()
    path.write_bytes(content)
    with path.open("r+b", buffering=0) as file:
        for place, byte in enumerate(content):
            for bit in range(8):
                os.pwrite(file.fileno(), bytes([byte ^ 1 << bit]), place)
                with pytest.raises(DamagedSnapshot):
                    read_snapshot(path)
            os.pwrite(file.fileno(), bytes([byte]), place)
    assert read_snapshot(path).step == 8


def test_truncation_at_any_length_is_detected(path):
    content = whole_file()
    path.write_bytes(content)
    for length in reversed(range(len(content))):
        os.truncate(path, length)
        with pytest.raises(DamagedSnapshot):
            read_snapshot(path)


@pytest.mark.parametrize("tail", [b"\0", b"x" * 5000])
def test_bytes_behind_the_end_are_detected(path, tail):
    path.write_bytes(whole_file() + tail)
    with pytest.raises(DamagedSnapshot, match="bytes"):
        read_snapshot(path)


def test_exchanged_halves_and_zeroed_pages_are_detected(path):
    content = whole_file()
    middle = len(content) // 2
    for damaged in (
        content[middle:] + content[:middle],
        content[:SIZE] + bytes(len(content) - SIZE),
        content[:-24] + bytes(24),
        bytes(len(content)),
    ):
        path.write_bytes(damaged)
        with pytest.raises(DamagedSnapshot):
            read_snapshot(path)


def test_message_names_the_file_and_the_array(path):
    content = bytearray(whole_file())
    seal = parse_seal(bytes(content[:SIZE]))
    assert seal is not None
    content[seal.manifest_end + len('{"a": 1}') + 3] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedSnapshot) as caught:
        read_snapshot(path)
    message = str(caught.value)
    assert repr(str(path)) in message
    assert "weights['a/kernel']" in message
    assert "\n" not in message
    assert (caught.value.path, "crc32" in caught.value.reason) == (str(path), True)


def test_a_path_that_is_no_file_is_refused(tmp_path):
    with pytest.raises(SnapshotNotFound, match="Received: path="):
        read_snapshot(tmp_path / "none.h5")
    with pytest.raises(DamagedSnapshot, match="not a regular file"):
        read_snapshot(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DamagedSnapshot, match="not a regular file"):
        read_snapshot(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(StorageError, match="Received: path="):
        read_snapshot(tmp_path / "loop")


@pytest.mark.parametrize("content", [b"", b"\x89HDF\r\n\x1a\n", b"A snapshot", b"\n" * 600])
def test_a_file_of_another_kind_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(DamagedSnapshot):
        read_snapshot(path)


def test_plain_hdf5_is_not_a_snapshot(path):
    with h5py.File(path, "w") as file:
        file["weights/x"] = np.ones(3)
    with pytest.raises(NotASnapshot, match=r"it begins .*HDF.*, which no snapshot does"):
        read_snapshot(path)


@settings(max_examples=200)
@given(st.binary(max_size=2000))
def test_random_bytes_are_refused(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "random.h5"
    path.write_bytes(content)
    with pytest.raises(DamagedSnapshot):
        read_snapshot(path)
