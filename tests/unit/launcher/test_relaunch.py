"""The next start keeps out those who still write for a start that was given up."""

from __future__ import annotations

from pathlib import Path

import pytest

import checkpoints
from matex.launcher.relaunch import take_fence


def test_a_fence_that_was_taken_lets_no_earlier_start_pass(tmp_path: Path) -> None:
    stale = checkpoints.Fence(tmp_path, lambda: (3, 7))
    stale.check()
    assert stale.passes()
    assert take_fence(tmp_path) == ""
    assert not stale.passes()
    with pytest.raises(checkpoints.StaleWriter):
        stale.check()
    following = checkpoints.Fence(tmp_path, lambda: (stale.newest()[0] + 1, 0))
    following.check()
    assert following.passes()


def test_why_a_fence_cannot_be_taken_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "the fence of a directory was wanted" in take_fence(tmp_path / "file")
