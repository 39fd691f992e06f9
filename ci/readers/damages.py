"""Sound files of ci/readers/table.py, each damaged at random, opened and read whole by matex.

    python -m ci.readers.damages [--count 1000] [--seed 0] [--only WORD]

It needs the environment of ci/readers/table.py. A file is cut short, has bits flipped, a block of
zeros, a block repeated or taken out, bytes appended, bytes of its header changed, or a number in
it set to an extreme. The same seed gives the same damages; --only runs those whose line has WORD
in its number, format or case.

"refused" is one line by matex, "read" are rows. What fails has a line of its own:

    CRASH   an exception that is none of matex's, or the end of the process
    HANG    no end
    MEMORY  far more memory than the file has bytes
    WORDS   a refusal that is not one line saying what was received
    WRONG   other rows than the sound file's, although a checksum covers what was damaged: that of
            TFRecord, gzip and PNG, and fletcher32 of HDF5

Where no checksum covers it, other rows are no failure. The status is 1 when anything failed.
"""

from __future__ import annotations

import argparse
import gzip
import os
import resource
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ci.readers.children import answers, serve
from ci.readers.damage_kinds import Damage, damage, first_difference, strange_rows
from ci.readers.judge import Outcome
from ci.readers.table import MEMORY_BYTES, want_readers

if TYPE_CHECKING:
    from ci.readers.cases import Case

FAILURES = ("CRASH", "HANG", "MEMORY", "WORDS", "WRONG")
LIMIT_S = 60.0
_RESIDENT_BYTES = 1 << 30  # by which a child may grow; no sound file has a megabyte
_WHOLE_BYTES = 64 << 20  # of larger members some rows are read
_SOME = 100


def answer(item: str) -> Outcome:
    """Judge the damage *item*, ``number/seed/group: name``; without a number, whether it is sound.

    "sound" is a file that matex reads, and that no other process holds open.
    """
    from ci.readers.cases import GROUPS

    number, seed, case_name = item.split("/", 2)
    group, _, name = case_name.partition(": ")
    case = next(case for case in GROUPS[group] if case.name == name)
    with tempfile.TemporaryDirectory(prefix="mx-") as folder:
        path = Path(folder) / case.file
        close = None
        try:
            close = case.write(path)
            sound = None if close else _sound(path, case)
        finally:
            if close:
                close()
        if sound is None:
            return Outcome("unsound")
        if not number:
            return Outcome("sound")
        files = sorted(file for file in Path(folder).rglob("*") if file.is_file())
        dice = np.random.default_rng([int(seed), int(number)])
        file = files[int(dice.integers(len(files)))]
        before = file.read_bytes()
        done = damage(before, dice)
        rule = _rule(file, before, done, opened_as=sound[0])
        file.write_bytes(done.content)
        outcome = _judged(path, case, sound[1], rule)
        return Outcome(outcome.word, f"{file.name}: {done.words}: {outcome.why}")


def _sound(path: Path, case: Case) -> tuple[str, dict[str, np.ndarray]] | None:
    """The format and the rows of a file that matex reads, None for another."""
    from matex import data
    from matex.errors import MatexError

    try:
        with data.open(path, **case.options) as opened:
            return opened.format, {name: np.asarray(rows) for name, rows in opened.items()}
    except MatexError:
        return None


def _rule(file: Path, before: bytes, done: Damage, *, opened_as: str) -> str:
    """The rule for the rows: "equal", "known" (each is one of the sound file's), or ""."""
    if opened_as == "tfrecord":
        return "known"
    if before.startswith(b"\x1f\x8b"):
        return "" if _unpacks(done.content) else "equal"
    if before.startswith(b"\x89PNG"):
        return "equal"
    if opened_as in ("hdf5", "netcdf") and done.places is not None:
        places = done.places
        covered = sum((places >= lo) & (places < hi) for lo, hi in _fletcher32(file, before))
        return "equal" if len(places) and np.all(covered) else ""
    return ""


def _unpacks(content: bytes) -> bool:
    """Whether all checksums of gzip are right: whole members may be missing or be there twice."""
    try:
        gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        return False
    return True


def _fletcher32(file: Path, content: bytes) -> list[tuple[int, int]]:
    """The bytes [lo, hi) of the chunks that have a checksum, of an HDF5 file."""
    import h5py

    found: list[tuple[int, int]] = []

    def add(_name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.fletcher32:
            for number in range(item.id.get_num_chunks()):
                chunk = item.id.get_chunk_info(number)
                if not chunk.filter_mask:
                    found.append((chunk.byte_offset, chunk.byte_offset + chunk.size))

    if h5py.is_hdf5(file):
        with h5py.File(file, "r", locking=False) as opened:
            opened.visititems(add)
    return found


def _judged(path: Path, case: Case, sound: dict[str, np.ndarray], rule: str) -> Outcome:
    """The outcome of matex's reading the damaged file at *path*."""
    from matex import data
    from matex.errors import MatexError

    before = _resident()
    try:
        with data.open(path, **case.options) as opened:
            found = {name: _all(rows) for name, rows in opened.items()}
            notes = dict(opened.notes)
    except MatexError as error:
        message = str(error)
        if "\n" in message or "Received: " not in message:
            return Outcome("WORDS", message)
        outcome = Outcome("refused", message)
    except MemoryError as error:
        return Outcome("MEMORY", f"{_where(error)}: {error}")
    except Exception as error:  # noqa: BLE001 - what the damages are about
        return Outcome("CRASH", f"{_where(error)}: {type(error).__name__}: {error}")
    else:
        wrong = ""
        if rule == "equal":
            wrong = first_difference(sound, found, notes)
        elif rule == "known":
            wrong = strange_rows(sound, found)
        outcome = Outcome("WRONG", wrong) if wrong else Outcome("read")
    if (grown := _resident() - before) > _RESIDENT_BYTES:
        return Outcome("MEMORY", f"{grown >> 20} MB for a file of kilobytes: {outcome.why}")
    return outcome


def _all(rows: Any) -> np.ndarray:
    """All *rows*, or of very large members the first, the last and some in between."""
    if rows.size * rows.dtype.itemsize <= _WHOLE_BYTES:
        return np.asarray(rows)
    last = len(rows) - 1  # of 2**62 rows, say, floating point would miss it
    return np.asarray(rows.rows(np.array([last * n // (_SOME - 1) for n in range(_SOME)])))


def _resident() -> int:
    """The most bytes that this process has ever had in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _where(error: BaseException) -> str:
    """The place in matex that an exception came through last."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if f"{os.sep}matex{os.sep}" in frame.filename]
    return f"{Path(inside[-1].filename).name}:{inside[-1].lineno}" if inside else "outside"


def planned(sound: list[str], count: int, seed: int) -> Iterator[str]:
    """*count* damages as items, the formats in turn, and in each its *sound* files in turn."""
    groups: dict[str, list[str]] = {}
    for name in sound:
        groups.setdefault(name.partition(": ")[0], []).append(name)
    turns = list(groups.values())
    for number in range(count):
        names = turns[number % len(turns)]
        yield f"{number}/{seed}/{names[number // len(turns) % len(names)]}"


def table(counts: Counter[tuple[str, str]]) -> Iterator[str]:
    """Lines that say how many damages of each format had each outcome."""
    words = ("read", "refused", *FAILURES)
    groups = sorted({group for group, _ in counts})
    width = max(map(len, ("format", *groups)))
    yield f"{'format':{width}} {' '.join(f'{word:>8}' for word in words)}"
    for group in groups:
        yield f"{group:{width}} {' '.join(f'{counts[group, word]:8}' for word in words)}"
    sums = [sum(counts[group, word] for group in groups) for word in words]
    yield f"{'all':{width}} {' '.join(f'{figure:8}' for figure in sums)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=1000, help="damages in all")
    parser.add_argument("--seed", type=int, default=0, help="of what is done to the files")
    parser.add_argument("--only", default="", help="damages with this in number, format or case")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    want_readers(parser)
    if arguments.serve:
        warnings.simplefilter("ignore")
        return serve(answer, memory_bytes=MEMORY_BYTES)
    from ci.readers.cases import GROUPS

    started = time.monotonic()
    command = [sys.executable, "-m", "ci.readers.damages", "--serve"]
    names = [f"//{group}: {case.name}" for group, cases in GROUPS.items() for case in cases]
    asked = answers(command, names, limit_s=LIMIT_S)
    sound = [item[2:] for item, outcome in asked if outcome.word == "sound"]
    wanted = [
        item for item in planned(sound, arguments.count, arguments.seed) if arguments.only in item
    ]
    counts: Counter[tuple[str, str]] = Counter()
    for item, outcome in answers(command, wanted, limit_s=LIMIT_S):
        counts[item.split("/", 2)[2].partition(": ")[0], outcome.word] += 1
        if outcome.word in FAILURES or arguments.only:
            print(f"{outcome.word:8} {item}: {' '.join(outcome.why.split())}", flush=True)
    for line in table(counts):
        print(line)
    print(f"{len(wanted)} damages of {len(sound)} files, {time.monotonic() - started:.0f} s")
    return int(not wanted or any(word in FAILURES for _, word in counts))


if __name__ == "__main__":
    sys.exit(main())
