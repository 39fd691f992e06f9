"""Rows: they index like arrays, map read-only, and are taken by fit as they are."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matex.data.arrays import ClassWeights, Table, as_table
from matex.data.hdf5 import Hdf5Rows
from matex.data.mapped import MappedFile
from matex.data.rows import Memory, RowRange, Rows, runs
from matex.data.source import Data
from matex.errors import InputError, Unsupported

VALUES = np.arange(60, dtype=np.float32).reshape(10, 3, 2)


@pytest.fixture
def mapped(tmp_path: Path) -> Rows:
    path = tmp_path / "values.raw"
    path.write_bytes(b"head" + VALUES.astype(">f4").tobytes())
    path.chmod(0o444)
    return MappedFile(path).array("values", VALUES.shape, ">f4", offset=4)


KEYS = [
    0, -1, slice(None), slice(2, 7), slice(8, 1, -3), slice(5, 5), [3, 1, -2], [],
    np.array([0, 9]), np.arange(10) % 3 == 0, (4, 1), (slice(2, 4), 2, 1), ([1, 5], 0), ...,
    (..., 1), np.int64(3),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=repr)
@pytest.mark.parametrize("kind", ["memory", "mapped", "part"])
def test_rows_index_like_arrays(kind: str, key: Any, mapped: Rows) -> None:
    around = np.concatenate([VALUES[:2], VALUES, VALUES[:1]])
    rows = {"memory": Memory(VALUES), "mapped": mapped, "part": RowRange(Memory(around), 2, 12)}[
        kind
    ]
    found = rows[key]
    assert np.array_equal(found, VALUES[key])
    assert found.dtype == np.float32
    assert found.dtype.isnative


@pytest.mark.parametrize("key", [10, -11, [3, 10]], ids=repr)
def test_rows_that_are_not_there(key: Any, mapped: Rows) -> None:
    with pytest.raises(IndexError, match=r"below 10. Received: "):
        mapped[key]


def test_rows_look_like_an_array_to_keras(mapped: Rows) -> None:
    assert (len(mapped), mapped.ndim, mapped.size) == (10, 3, 60)
    assert np.array_equal(np.asarray(mapped), VALUES)
    assert np.asarray(mapped, np.float64).dtype == np.float64
    assert np.array_equal(np.stack(list(mapped)), VALUES)
    with pytest.raises(ValueError, match=r"copying only"):
        np.asarray(mapped, copy=False)


def test_a_mapped_file_that_is_too_short_names_the_row(tmp_path: Path) -> None:
    path = tmp_path / "short.raw"
    path.write_bytes(bytes(100))
    with pytest.raises(InputError, match=r"short.raw must have 240 bytes.*cut short at row 4"):
        MappedFile(path).array("values", VALUES.shape, ">f4", offset=0)


@pytest.mark.parametrize(("lo", "hi"), [(-1, 3), (3, 3), (0, 11)])
def test_a_part_is_of_rows_that_exist(lo: int, hi: int) -> None:
    with pytest.raises(InputError, match=rf"Received: \[{lo}, {hi}\)"):
        RowRange(Memory(VALUES), lo, hi)


@given(st.lists(st.integers(0, 30)).map(sorted))
def test_runs_cover_the_numbers_and_no_others(numbers: list[int]) -> None:
    found = runs(np.array(numbers, np.int64))
    assert [n for _, lo, hi in found for n in range(lo, hi)] == sorted(set(numbers))
    assert all(numbers[place] == lo for place, lo, _ in found)
    assert all(a[2] < b[1] for a, b in itertools.pairwise(found))


# ---------------------------------------------------------------- what fit takes


def test_a_table_is_used_as_it_is(mapped: Rows) -> None:
    assert as_table(mapped, "x") is mapped
    assert isinstance(mapped, Table)


def test_floating_point_is_read_as_floatx(tmp_path: Path) -> None:
    double = Memory(VALUES.astype(np.float64))
    table = as_table(double, "x")
    assert table.dtype == table.rows(np.array([1])).dtype == np.float32
    assert as_table(double, "x", floatx="float64") is double
    assert not table.costly


def test_costs_are_passed_on(mapped: Rows) -> None:
    assert mapped.costly
    assert as_table(mapped, "x", floatx="float64").costly
    assert ClassWeights(mapped, {0: 1.0}, np.dtype(np.float32)).costly
    assert not as_table(VALUES, "x").costly
    assert not RowRange(Memory(VALUES), 0, 3).costly


def test_arrays_and_data_sets_become_tables(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["x"] = VALUES
        table = as_table(file["x"], "x")
        assert isinstance(table, Hdf5Rows)
        assert np.array_equal(table.rows(np.array([7, 2])), VALUES[[7, 2]])
    table = as_table(VALUES[::2], "x")
    assert np.array_equal(table.rows(np.array([1])), VALUES[[2]])


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        ([1, 2], Unsupported, "wants x as a NumPy array.*x=builtins.list"),
        (np.array(["a"]), Unsupported, "x of numbers.*dtype=<U1"),
        (np.float32(1), InputError, r"at least one row. Received: shape \(\)"),
        (np.empty((0, 3)), InputError, r"Received: shape \(0, 3\)"),
    ],
)
def test_what_is_no_table(source: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        as_table(source, "x")


# ---------------------------------------------------------------- an open file


def data(**members: np.ndarray) -> Data:
    return Data(Path("some.h5"), "hdf5", {name: Memory(rows) for name, rows in members.items()})


def test_members_by_name_and_by_attribute() -> None:
    some = data(x=VALUES, y=VALUES[:, 0, 0])
    assert some.x is some["x"]
    assert list(some) == ["x", "y"]
    with pytest.raises(AttributeError, match=r"some.h5 has x, y. Received: z"):
        _ = some.z
    with pytest.raises(KeyError, match=r"some.h5 has x, y"):
        _ = some["z"]


def test_a_split_keeps_the_end_for_the_test() -> None:
    train, test = data(x=VALUES, y=VALUES[:, 0, 0]).split(3)
    assert np.array_equal(train.x, VALUES[:7])
    assert np.array_equal(test.y, VALUES[7:, 0, 0])
    for rows in (0, 10):
        with pytest.raises(InputError, match=f"both sides of 10. Received: {rows}"):
            data(x=VALUES).split(rows)
    with pytest.raises(InputError, match=r"same number of rows"):
        data(x=VALUES, y=VALUES[:4]).split(1)
