"""HDF5 by rows: the right ones, few bytes, no lock, and damage named."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.patience import patience
from matex import data
from matex.data.hdf5 import Hdf5Rows
from matex.errors import InputError

ROOT = Path(data.__file__).parents[2]
LAYOUTS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": (7, 3)},
    "gzip": {"chunks": (16, 5), "compression": "gzip", "shuffle": True},
    "one chunk": {"chunks": (100, 5), "compression": "lzf"},
}
VALUES = np.random.default_rng(0).normal(size=(100, 5))


@pytest.fixture(scope="module", params=LAYOUTS)
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hdf5") / "data.h5"
    with h5py.File(path, "w", userblock_size=512) as file:
        file.create_dataset("group/x", data=VALUES.astype(">f4"), **LAYOUTS[request.param])
        file["y"] = VALUES[:, 0] > 0
        file["words"] = "not numbers"
    path.chmod(0o444)
    return path


@given(st.lists(st.integers(0, 99), max_size=40))
def test_rows_come_in_the_order_asked_for(stored: Path, wanted: list[int]) -> None:
    indices = np.array(wanted, np.int64)
    with data.open(stored) as opened:
        x = opened["group/x"]
        assert np.array_equal(x.rows(indices), VALUES.astype(np.float32)[indices])
        assert np.array_equal(opened.y.rows(indices), VALUES[indices, 0] > 0)
        assert "words" not in opened


def test_a_small_cache_changes_nothing(stored: Path) -> None:
    with h5py.File(stored, "r") as file:
        rows = Hdf5Rows(file["group/x"], cache_bytes=1)
        indices = np.random.default_rng(1).permutation(100)
        assert np.array_equal(rows.rows(indices), VALUES.astype(np.float32)[indices])


def test_a_file_that_another_process_has_locked_can_be_read(stored: Path) -> None:
    with stored.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with data.open(stored) as opened:
            assert len(opened.y) == 100


def test_what_is_being_written_is_not_mapped(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["x"] = VALUES
        assert np.array_equal(Hdf5Rows(file["x"]), VALUES)


# ---------------------------------------------------------------- bytes, counted by the system

# Reads a quarter of the rows and prints what the system says it read and fetched for that.
COUNT = """
import sys
import numpy as np
from matex import data

def counted():
    lines = dict(line.split(": ") for line in open("/proc/self/io").read().splitlines())
    return int(lines["rchar"]), int(lines["read_bytes"])

path, part = sys.argv[1], int(sys.argv[2])
x = data.open(path).x
share = np.arange(part * len(x) // 4, (part + 1) * len(x) // 4)
asked, fetched = counted()
for step in np.array_split(share, 16):
    x.rows(np.random.default_rng(0).permutation(step))
print(*(now - before for now, before in zip(counted(), (asked, fetched))))
"""


def forget(path: Path) -> None:
    """Take the file out of the system's memory, so that reading it is counted."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.mark.parametrize("layout", ["contiguous", "gzip"])
def test_each_of_four_readers_reads_a_quarter(layout: str, tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 200, (4096, 1024), np.uint8)
    path = tmp_path / "data.h5"
    how = {} if layout == "contiguous" else {"chunks": (64, 1024), "compression": "gzip"}
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=values, **how)
    total = path.stat().st_size
    found = []
    for part in range(4):
        forget(path)
        done = subprocess.run(
            [sys.executable, "-c", COUNT, str(path), str(part)],
            cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
            capture_output=True, text=True, timeout=patience(60), check=True,
        )  # fmt: skip
        # What is mapped is not read by calls: there the disk's bytes count.
        found.append(int(done.stdout.split()[layout == "contiguous"]))
    if layout == "contiguous" and not all(found):  # some were of a library, read late
        pytest.skip("this file system does not count what is fetched from it")
    assert all(0.2 * total < one < 0.3 * total for one in found), (found, total)


# ---------------------------------------------------------------- files that are not whole


def test_a_file_cut_short(stored: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.h5"
    path.write_bytes(stored.read_bytes()[:-300])
    with pytest.raises(InputError, match=r"cut.h5 must be a whole HDF5 file. Received: .*trunc"):
        data.open(path)


def test_a_damaged_chunk_names_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "bad.h5"
    with h5py.File(path, "w") as file:
        x = file.create_dataset("x", data=VALUES, chunks=(10, 5), compression="gzip")
        place = x.id.get_chunk_info(3).byte_offset
    content = bytearray(path.read_bytes())
    content[place : place + 40] = bytes(40)
    path.write_bytes(content)
    with data.open(path) as opened:
        assert np.array_equal(opened.x[:30], VALUES[:30])
        with pytest.raises(InputError, match=r"bad.h5: /x must be readable.*rows 30 to 39"):
            opened.x[35]


def test_without_rows_of_numbers(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "empty.h5", "w") as file:
        file["name"] = "none"
    with pytest.raises(InputError, match=r"at least one row. Received: name"):
        data.open(tmp_path / "empty.h5")
