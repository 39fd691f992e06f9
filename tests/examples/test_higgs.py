"""Reading the HIGGS data: both formats, the held-out part, and one clear line for bad input."""

from __future__ import annotations

import gzip
import importlib
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import h5py
import numpy as np
import pytest

from ci.patience import patience

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCRIPT = EXAMPLES / "01_higgs.py"


@pytest.fixture(autouse=True)
def neighbours(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The examples import each other as scripts in one folder do."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield


@pytest.fixture
def data(neighbours: None) -> ModuleType:
    return importlib.import_module("course.higgs")


def sample(rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rows)
    x = rng.normal(3.0, 2.0, (rows, 28)).astype(np.float32)
    return x, rng.integers(0, 2, rows).astype(np.float32)


def write_csv(path: Path, x: np.ndarray, y: np.ndarray) -> Path:
    """Write a CSV file like UCI's: 18 decimals, label first."""
    np.savetxt(path, np.column_stack([y, x]), delimiter=",", fmt="%.18e")
    return path


def write_hdf5(path: Path, **arrays: object) -> Path:
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file.create_dataset(name, data=values)
    return path


def good_arrays() -> dict[str, np.ndarray]:
    (x_train, y_train), (x_test, y_test) = sample(40), sample(10)
    return {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}


# ---------------------------------------------------------------- what can be read


@pytest.mark.parametrize("name", ["HIGGS.csv.gz", "higgs.csv", "HIGGS.CSV.GZ"])
def test_csv_is_read_exactly_and_its_end_held_out(
    data: ModuleType, tmp_path: Path, name: str
) -> None:
    x, y = sample(57)
    path = tmp_path / name
    plain = write_csv(tmp_path / "plain.txt", x, y).read_bytes()
    path.write_bytes(gzip.compress(plain) if name.lower().endswith("gz") else plain)
    split = data.read(path)
    assert [len(part) for part in split] == [52, 52, 5, 5]
    assert all(part.dtype == np.float32 for part in split)
    assert np.array_equal(np.concatenate([split.x_train, split.x_test]), x)
    assert np.array_equal(np.concatenate([split.y_train, split.y_test]), y)


@pytest.mark.parametrize(
    ("label_type", "label_shape"), [(np.uint8, (-1,)), (np.float64, (-1, 1)), (bool, (-1,))]
)
def test_hdf5_is_read_whatever_the_types(
    data: ModuleType, tmp_path: Path, label_type: type, label_shape: tuple[int, ...]
) -> None:
    arrays = good_arrays()
    stored = {
        k: v.astype(np.float64 if k.startswith("x") else label_type) for k, v in arrays.items()
    }
    stored = {k: v if k.startswith("x") else v.reshape(label_shape) for k, v in stored.items()}
    split = data.read(write_hdf5(tmp_path / "any-name", **stored, extra=np.zeros(3)))
    for name, values in arrays.items():
        part = getattr(split, name)
        assert part.dtype == np.float32
        assert np.array_equal(part, values)


@pytest.mark.parametrize(
    ("rows", "held_out"),
    [(2, 1), (19, 1), (20, 2), (1_000_000, 100_000), (5_000_000, 500_000), (11_000_000, 500_000)],
)
def test_the_held_out_part_is_uci_s_or_a_tenth(data: ModuleType, rows: int, held_out: int) -> None:
    assert data.held_out_rows(rows) == held_out


def test_standardise_uses_the_training_part_alone(data: ModuleType) -> None:
    x, y = sample(250_000 // 28)
    x[:, 5] = 7.0
    raw = data.hold_out(x, y)
    before = raw.x_train.copy()
    split = data.standardise(raw)
    varying = np.arange(28) != 5
    assert split.x_train.dtype == split.x_test.dtype == np.float32
    assert split.x_train.mean(axis=0) == pytest.approx(0, abs=1e-4)
    assert split.x_train.std(axis=0)[varying] == pytest.approx(1, abs=1e-4)
    assert (split.x_train[:, 5] == 0).all()
    expected = (raw.x_test - before.mean(axis=0)) / np.where(varying, before.std(axis=0), 1)
    assert split.x_test == pytest.approx(expected, abs=1e-4)
    assert np.array_equal(raw.x_train, before), "the raw data stay as they are"


def test_standardise_sums_all_slices(data: ModuleType) -> None:
    x = np.tile(np.float32([0, 0, 0, 4]), 62_500)[:, None] * np.ones(28, np.float32)
    split = data.standardise(data.Split(x, x[:, 0], x[:4], x[:4, 0]))
    assert split.x_test[:, 0] == pytest.approx(np.array([-1, -1, -1, 3]) / np.sqrt(3), abs=1e-5)


def test_higgs_is_read_from_hdf5(data: ModuleType, real_data: Callable[[str], Path]) -> None:
    split = data.read(real_data("higgs.h5"))
    assert split.x_train.shape == (45_000, 28)
    assert split.x_test.shape == (6233, 28)
    assert 0.5 < split.y_train.mean() < 0.56
    assert split.x_train.mean() == pytest.approx(np.mean(split.x_test), abs=0.02)


def test_higgs_is_read_from_csv(data: ModuleType, real_data: Callable[[str], Path]) -> None:
    split = data.read(real_data("raw/HIGGS_20k.csv.gz"))
    assert [len(part) for part in split] == [18_000, 18_000, 2000, 2000]
    assert split.x_train[0, 0] == pytest.approx(1.092564344406127930)
    assert 0.5 < split.y_train.mean() < 0.56


# ---------------------------------------------------------------- what cannot


def without(name: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        arrays = good_arrays()
        del arrays[name]
        return write_hdf5(folder / "data.h5", **arrays)

    return write


def replaced(name: str, values: object) -> Callable[[Path], Path]:
    return lambda folder: write_hdf5(folder / "data.h5", **{**good_arrays(), name: values})


def csv_text(text: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / "data.csv"
        path.write_text(text)
        return path

    return write


def csv_bytes(change: Callable[[bytes], bytes], name: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = write_csv(folder / "good.csv", *sample(2000))
        bad = folder / name
        bad.write_bytes(change(path.read_bytes()))
        return bad

    return write


LINE = ",".join(["1"] + ["0.5"] * 28) + "\n"
NOISE = np.random.default_rng(0).bytes(2000)
BAD_FILES = {
    "absent": (lambda folder: folder / "nowhere.h5", "existing file. Received: .*nowhere.h5"),
    "folder": (lambda folder: folder, "existing file. Received: "),
    "no array": (
        lambda folder: write_hdf5(folder / "data.h5"),
        "Received: no array; missing: x_tr",
    ),
    "array missing": (without("y_test"), "x_train, y_train, x_test, y_test.*missing: y_test"),
    "27 columns": (
        replaced("x_train", np.zeros((9, 27))),
        r"x_train.*28.*Received: shape=\(9, 27\)",
    ),
    "images": (replaced("x_test", np.zeros((9, 28, 28))), r"x_test.*shape=\(9, 28, 28\)"),
    "no rows": (replaced("x_test", np.zeros((0, 28))), r"one row.*shape=\(0, 28\)"),
    "scalar": (replaced("x_train", 1.0), r"x_train.*shape=\(\)"),
    "words": (replaced("y_train", [b"signal"] * 40), r"y_train must be numbers.*dtype=object"),
    "too few labels": (replaced("y_train", np.zeros(39)), r"\(40,\).*Received: shape=\(39,\)"),
    "label 2": (replaced("y_test", np.full(10, 2)), "y_test must have the labels 0 and 1.*2"),
    "HDF5 cut short": (
        lambda folder: cut(replaced("x_train", np.zeros((40, 28)))(folder)),
        "readable file. Received: .*data.h5",
    ),
    "noise as HDF5": (lambda folder: save(folder / "data.h5", NOISE), "which is neither"),
    "other suffix": (lambda folder: save(folder / "data.npy", b"1"), "HDF5.*which is neither"),
    "csv of 3 columns": (csv_text("1,2,3\n" * 30), "28 numbers a line.*Received: 3 columns"),
    "csv with a header": (
        csv_text("label" + ",a" * 28 + "\n" + LINE),
        "numbers only.*Received: 'label' in row 0",
    ),
    "csv ragged": (
        csv_text(LINE * 5 + "1,2\n" + LINE),
        "29 values in every row.*Received: 2 in row 5",
    ),
    "csv with a gap": (
        csv_text(LINE + LINE.replace("0.5", "", 1)),
        "Received: '' in row 1, column 1",
    ),
    "csv empty": (csv_text(""), "an empty file"),
    "csv of one row": (csv_text(LINE), "2 rows or more. Received: rows=1"),
    "csv label 3": (csv_text(LINE * 3 + "3" + LINE[1:]), "labels 0 and 1. Received: 3"),
    "csv of noise": (
        lambda folder: save(folder / "data.csv", NOISE),
        "must be CSV text. Received: a format that is not known",
    ),
    "gz that is not": (csv_bytes(bytes, "bad.csv.gz"), "bad.csv.gz must be gzip, as its name says"),
    "gz cut short": (
        csv_bytes(lambda text: gzip.compress(text)[:-500], "bad.csv.gz"),
        "bad.csv.gz must be readable to its end",
    ),
    "gz damaged": (
        csv_bytes(lambda text: gzip.compress(text)[:600] + NOISE, "bad.csv.gz"),
        "Received: ",
    ),
}


def save(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def cut(path: Path) -> Path:
    return save(path, path.read_bytes()[:-3000])


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_are_named_in_one_line(data: ModuleType, tmp_path: Path, name: str) -> None:
    write, message = BAD_FILES[name]
    path = write(tmp_path)
    with pytest.raises(data.DataError, match=message) as caught:
        data.read(path)
    assert "\n" not in str(caught.value)
    assert "Received: " in str(caught.value)
    assert str(path) in str(caught.value) or "rows=1" in str(caught.value)


# ---------------------------------------------------------------- the script


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "nowhere.csv.gz"], "existing file or folder. Received: nowhere.csv.gz"),
        (["--epochs", "0"], "--epochs: wants a whole number of at least 1. Received: 0"),
        (["--events", "many"], "--events: wants a whole number of at least 1. Received: many"),
        (["--events", "1"], "2 rows or more. Received: rows=1"),
        (["--learning-rate", "-1"], "--learning-rate: wants a number above 0. Received: -1"),
        (["--seed", "4294967296"], "--seed: wants a whole number below 2^32. Received: 4294967296"),
        (["--bogus"], "unrecognized arguments: --bogus"),
    ],
)
def test_the_script_ends_with_one_line_and_status_2(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    run = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=patience(60),
        check=False,
    )
    assert run.returncode == 2
    assert message in run.stderr
    assert run.stderr.startswith("01_higgs.py: ")
    assert run.stderr.count("\n") == 1, run.stderr


def test_run_by_another_program_it_still_ends_with_status_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--data", "nowhere.h5"])
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert caught.value.code == 2
    assert capsys.readouterr().err == (
        "01_higgs.py: --data wants an existing file or folder. Received: nowhere.h5.\n"
    )


def test_the_script_knows_nothing_of_mpi() -> None:
    words = set(re.findall("[a-z0-9]+", SCRIPT.read_text().lower()))
    assert "keras" in words
    assert words & {"mpi", "mpi4py", "matex", "rank", "ranks", "ft", "horovod"} == set()
