"""A script finds around itself on ranks what it finds in plain Python: streams, names, modules."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.train.runs import SCRIPTS, execute

SCRIPT = SCRIPTS / "surroundings.py"
STDIN = "5\nmore\nlast\n"
MODULE = ["-m", "package.surroundings", "--seed", "3"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working directory, with the script as a module of a package."""
    folder = tmp_path_factory.mktemp("folder")
    (folder / "package").mkdir()
    shutil.copy(SCRIPT, folder / "package")
    return folder


@pytest.fixture(scope="module")
def plain(folder: Path) -> list[str]:
    """The lines of the script in plain Python."""
    done = execute([sys.executable, *MODULE], directory=folder, stdin=STDIN)
    assert done.returncode == 0, done.stderr
    return lines(done.stdout)


def lines(output: str) -> list[str]:
    """The lines of *output* without those of matex, and without durations."""
    said = [line for line in output.splitlines() if not line.startswith("matex: ")]
    return [re.sub(r"\b\d+m?s(/step)?", "SOON", line) for line in said]


def test_a_script_says_the_same_as_in_plain_python(plain: list[str], folder: Path) -> None:
    run = [sys.executable, "-m", "matex", "run", "-n", "2", "--report", "report"]
    done = execute([*run, *MODULE], directory=folder, stdin=STDIN)
    assert done.returncode == 0, done.stderr
    assert lines(done.stdout) == plain
    assert plain[:3] == [
        "package.surroundings --seed 3",
        "terminal: False False",
        "number? 5 and ['more', 'last']",
    ]
    assert plain[2] in (folder / "report" / "rank-0001.log").read_text()
