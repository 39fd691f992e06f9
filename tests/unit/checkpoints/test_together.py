"""Several processes write one file: whole or not at all, whoever of them fails or dies."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import checkpoints
from checkpoints import BackgroundWriter, Saved, Snapshot, StorageError, Store, Team, together
from checkpoints.together import ranges, slices
from ci.patience import patience

ROOT = Path(checkpoints.__file__).parents[1]
TAGS = (f"here.1.{number}" for number in itertools.count())


def snapshot(step: int, value: float = 1.0) -> Snapshot:
    generator = np.random.default_rng(step)
    weights = {f"x{n}": generator.random(500 * n, np.float32) for n in range(1, 9)}
    return Snapshot(weights={**weights, "y": np.full(3, value)}, cursor={"step": step})


def same(a: Snapshot, b: Snapshot) -> bool:
    return all(np.array_equal(a.weights[name], b.weights[name]) for name in b.weights)


class Together:
    """One thread for each of *snapshots*, with a store of its own, saves it as a part."""

    def __init__(self, directory: Path, *snapshots: Snapshot, over: Any = lambda: False) -> None:
        tag = next(TAGS)
        self.results: list[Any] = [None] * len(snapshots)
        threads = [
            threading.Thread(
                target=self._save,
                args=(
                    Store(directory),
                    snapshot,
                    Team(place=place, size=len(snapshots), tag=tag, over=over),
                ),
            )
            for place, snapshot in enumerate(snapshots)
        ]
        for thread in reversed(threads):  # the others look for what the publisher has yet to make
            thread.start()
        for thread in threads:
            thread.join(patience(60))
            assert not thread.is_alive()

    def _save(self, store: Store, snapshot: Snapshot, team: Team) -> None:
        try:
            self.results[team.place] = store.save_together(snapshot, team)
        except StorageError as error:
            self.results[team.place] = error


@pytest.mark.parametrize("place", [-1, 3])
def test_a_place_is_one_of_the_processes(place: int) -> None:
    with pytest.raises(ValueError, match=f"from 0 to 2 was wanted. Received: place={place}"):
        Team(place=place, size=3, tag="host.1.1")


@given(st.integers(0, 10**6), st.integers(0, 10**9), st.integers(1, 70))
def test_ranges_are_the_file_and_the_first_has_the_head(head: int, rest: int, parts: int) -> None:
    spans = ranges(head, head + rest, parts)
    assert len(spans) == parts
    assert spans[0][0] == 0
    assert spans[0][1] >= head
    assert spans[-1][1] == head + rest
    assert all(a[1] == b[0] for a, b in itertools.pairwise(spans))
    assert all(first <= end for first, end in spans)


def test_parts_of_large_files_share_no_page_and_are_of_one_size() -> None:
    spans = ranges(5000, 10**9 + 1, 7)
    assert all(end % 2**20 == 0 for _, end in spans[:-1])
    sizes = [end - first for first, end in spans]
    assert max(sizes) - min(sizes) <= 2**21


@given(st.lists(st.binary(max_size=9), max_size=9), st.integers(1, 5), st.integers(0, 9))
def test_slices_of_the_ranges_are_the_pieces(pieces: list[bytes], parts: int, head: int) -> None:
    whole = b"".join(pieces)
    file = bytearray(len(whole))
    views = [memoryview(piece) for piece in pieces]
    for span in ranges(min(head, len(whole)), len(whole), parts):
        for place, piece in slices(views, span):
            assert span[0] <= place
            assert place + len(piece) <= span[1]
            file[place : place + len(piece)] = piece
    assert bytes(file) == whole


def test_a_part_may_be_written_before_the_publisher_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (Team(place=place, size=2, tag="a") for place in range(2))
    other = Store(tmp_path)
    plain_open = Path.open

    def opened(path: Path, *args: Any, **kwargs: Any) -> Any:
        file = plain_open(path, *args, **kwargs)
        if args == ("xb",) and path.name.endswith(".a.tmp"):  # the file in which all write
            other.save_together(snapshot(3), second)
        return file

    monkeypatch.setattr(Path, "open", opened)
    assert Store(tmp_path).save_together(snapshot(3), first) is not None


@pytest.mark.parametrize("size", [1, 2, 5])
def test_what_several_wrote_is_what_one_would_have_written(size: int, tmp_path: Path) -> None:
    path = Store(tmp_path / "alone").save(snapshot(7))
    done = Together(tmp_path / "saved", *[snapshot(7) for _ in range(size)])
    together_path = tmp_path / "saved" / path.name
    assert done.results == [together_path, *[None] * (size - 1)]
    assert [found.name for found in together_path.parent.iterdir()] == [path.name]
    assert same(Store(tmp_path / "saved").load(together_path), snapshot(7))
    one, several = path.read_bytes(), together_path.read_bytes()
    arrays = len(one) - snapshot(7).nbytes
    assert one[arrays:] == several[arrays:]
    assert len(one) == len(several)


def test_states_that_differ_never_come_together(tmp_path: Path) -> None:
    path = Store(tmp_path).save(snapshot(3, value=3.0))
    done = Together(tmp_path, snapshot(3), snapshot(3), snapshot(3, value=2.0))
    assert done.results == [None, None, None]
    assert list(tmp_path.iterdir()) == [path]
    assert same(Store(tmp_path).load(path), snapshot(3, value=3.0))


def test_who_does_not_come_is_not_waited_for_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(together, "_LEAST_S", 0.02)
    monkeypatch.setattr(together, "_TIMES", 0.0)
    store = Store(tmp_path)
    # One who comes late, or to another directory, finds nothing and leaves nothing.
    for place in (0, 2):
        assert store.save_together(snapshot(4), Team(place=place, size=3, tag=next(TAGS))) is None
    assert list(tmp_path.iterdir()) == []


def test_who_is_known_to_be_gone_is_not_waited_for(tmp_path: Path) -> None:
    heard: list[Saved] = []
    store = Store(tmp_path)
    writer = BackgroundWriter(store, on_saved=heard.append)
    for place in (0, 1):
        team = Team(place=place, size=2, tag=next(TAGS), over=lambda: True)
        assert store.save_together(snapshot(3), team) is None
        assert list(tmp_path.iterdir()) == []
    saved = writer.save_now(snapshot(4), Team(place=0, size=2, tag=next(TAGS), over=lambda: True))
    assert saved.path is not None and same(store.load(saved.path), snapshot(4))
    assert (saved.parts, saved.error, heard) == (1, None, [saved])


def test_what_failed_together_is_tried_again_alone_by_the_publisher(tmp_path: Path) -> None:
    """And not at all by the others."""
    heard: dict[int, list[Saved]] = {0: [], 1: []}
    came = threading.Event()
    store = Store(tmp_path / "mount")
    store.prepare()
    (tmp_path / "mount").rename(tmp_path / "elsewhere")
    writers = []
    for place in (0, 1):

        def on_saved(saved: Saved, place: int = place) -> None:
            heard[place].append(saved)
            if saved.place == 0:
                came.set()

        writers.append(BackgroundWriter(store, on_saved=on_saved, retry_s=0.01))
    tag = next(TAGS)
    writers[0].save(snapshot(6), Team(place=0, size=2, tag=tag))
    assert came.wait(patience(60))
    writers[1].save(snapshot(6), Team(place=1, size=2, tag=tag, over=lambda: True))
    assert writers[1].close(60)
    (tmp_path / "elsewhere").rename(tmp_path / "mount")
    while not store.list():
        came.clear()
        assert came.wait(patience(60))
    assert writers[0].close(60)
    assert [saved.place for saved in heard[1]] == [1]
    assert heard[0][0].error is not None and heard[0][-1].error is None
    found = store.newest_valid()
    assert found is not None and same(found[1], snapshot(6))


def test_a_writer_that_waits_for_others_gives_way_to_a_newer_snapshot(tmp_path: Path) -> None:
    heard: list[Saved] = []
    store = Store(tmp_path)
    began = threading.Event()

    def over() -> bool:  # asked when it waits
        began.set()
        return False

    writer = BackgroundWriter(store, on_saved=heard.append)
    writer.save(snapshot(1), Team(place=0, size=2, tag=next(TAGS), over=over))
    assert began.wait(patience(60))
    writer.save(snapshot(2))
    assert writer.close(5)  # sooner than who does not come is given up
    assert [(saved.step, saved.error) for saved in heard] == [(1, None), (2, None)]


PREAMBLE = """
import json, os, resource, signal, sys
import numpy as np
from checkpoints import Snapshot, StorageError, Store, Team, together
directory = sys.argv[1]
together._SOONEST_S = together._LATEST_S = 0.001

def snapshot(step):
    return Snapshot(
        weights={f"x{n}": np.full(3000, step + n, np.float32) for n in range(4)},
        cursor={"step": step},
    )

def right(found):
    return all((found.weights[f"x{n}"] == found.step + n).all() for n in range(4))

def forked(work):
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return child

def is_gone(child, known={}):
    if child not in known:
        pid, status = os.waitpid(child, os.WNOHANG)
        if not pid:
            return False
        known[child] = status
    return True

def killed(child, known=is_gone.__defaults__[0]):
    while not is_gone(child):
        pass
    return os.WIFSIGNALED(known[child])

def die_before(line):
    count = 0
    def trace(frame, event, arg):
        nonlocal count
        if not frame.f_code.co_filename.endswith("checkpoints/together.py"):
            return None
        if event == "line":
            count += 1
            if count == line:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace
    sys.settrace(trace)
"""

# The one that dies is at `place` of two; the other hears of it as a rank does: at once.
KILL_AT_EVERY_LINE = """
place = int(sys.argv[2])
store = Store(directory, keep_last=2)
store.save(snapshot(0))
report = []
for line in range(1, 10_000, 2):
    step = line
    def dies():
        die_before(line)
        store.save_together(snapshot(step), Team(place=place, size=2, tag=tag))
    parent = os.getpid()
    tag = f"{os.uname().nodename}.{parent}.{line}" if place else None
    if place:
        child = forked(dies)
    else:  # its own process id is in the name of what it leaves
        read, write = os.pipe()
        def dies_publishing():
            global tag
            tag = f"{os.uname().nodename}.{os.getpid()}.{line}"
            os.write(write, tag.encode().ljust(200))
            dies()
        child = forked(dies_publishing)
        tag = os.read(read, 200).decode().strip()
        os.close(read), os.close(write)
    team = Team(place=1 - place, size=2, tag=tag, over=lambda: is_gone(child))
    if store.save_together(snapshot(step), team) is None and place:
        store.save(snapshot(step))
    was_killed = killed(child)
    path, found = store.newest_valid(on_skip=lambda path, error: report.append(str(error)))
    report.append([step, found.step, right(found), was_killed])
    if not was_killed:
        break
    if found.step != step:
        store.save(snapshot(step))  # what the survivors do next
Store(directory).prepare()
print(json.dumps({"report": report, "left": sorted(os.listdir(directory))}))
"""

# The one at `place` may write no more than its limit; the other is told.
LIMITED = """
place = int(sys.argv[2])
store = Store(directory)
store.save(snapshot(0))
tag = f"{os.uname().nodename}.{os.getpid()}.0"
read, write = os.pipe()
def limited():
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
    try:
        store.save_together(snapshot(1), Team(place=place, size=2, tag=tag))
        os.write(write, b"written")
    except StorageError as error:
        os.write(write, str(error).encode())
child = forked(limited)
store.save_together(
    snapshot(1), Team(place=1 - place, size=2, tag=tag, over=lambda: is_gone(child))
)
killed(child)
found = store.newest_valid()[1]
print(json.dumps({
    "said": os.read(read, 1000).decode(), "newest": found.step,
    "right": right(found), "left": sorted(os.listdir(directory)),
}))
"""


def script(text: str, *arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + text, *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=patience(100), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("place", [0, 1])
def test_who_dies_at_any_moment_leaves_whole_files_only(place: int, tmp_path: Path) -> None:
    found = script(KILL_AT_EVERY_LINE, str(tmp_path), str(place))
    *before, last = found["report"]
    assert len(before) > 30
    published = {step == newest for step, newest, *_ in before}
    # How many lines the publisher waits for the other's part is a matter of time, so it may or
    # may not be one of those behind the renaming at which it dies.
    assert published == {True} if place else False in published
    for step, newest, right, was_killed in before:  # a message in their place was a damaged file
        assert right and was_killed
        # With the one that publishes nothing is published, or all of it; else it is written alone.
        assert newest == step or (place == 0 and newest == max(step - 2, 0))
    assert last[1:] == [last[0], True, False]
    assert all(name.endswith(".h5") for name in found["left"])


@pytest.mark.parametrize("place", [0, 1])
def test_a_part_that_cannot_be_written_is_told(place: int, tmp_path: Path) -> None:
    found = script(LIMITED, str(tmp_path), str(place))
    assert "File too large" in found["said"]
    assert ("its part of" in found["said"]) == bool(place)
    assert found["right"]
    # Nothing is published, and the old file is as it was.
    assert (found["newest"], found["left"]) == (0, ["step-000000000.h5"])
