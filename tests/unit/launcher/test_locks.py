"""One run to a directory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ci.patience import patience
from matex.config import Config
from matex.errors import InputError
from matex.launcher.locks import LOCK, owned
from matex.launcher.preparing import all_owned

ROOT = Path(__file__).resolve().parents[3]
HOLD = """
import sys
from pathlib import Path
from matex.launcher.locks import owned
with owned(Path(sys.argv[1]), "--report"):
    print("held", flush=True)
    input()
"""


def holder(directory: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, directory],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_run_is_told_who_was_first(tmp_path: Path) -> None:
    first = holder(tmp_path / "new" / "saved")
    with (
        pytest.raises(InputError, match=f"process {first.pid} on .* has used since 20"),
        owned(tmp_path / "new" / "saved", "--checkpoint"),
    ):
        pytest.fail("two runs hold one directory")
    first.communicate("\n", timeout=patience(60))
    with owned(tmp_path / "new" / "saved", "--checkpoint"):
        assert (tmp_path / "new" / "saved" / LOCK).exists()
    assert [*(tmp_path / "new" / "saved").iterdir()] == []


def test_a_killed_run_holds_nothing(tmp_path: Path) -> None:
    first = holder(tmp_path)
    first.send_signal(signal.SIGKILL)
    first.communicate(timeout=patience(60))
    assert (tmp_path / LOCK).exists()
    with owned(tmp_path, "--report"):
        pass
    assert not (tmp_path / LOCK).exists()


def test_a_refused_run_leaves_no_directory_that_it_made(tmp_path: Path) -> None:
    first = holder(tmp_path / "saved")
    (tmp_path / "old").mkdir()
    for report in (tmp_path / "new" / "report", tmp_path / "old"):
        config = Config(report=report, checkpoint=tmp_path / "saved")
        with pytest.raises(InputError, match="no other run uses"), all_owned(config):
            pytest.fail("two runs hold one directory")
    first.communicate("\n", timeout=patience(60))
    assert {path.name for path in tmp_path.iterdir()} == {"saved", "old"}
    with pytest.raises(InputError, match="later"), all_owned(config):
        raise InputError("of something found later")
    with all_owned(Config(report=tmp_path / "kept")):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"saved", "old", "kept"}


@pytest.mark.parametrize("place", ["file", "file/saved"])
def test_a_file_in_its_place_is_refused(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(InputError, match=r"--checkpoint must be a directory. Received: .*file"),
        owned(tmp_path / place, "--checkpoint"),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
