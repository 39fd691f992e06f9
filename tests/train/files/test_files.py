"""A script's work with files has the effects of plain Python, on every rank and on the disk."""

from __future__ import annotations

import bz2
import gzip
import json
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import h5py
import pytest

from tests import slow
from tests.train.runs import SCRIPTS, execute, matex_run

SCRIPT = SCRIPTS / "file_cases.py"


def prepare(folder: Path) -> Path:
    """Make the files that are there before the run."""
    (folder / "olddir").mkdir(parents=True)
    (folder / "report").mkdir()  # where matex_run has it
    (folder / "olddir" / "was").write_text("x")
    (folder / "old.txt").write_text("hello\n")
    (folder / "count.json").write_text("3")
    return folder


def tree(folder: Path) -> dict[str, str | None]:
    """Names, and the content of text files; others differ by the times in them."""
    texts = (".txt", ".json", ".csv")
    return {
        _stable(path.relative_to(folder)): path.read_text() if path.suffix in texts else None
        for path in sorted(folder.rglob("*"))
        if "report" not in path.relative_to(folder).parts[0] and "hist.csv" not in path.name
    }


def _stable(path: Path) -> str:
    return str(path.parent / "events") if "tfevents" in path.name else str(path)


def results(text: str) -> Any:
    return json.loads(text[text.index("{\n") :].partition("\n}\n")[0] + "\n}")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, dict[str, str | None]]:
    folder = prepare(tmp_path_factory.mktemp("plain") / "run")
    done = execute([sys.executable, SCRIPT, folder.parent], directory=folder)
    assert done.returncode == 0, done.stderr
    return results(done.stdout), tree(folder)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("ranks", "killed"), [(2, ""), (3, "ckpt"), *slow.all_but([], [(4, ""), (2, "zips")])]
)
def test_as_in_plain_python(
    ranks: int, killed: str, plain: tuple[Any, dict[str, str | None]], tmp_path: Path
) -> None:
    folder, seen = prepare(tmp_path / "run"), tmp_path / "seen"
    seen.mkdir()
    with tempfile.TemporaryDirectory(prefix="mx-") as own:  # others have what is theirs elsewhere
        outcome = matex_run(
            folder, SCRIPT, tmp_path, *([killed] if killed else []),
            ranks=ranks, timeout_s=280, environment={"SEEN": str(seen), "TMPDIR": own},
        )  # fmt: skip
        assert not list(Path(own).glob("matex-files-*"))
    assert outcome.status == 0, outcome.stderr
    found = [json.loads(path.read_text()) for path in seen.iterdir()]
    assert len(found) == ranks - bool(killed)
    for one in found:
        assert one == plain[0]
    assert tree(folder) == plain[1]
    assert not list(outcome.report.glob(".matex*"))


def contents(folder: Path) -> dict[str, object]:
    """Contents of the files, as far as they can be read."""
    with (
        h5py.File(folder / "table.h5") as table,
        zipfile.ZipFile(folder / "all.zip") as archive,
        gzip.open(folder / "wrapped.gz") as wrapped,
        bz2.open(folder / "packed.bz2") as packed,
    ):
        return {
            "table": table["a"][:].tolist(),
            "archive": archive.read("name"),
            "wrapped": wrapped.read(),
            "packed": packed.read(),
            **{name: (folder / name).read_bytes() for name in ("raw.bin", "rows.csv", "log.txt")},
        }


@pytest.mark.timeout(120)
@pytest.mark.parametrize("how", ["raise", "status"])
def test_files_left_open_are_whole_after_a_program_that_fails(how: str, tmp_path: Path) -> None:
    alone, together = tmp_path / "alone", tmp_path / "together"
    for folder in (alone, together):
        folder.mkdir()
    script = SCRIPTS / "left_open.py"
    done = execute([sys.executable, script, how], directory=alone)
    assert done.returncode == {"raise": 1, "status": 3}[how], done.stderr
    outcome = matex_run(together, script, how, ranks=2, timeout_s=100)
    assert outcome.status == 1
    assert contents(together) == contents(alone)
    assert contents(alone)["log.txt"] == b"0\n1\n"
