"""``matex data``: info and convert, whole or not at all, in little memory."""

from __future__ import annotations

import fcntl
import gzip
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

import matex
from ci.patience import patience
from matex import data
from matex.cli import data as data_cli
from matex.cli import main
from matex.data.convert import convert
from matex.data.formats import FORMATS
from matex.errors import InputError

ROOT = Path(matex.__file__).parents[1]
VALUES = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)


def write_csv(path: Path, header: str = "") -> Path:
    lines = "".join(",".join(repr(float(v)) for v in row) + "\n" for row in VALUES)
    raw = (header + lines).encode()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


@pytest.mark.parametrize("name", ["events.csv", "events.csv.gz"])
def test_csv_becomes_contiguous_hdf5(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = write_csv(tmp_path / name, "l,a,b,c\n"), tmp_path / "events.h5"
    assert main(["data", "convert", str(source), str(target), "--test-rows", "50"]) == 0
    assert f"{target}: 300 rows" in capsys.readouterr().out
    with h5py.File(target, "r") as file:
        assert sorted(file) == ["x_test", "x_train", "y_test", "y_train"]
        assert all(file[member].chunks is None for member in file)
        assert np.array_equal(file["x_train"], VALUES[:250, 1:])
        assert np.array_equal(file["y_test"], VALUES[250:, 0])
        assert list(file.attrs["columns"]) == ["a", "b", "c"]
        assert file.attrs["source"] == name
    assert {path.name for path in tmp_path.iterdir()} == {name, "events.h5"}


def test_a_fraction_a_label_and_a_type(tmp_path: Path) -> None:
    source, target = write_csv(tmp_path / "a.csv"), tmp_path / "a.h5"
    words = ["--label-last", "--test-fraction", "0.1", "--dtype", "float64"]
    assert main(["data", "convert", str(source), str(target), *words]) == 0
    with data.open(target) as opened:
        assert opened.x_test.dtype == np.float64
        assert np.array_equal(opened.y_test, VALUES[270:, 3])


def test_any_format_is_converted(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file.create_dataset("x", data=VALUES, chunks=(16, 4), compression="gzip")
        file.create_dataset("y", data=np.arange(300))
    target = tmp_path / "out.h5"
    assert main(["data", "convert", str(tmp_path / "in.h5"), str(target)]) == 0
    with data.open(target) as opened:
        assert np.array_equal(opened.x, VALUES)
        assert opened.y.dtype == np.int64
        assert opened.notes["x"] == "contiguous, mapped"


def test_ten_thousand_named_columns(tmp_path: Path) -> None:
    names = [f"measured at place {number}" for number in range(10_000)]
    text = ",".join(["y", *names]) + "\n" + ",".join(["1"] * 10_001) + "\n"
    (tmp_path / "wide.csv").write_text(text)
    assert main(["data", "convert", str(tmp_path / "wide.csv"), str(tmp_path / "wide.h5")]) == 0
    with h5py.File(tmp_path / "wide.h5") as file:
        assert file["columns"].asstr()[:].tolist() == names
        assert file["x"].shape == (1, 10_000)


def test_info_says_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_csv(tmp_path / "a.csv.gz", "l,a,b,c\n")
    assert main(["data", "info", str(source), "--label", "b"]) == 0
    text = capsys.readouterr().out
    for word in ("CSV text", "300 x 3", "float32", "column 2 (b)", "columns: l, a, c", "gzip"):
        assert word in text


def test_nothing_is_overwritten_unless_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = write_csv(tmp_path / "a.csv"), tmp_path / "a.h5"
    target.write_text("precious")
    command = ["data", "convert", str(source), str(target)]
    with pytest.raises(SystemExit, match="2"):
        main(command)
    assert "which exists; give --force to replace it" in capsys.readouterr().err
    assert target.read_text() == "precious"
    assert main([*command, "--force"]) == 0
    assert data.open(target).x.shape == (300, 3)


def test_a_file_that_breaks_half_way_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_csv(tmp_path / "a.csv")
    source.write_text(source.read_text() + "1,2,3,four\n")
    with pytest.raises(SystemExit, match="2"):
        main(["data", "convert", str(source), str(tmp_path / "a.h5")])
    (line,) = capsys.readouterr().err.splitlines()
    assert "'four' in row 300, column 3" in line
    assert line.startswith("matex data convert: ")
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_what_a_killed_conversion_left_is_removed(tmp_path: Path) -> None:
    source, target = write_csv(tmp_path / "a.csv"), tmp_path / "a[1].h5"
    left, running = (tmp_path / f".a[1].h5.{process}.partial" for process in (1, 2))
    left.touch()
    with running.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with data.open(source) as opened:
            convert(opened, target)
        assert {*tmp_path.iterdir()} == {source, target, running}


def test_no_room_is_known_before_the_first_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = data.open(write_csv(tmp_path / "a.csv"))
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=10))
    with pytest.raises(InputError, match=r"needs 0 MiB. Received: 0 MiB free"):
        convert(source, tmp_path / "a.h5")
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


BAD = {
    "no action": (["data"], "action"),
    "no such file": (["data", "info", "none.csv"], "existing file or folder"),
    "not named .h5": (["data", "convert", "a.csv", "out.csv"], "named .h5 or .hdf5"),
    "no folder": (["data", "convert", "a.csv", "there/out.h5"], "existing folder is wanted"),
    "both parts": (
        ["data", "convert", "a.csv", "o.h5", "--test-rows", "1", "--test-fraction", "0.5"],
        "not allowed with",
    ),
    "all for the test": (
        ["data", "convert", "a.csv", "o.h5", "--test-rows", "300"],
        "the test part must leave rows on both sides of 300",
    ),
    "fraction 2": (["data", "convert", "a.csv", "o.h5", "--test-fraction", "2"], "0 and 1"),
    "no rows": (["data", "convert", "a.csv", "o.h5", "--test-rows", "0"], "at least 1"),
    "another format": (
        ["data", "convert", "a.csv", "o.h5", "--format", "idx"],
        "rename it, or give the format 'csv'",
    ),
    "size in words": (["data", "info", "a.csv", "--size", "big"], "HxW, as 224x224"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_line(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words, said = BAD[case]
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "a.csv")
    with pytest.raises(SystemExit, match="2"):
        main(words)
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_the_command_line_knows_every_format() -> None:
    """It lists them itself, so that bad input is told before anything heavy is imported."""
    assert tuple(FORMATS) == data_cli.FORMATS


PEAK = """
import sys
from matex.cli import main
status = main(sys.argv[1:])
lines = open("/proc/self/status").read().splitlines()  # getrusage counts the parent's peak too
peak_mb = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024
print(status, peak_mb, "tensorflow" in sys.modules)
"""


def test_memory_does_not_grow_with_the_file(
    tmp_path: Path, real_data: Callable[[str], Path]
) -> None:
    """100 MB of events, packed; a gigabyte takes as much."""
    events = gzip.decompress(real_data("raw/HIGGS_20k.csv.gz").read_bytes())
    source = tmp_path / "events.csv.gz"
    with gzip.open(source, "wb", compresslevel=1) as file:
        for _ in range(7):
            file.write(events)
    done = subprocess.run(
        [sys.executable, "-c", PEAK, "data", "convert", source, tmp_path / "events.h5"],
        cwd=tmp_path, env={"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=patience(60), check=True,
    )  # fmt: skip
    status, peak_mb, with_tensorflow = done.stdout.splitlines()[-1].split()
    assert (status, with_tensorflow) == ("0", "False")
    assert int(peak_mb) < 250
    with data.open(tmp_path / "events.h5") as opened:
        assert opened.x.shape == (140_000, 28)
