"""A script finds around itself on ranks what it finds in plain Python: streams, names, modules."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.train.runs import SCRIPTS, execute, matex_run

SCRIPT = SCRIPTS / "surroundings.py"
STDIN = "5\nmore\nlast\n"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The lines of the script in plain Python."""
    done = execute(
        [sys.executable, SCRIPT], directory=tmp_path_factory.mktemp("plain"), stdin=STDIN
    )
    assert done.returncode == 0, done.stderr
    return lines(done.stdout)


def lines(output: str) -> list[str]:
    """The lines of *output* without those of matex, and without durations."""
    said = [line for line in output.splitlines() if not line.startswith("matex: ")]
    return [re.sub(r"\b\d+m?s(/step)?", "SOON", line) for line in said]


def test_a_script_says_the_same_as_in_plain_python(plain: list[str], tmp_path: Path) -> None:
    outcome = matex_run(tmp_path, SCRIPT, ranks=2, stdin=STDIN)
    assert outcome.status == 0, outcome.stderr
    assert lines(outcome.stdout) == plain
    assert plain[:2] == ["terminal: False False", "number? 5 and ['more', 'last']"]
    assert plain[1] in (outcome.report / "rank-0001.log").read_text()
