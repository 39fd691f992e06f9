"""A snapshot goes to another process as the bytes of its file, and is checked when it comes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from checkpoints import (
    DamagedSnapshot,
    NotASnapshot,
    Snapshot,
    from_bytes,
    to_bytes,
    write_snapshot,
)


def made() -> Snapshot:
    return Snapshot(
        weights={"dense/kernel": np.arange(6, dtype=np.float32).reshape(2, 3)},
        optimizer={"iterations": np.array(7)},
        cursor={"step": 7, "samples": 40},
        extra={"none": np.empty(0, np.uint8)},
    )


def test_a_snapshot_arrives_whole() -> None:
    there = from_bytes(to_bytes(made()))
    assert dict(there.cursor) == {"step": 7, "samples": 40}
    assert there.weights["dense/kernel"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert there.optimizer["iterations"] == 7
    assert there.extra["none"].shape == (0,)


def test_the_bytes_are_those_of_a_file(tmp_path: Path) -> None:
    write_snapshot(tmp_path / "one.h5", made())
    assert (tmp_path / "one.h5").stat().st_size == to_bytes(made()).size


@pytest.mark.parametrize("at", [0, -1])
def test_what_was_damaged_on_the_way_is_refused(at: int) -> None:
    content = to_bytes(made())
    content[at] ^= 1
    with pytest.raises(DamagedSnapshot):
        from_bytes(content)


@pytest.mark.parametrize("content", [b"", b"something else"])
def test_other_bytes_are_no_snapshot(content: bytes) -> None:
    with pytest.raises(NotASnapshot if content else DamagedSnapshot):
        from_bytes(content)
