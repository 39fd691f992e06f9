"""The directory of a run that its ranks share, and what is left of killed ranks."""

from __future__ import annotations

import os
from pathlib import Path

from matex.files.changes_directory import changes_directory, hold_if_shared, make


def test_what_killed_ranks_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    killed, living, own = (changes_directory(tmp_path, key * 20) for key in "abc")
    killed.mkdir()
    (killed / "changes.0-1").write_text("a file as it was before the run")
    (tmp_path / ".matex-changes-of-a-user").touch()
    held = [make(living), make(own), hold_if_shared(own)]
    assert {*tmp_path.iterdir()} == {living, own, tmp_path / ".matex-changes-of-a-user"}
    for file in held:
        assert file is not None
        os.close(file)
    again = make(changes_directory(tmp_path, "d" * 20))
    assert again is not None and not living.exists() and not own.exists()
    os.close(again)


def test_a_rank_that_does_not_see_the_directory_makes_none(tmp_path: Path) -> None:
    assert hold_if_shared(changes_directory(tmp_path, "a" * 20)) is None
    assert make(changes_directory(tmp_path / "absent", "a" * 20)) is None
    assert not list(tmp_path.iterdir())
