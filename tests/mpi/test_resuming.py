"""A run continues from the newest snapshot, whichever tier and node holds it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ft
from checkpoints import Snapshot, Store
from matex.checkpointing.resume import newest_common_snapshot
from matex.errors import InputError


def snapshot(step: int, size: int = 1000) -> Snapshot:
    return Snapshot(weights={"x": np.full(size, step, np.float32)}, cursor={"step": step, "fit": 0})


@pytest.fixture
def shared(comm: ft.Communicator, tmp_path: Path) -> Path:
    """The leader's directory, on all ranks."""
    text = np.zeros(1000, np.uint8)
    own = str(tmp_path).encode()
    text[: len(own)] = list(own)
    comm.broadcast(text)
    return Path(text.tobytes().rstrip(b"\0").decode())


def stores(comm: ft.Communicator, shared: Path, files: list[int], memory: dict[int, list[int]]):
    """The shared store of files, and this rank's own in memory, as on a node of its own."""
    rank = comm.world.rank
    common, own = Store(shared / "files", keep_last=9), Store(shared / f"node-{rank}", keep_last=9)
    if comm.world.is_leader:
        for step in files:
            common.save(snapshot(step))
    for step in memory.get(rank, []):
        own.save(snapshot(step))
    comm.barrier()
    return common, own


@pytest.mark.parametrize(
    ("files", "memory", "newest"),
    [
        ([], {}, None),
        ([10], {}, 10),
        ([10], {0: [12], 1: [12], 2: [12], 3: [12]}, 12),  # every node has it
        ([10], {0: [12]}, 12),  # the others get it
        ([20], {0: [12]}, 20),  # an older one in memory does not count
        ([12], {0: [12]}, 12),
    ],
)
def test_all_ranks_continue_from_the_same(comm, shared, files, memory, newest) -> None:
    common, own = stores(comm, shared, files, memory)
    found = newest_common_snapshot(comm, files=common, memory=own)
    assert (None if found is None else found.step) == newest
    if found is not None:
        assert set(found.weights["x"].tolist()) == {float(newest)}


def test_the_last_node_alone_holds_the_newest(comm, shared) -> None:
    last = comm.world.ranks[-1]
    common, own = stores(comm, shared, [10], {0: [11], last: [13]})
    found = newest_common_snapshot(comm, files=common, memory=own)
    assert found is not None and found.step == 13


def test_a_damaged_one_in_memory_is_passed_over(comm, shared) -> None:
    common, own = stores(comm, shared, [10], {comm.world.rank: [12, 13]})
    newest = own.list()[-1]
    newest.write_bytes(newest.read_bytes()[:-1])
    comm.barrier()
    found = newest_common_snapshot(comm, files=common, memory=own)
    assert found is not None and found.step == 12


def test_a_directory_that_cannot_be_used_is_told_on_all_ranks(comm, shared) -> None:
    if comm.world.is_leader:
        (shared / "file").touch()
    comm.barrier()
    with pytest.raises(InputError, match="cannot be used"):
        newest_common_snapshot(comm, files=Store(shared / "file" / "deep"), memory=None)
