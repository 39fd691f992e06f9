"""Reading the HIGGS data: the UCI file HIGGS.csv.gz, or four arrays in an HDF5 file."""

import argparse
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
from course import higgs_simulation
from course.higgs_features import FEATURES

import matex
import matex.data

ARRAYS = ("x_train", "y_train", "x_test", "y_test")
UCI_TEST_ROWS = 500_000


class DataError(ValueError):
    """The data cannot be used; the message is one line with what was wanted and received."""


class Split(NamedTuple):
    """Features (n, 28) and labels (n,) in {0, 1} to train and to test on, all float32."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def load(args: argparse.Namespace) -> Split:
    """Standardised events of --data, or --events simulated ones."""
    if args.data is None:
        print(f"No --data: simulating {args.events:,} events ...", flush=True)
        split = hold_out(*higgs_simulation.simulate(args.events, seed=args.seed))
    else:
        split = read(args.data)
    counts = f"{len(split.x_train):,} events to train on, {len(split.x_test):,} to test on"
    print(counts, flush=True)
    return standardise(split)


def held_out_rows(rows: int) -> int:
    """Number of `rows` to keep for the test: UCI's last 500,000, but at most a tenth."""
    return min(UCI_TEST_ROWS, max(1, rows // 10))


def hold_out(x: np.ndarray, y: np.ndarray) -> Split:
    """Keep the last part for the test. The parts are views.

    Raises DataError for fewer than two rows.
    """
    if len(x) < 2:
        raise DataError(f"Training and test together need 2 rows or more. Received: rows={len(x)}.")
    rows = len(x) - held_out_rows(len(x))
    return Split(x[:rows], y[:rows], x[rows:], y[rows:])


def standardise(data: Split) -> Split:
    """Shift and scale every feature by its mean and standard deviation in the training part."""
    mean = data.x_train.mean(axis=0, dtype=np.float64)
    # In slices, because a float64 copy of the whole UCI file is 2.4 GB.
    slices = np.array_split(data.x_train, 1 + len(data.x_train) // 100_000)
    square = sum(((part - mean) ** 2).sum(axis=0) for part in slices)
    deviation = np.sqrt(square / len(data.x_train))
    deviation[deviation == 0] = 1.0  # a constant feature stays at zero
    x_train, x_test = (x - mean.astype(np.float32) for x in (data.x_train, data.x_test))
    x_train /= deviation.astype(np.float32)
    x_test /= deviation.astype(np.float32)
    return data._replace(x_train=x_train, x_test=x_test)


def read(path: Path) -> Split:
    """Read `path`: .csv or .csv.gz without a header (label first), or HDF5 by any name.

    HDF5 needs the arrays x_train, y_train, x_test, y_test. Raises DataError if the file is missing
    or unreadable, or if arrays, columns, rows or labels are not as expected.
    """
    if not path.is_file():
        raise DataError(f"--data wants an existing file. Received: {path}.")
    name = path.name.lower()
    try:
        if h5py.is_hdf5(path):
            return _read_hdf5(path)
        if name.endswith((".csv", ".csv.gz")):
            return _read_csv(path)
    except OSError as error:
        raise DataError(f"--data wants a readable file. Received: {path}: {error}") from error
    raise DataError(
        f"--data wants a .csv or .csv.gz file (label and 28 features), or an HDF5 file with "
        f"{', '.join(ARRAYS)}. Received: {path}, which is neither."
    )


def _read_csv(path: Path) -> Split:
    try:
        with matex.data.open(path, format="csv", header=False) as events:
            x, y = np.asarray(events.x), np.asarray(events.y)
    except matex.DataError as error:
        raise DataError(str(error)) from error
    if x.shape[1] != len(FEATURES):
        raise DataError(
            f"{path} must have one label and {len(FEATURES)} numbers a line and no header. "
            f"Received: {1 + x.shape[1]} columns."
        )
    _check_labels(y, str(path))
    return hold_out(x, y)


def _read_hdf5(path: Path) -> Split:
    with h5py.File(path, "r") as file:
        missing = [name for name in ARRAYS if not isinstance(file.get(name), h5py.Dataset)]
        if missing:
            raise DataError(
                f"{path} must have the arrays {', '.join(ARRAYS)}. Received: "
                f"{', '.join(sorted(file)) or 'no array'}; missing: {', '.join(missing)}."
            )
        return Split(
            _features(file, "x_train"),
            _labels(file, "y_train", len(file["x_train"])),
            _features(file, "x_test"),
            _labels(file, "y_test", len(file["x_test"])),
        )


def _features(file: h5py.File, name: str) -> np.ndarray:
    array = file[name]
    shape, wanted = array.shape, len(FEATURES)
    if array.dtype.kind not in "fiub" or len(shape) != 2 or shape[1] != wanted or not shape[0]:
        raise DataError(
            f"{file.filename}: {name} must be numbers of shape (rows, {wanted}), one row at least. "
            f"Received: shape={shape}, dtype={array.dtype}."
        )
    x: np.ndarray = array[:].astype(np.float32, copy=False)
    return x


def _labels(file: h5py.File, name: str, rows: int) -> np.ndarray:
    array = file[name]
    if array.dtype.kind not in "fiub" or array.shape not in ((rows,), (rows, 1)):
        raise DataError(
            f"{file.filename}: {name} must be numbers of shape ({rows},) like its features. "
            f"Received: shape={array.shape}, dtype={array.dtype}."
        )
    y: np.ndarray = array[:].reshape(rows).astype(np.float32)
    _check_labels(y, f"{file.filename}: {name}")
    return y


def _check_labels(y: np.ndarray, where: str) -> None:
    strange = y[(y != 0) & (y != 1)]
    if strange.size:
        raise DataError(f"{where} must have the labels 0 and 1. Received: {strange[0]:g}.")
