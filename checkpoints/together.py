"""One file written by several processes that hold equal snapshots, each a range of its bytes.

The first of them publishes. It makes the temporary file and an empty mark for each of the
others, writes its own range, and waits for the marks to say that theirs is on the disk. Only
then it renames. A mark holds the digest of the whole content as its writer has it, so ranges
of states that differ never come together in one file. The others make no file: who comes
late, or to a directory that is not the same, finds nothing to write to and leaves nothing.

No message is exchanged and nobody depends on the others for long: where a mark is wrong or
does not come, the publisher is told so, and can write all of it alone. Who waits for a mark opens
it anew each time, which on NFS asks the server.
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

#: Boundaries between ranges: no page, block or stripe of a file system is shared then.
_ALIGN = 1 << 20
_LEAST_S = 10.0
_TIMES = 2.0
_SOONEST_S, _LATEST_S = 0.002, 0.05
_FAILED = b"failed\n"


@dataclass(frozen=True, kw_only=True)
class Team:
    """This process among those that write one file.

    Args:
        place: number of this process among them; 0 publishes, others contribute.
        size: number of processes.
        tag: ``HOST.PID.NUMBER`` of the publisher, equal for all of them and used once.
        over: function that says whether one of them is known to be gone, asked again and again;
            none is by default.

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


def ranges(head: int, end: int, parts: int) -> list[Span]:
    """The bytes from 0 to *end* in so many ranges, one after the other; some may be empty. Pure.

    The first *head* bytes, which name the time and the software, are all in the first.
    """
    align = _ALIGN if end >= 2 * parts * _ALIGN else 1
    cuts = [max(head, end * part // parts // align * align) for part in range(1, parts)]
    return list(zip([0, *cuts], [*cuts, end], strict=True))


def slices(pieces: Iterable[memoryview], span: Span) -> Iterator[tuple[int, memoryview]]:
    """Slices of *pieces*, which follow one another, in *span*, each with its place. Pure."""
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
    """Write the first range, and publish when all others are there. Whether it was published.

    Where it was not, or an error was raised, what the name meant before is untouched and
    nothing is left.

    Args:
        encode: function called when the others can begin.
        check: function called right before the file takes its name; it may raise to hinder it.

    Raises:
        OSError: from the operating system.
    """
    temporary, marks = _paths(path, team)
    made = [*marks, temporary]  # whoever sees the last of them writes a mark soon
    with files.in_use(*(file.name for file in made)), contextlib.ExitStack() as undo:
        for file in made:
            file.open("xb").close()
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
    """Write one of the other ranges. Whether that was still wanted.

    Raises:
        OSError: from the operating system; the publisher learns of it.
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
    """Seconds that the others may take after the publisher's own range. Pure."""
    return max(_LEAST_S, _TIMES * own_s)


def _write(descriptor: int, encoded: Encoded, span: Span) -> None:
    """Bring *span* to the disk, and close."""
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
    """The temporary file, when its maker has come so far; None: nobody makes it any more."""
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
            elif text.endswith(b"\n"):  # it failed, or holds another state
                return False
        if not missing:
            return True
    return False


def _looks(team: Team, until: float) -> Iterator[None]:
    """Once now, and ever more seldom until it is too late or over, and then once more."""
    pause_s = _SOONEST_S
    while not team.over() and time.monotonic() < until:
        yield
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LATEST_S)
    yield
