"""Writing of one file by several processes with equal snapshots; each writes a byte range.

The process at place 0 publishes. It creates the temporary file and an empty mark for each other
process, writes its own range, and waits until the marks say that the other ranges are on the
disk. Only then it renames the file. A mark holds the digest of the whole content in its writer's
memory, so ranges of different states never come together in one file. The other processes create
no file: one that is late, or that sees another directory, has nothing to write to, and leaves no
file behind.

No message is exchanged and no process waits long for another: if a mark is wrong or does not
appear, the publisher is told so, and can write the whole file alone. A process that waits for a
mark opens it anew each time, which on NFS asks the server.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from checkpoints import files
from checkpoints.writer import Encoded

__all__ = ["Team", "contribute", "publish", "ranges", "slices"]

Span = tuple[int, int]
Encode = Callable[[], Encoded]

#: Alignment of the ranges, so that they share no page, block or stripe of a file system.
_ALIGN = 1 << 20
_LEAST_S = 10.0
_TIMES = 2.0
_SOONEST_S, _LATEST_S = 0.002, 0.05
_FAILED = b"failed\n"


@dataclass(frozen=True, kw_only=True)
class Team:
    """This process as one of the processes that write a file together.

    Args:
        place: index of this process among them; 0 publishes, the others contribute.
        size: number of processes.
        tag: ``HOST.PID.NUMBER`` of the publisher, equal on all processes and used once.
        over: function that returns whether one of the processes is known to have ended, called
            again and again; by default none has.

    Raises:
        ValueError: there is no such place.

    Example:
        >>> import os, threading
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     store = checkpoints.Store(directory)
        ...     store.prepare()
        ...     snapshot = checkpoints.Snapshot(weights={"w": np.ones(1000)}, cursor={"step": 5})
        ...     tag = f"{checkpoints.tag_of('host', os.getpid())}.1"
        ...     first, second = (checkpoints.Team(place=p, size=2, tag=tag) for p in (0, 1))
        ...     other = threading.Thread(target=store.save_together, args=(snapshot, second))
        ...     other.start()  # in practice another process
        ...     path = store.save_together(snapshot, first)
        ...     other.join()
        ...     path.name
        'step-000000005.h5'
    """

    place: int
    size: int
    tag: str
    over: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        if not 0 <= self.place < self.size:
            raise ValueError(
                f"a place from 0 to {self.size - 1} was wanted. Received: place={self.place} "
                f"of {self.size} processes."
            )


def ranges(head: int, end: int, parts: int) -> list[Span]:
    """Bytes 0 to *end* divided into *parts* consecutive ranges, of which some may be empty. Pure.

    The first *head* bytes, which contain the time and the software, are all in the first range.
    """
    align = _ALIGN if end >= 2 * parts * _ALIGN else 1
    cuts = [max(head, end * part // parts // align * align) for part in range(1, parts)]
    return list(zip([0, *cuts], [*cuts, end], strict=True))


def slices(pieces: Iterable[memoryview], span: Span) -> Iterator[tuple[int, memoryview]]:
    """Slices of the consecutive *pieces* that lie in *span*, each with its offset. Pure."""
    first, end = span
    start = 0
    for piece in pieces:
        lo, hi = max(first, start), min(end, start + len(piece))
        if lo < hi:
            yield lo, piece[lo - start : hi - start]
        start += len(piece)


def publish(
    path: Path, encode: Encode, team: Team, check: Callable[[], None] = lambda: None
) -> bool:
    """Write the first range, and publish when all others are written; return whether it did.

    If it did not, or an exception was raised, the file *path* is unchanged and no temporary file is
    left.

    Args:
        encode: function that returns the content, called when the other processes can begin.
        check: function called right before the renaming; it may raise to prevent it.

    Raises:
        OSError: from the operating system.
    """
    temporary, marks = _paths(path, team)
    made = [*marks, temporary]  # a process that sees the temporary file writes its mark soon
    with files.in_use(*made), contextlib.ExitStack() as undo:
        for file in made:
            held = undo.enter_context(file.open("xb"))
            files.hold(held)
            undo.callback(files.remove_quietly, file)
        began = time.monotonic()
        encoded = encode()
        own, *spans = _ranges(encoded, team)
        _write(os.open(temporary, os.O_WRONLY | os.O_CLOEXEC), encoded, own)
        now = time.monotonic()
        wanted = {mark: _mark(encoded, span) for mark, span in zip(marks, spans, strict=True)}
        if not _all_marked(wanted, team, until=now + _patience_s(now - began)):
            return False
        check()
        temporary.replace(path)
    files.sync_directory(path.parent)
    return True


def contribute(path: Path, encode: Encode, team: Team) -> bool:
    """Write the range of this process; return whether the publisher still wanted it.

    Raises:
        OSError: from the operating system; the publisher finds it in the mark.
    """
    temporary, marks = _paths(path, team)
    mark = marks[team.place - 1]
    encoded = encode()
    span = _ranges(encoded, team)[team.place]
    try:
        descriptor = _found(temporary, team, until=time.monotonic() + _LEAST_S)
        if descriptor is None:
            return False
        _write(descriptor, encoded, span)
        _note(mark, _mark(encoded, span))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESTALE):  # the publisher did not wait
            return False
        with contextlib.suppress(OSError):
            _note(mark, _FAILED)
        raise
    return True


def _paths(path: Path, team: Team) -> tuple[Path, list[Path]]:
    temporary = path.with_name(files.temporary_name(path.name, team.tag))
    marks = [
        path.with_name(files.temporary_name(path.name, f"{team.tag}.{place}"))
        for place in range(1, team.size)
    ]
    return temporary, marks


def _ranges(encoded: Encoded, team: Team) -> list[Span]:
    return ranges(encoded.head_bytes, encoded.nbytes, team.size)


def _mark(encoded: Encoded, span: Span) -> bytes:
    return f"{encoded.content} {encoded.nbytes} {span[0]} {span[1]}\n".encode("ascii")


def _patience_s(own_s: float) -> float:
    """Seconds that other processes may take after the publisher has written its range. Pure."""
    return max(_LEAST_S, _TIMES * own_s)


def _write(descriptor: int, encoded: Encoded, span: Span) -> None:
    """Write *span* to the disk, and close the descriptor."""
    try:
        for place, piece in slices(encoded.pieces, span):
            done = 0
            while done < len(piece):
                done += os.pwrite(descriptor, piece[done:], place + done)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _note(mark: Path, text: bytes) -> None:
    descriptor = os.open(mark, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _found(temporary: Path, team: Team, *, until: float) -> int | None:
    """Descriptor of the temporary file once it exists; None if no process will create it."""
    for _ in _looks(team, until):
        with contextlib.suppress(FileNotFoundError):
            return os.open(temporary, os.O_WRONLY | os.O_CLOEXEC)
    return None


def _all_marked(wanted: dict[Path, bytes], team: Team, *, until: float) -> bool:
    missing = dict(wanted)
    for _ in _looks(team, until):
        for mark in list(missing):
            text = mark.read_bytes()
            if text == missing[mark]:
                del missing[mark]
            elif text.endswith(b"\n"):  # the writer failed, or holds another state
                return False
        if not missing:
            return True
    return False


def _looks(team: Team, until: float) -> Iterator[None]:
    """Yield at once, then at growing intervals until time or *team* is over, and once more."""
    pause_s = _SOONEST_S
    while not team.over() and time.monotonic() < until:
        yield
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LATEST_S)
    yield
