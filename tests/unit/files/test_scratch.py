"""Trees of ranks that were killed are removed, those of living ranks are not."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from matex.files import scratch
from matex.files.scratch import Scratch, remove_left


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def ended() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_a_dead_rank_s_tree_is_removed(temporary: Path) -> None:
    left = temporary / f"{scratch._prefix(str(ended()))}0123abcd"
    (left / "tree").mkdir(parents=True)
    stays = temporary / f"{scratch._prefix(str(os.getpid()))}0123abcd"
    stays.mkdir()
    remove_left()
    assert list(temporary.iterdir()) == [stays]


def test_a_rank_s_tree_stays_where_its_process_cannot_be_seen(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container has process ids of its own, and may share the directory and the host's name."""
    gone = ended()
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: gone)
        one = Scratch()
        one.ensure()
        remove_left()
        assert Path(one.tree).is_dir()
        one.remove()
    assert list(temporary.iterdir()) == []
