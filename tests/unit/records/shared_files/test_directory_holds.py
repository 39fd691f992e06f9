"""Holds of directories: shared among those who use one, and in the way of who would remove it."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

from matex.records.shared_files.directory_holds import hold, unheld


def test_who_would_remove_a_directory_waits_for_the_last_who_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "held"
    files = [hold(path), hold(path)]
    assert path.stat().st_mode & 0o777 == 0o700
    for file in files:
        with unheld(path) as free:
            assert not free
        os.close(file)
    with unheld(path) as free:
        assert free
    with unheld(tmp_path / "none") as free:
        assert free
    (tmp_path / "file").touch()
    with unheld(tmp_path / "file") as free:
        assert not free


def test_who_comes_while_it_is_removed_makes_another(tmp_path: Path) -> None:
    path = tmp_path / "held"
    path.mkdir()
    found: list[int] = []
    comes = threading.Thread(target=lambda: found.append(hold(path)))
    with unheld(path):
        comes.start()
        comes.join(0.2)  # it waits
        shutil.rmtree(path)
    comes.join(30)
    assert os.path.samestat(os.fstat(found[0]), path.stat())
    os.close(found[0])
