"""Files by outside writers, each opened by matex and compared with what an outside reader gives.

    python -m ci.readers.table [--only WORD] [--wrong]

The outside readers (netCDF4, scipy, pandas, h5py, PIL, TensorFlow) need an environment with more
than matex does, for instance

    python3.11 -m venv DIR
    DIR/bin/pip install -c constraints.txt -r ci/readers/requirements.txt -e '.[cpu]'
    DIR/bin/python -m ci.readers.table

A line says "equal", "refused" with a reason that names the true one, or what failed: WRONG, other
numbers; LOST, rows or members silently missing; REASON, refused for another reason than the true
one; CRASH, an exception that is none of matex's, or the end of the process; HANG. BROKEN is a case
that fails before matex is asked. The status is 1 when any line failed.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ci.readers.children import answers, serve
from ci.readers.judge import FAILURES, Outcome, judge, refused

if TYPE_CHECKING:
    from ci.readers.cases import Case

OUTSIDE = ("netCDF4", "scipy", "pandas", "tables", "PIL", "h5py", "tensorflow")
LIMIT_S = 120.0
MEMORY_BYTES = 24 << 30


def want_readers(parser: argparse.ArgumentParser) -> None:
    """End the program with a line on what to do where outside readers are not installed."""
    if missing := [name for name in OUTSIDE if importlib.util.find_spec(name) is None]:
        parser.error(
            f"the outside readers must be installed. Received: no {', '.join(missing)}; "
            "install ci/readers/requirements.txt, as the first lines of ci/readers/table.py say"
        )


def answer(item: str) -> Outcome:
    """Make the file of the case *item*, ``group: name``, and judge how matex reads it."""
    from ci.readers.cases import GROUPS

    group, _, name = item.partition(": ")
    case = next(case for case in GROUPS[group] if case.name == name)
    with tempfile.TemporaryDirectory(prefix="mx-") as folder:
        path = Path(folder) / case.file
        close = None
        try:
            close = case.write(path)
            expected = case.read(path) if case.read else None
        except Exception as error:  # noqa: BLE001 - of whatever reader
            return Outcome("BROKEN", f"{type(error).__name__}: {error}")
        try:
            return _judged(path, expected, case)
        finally:
            if close:
                close()


def _judged(path: Path, expected: Mapping[str, Any] | None, case: Case) -> Outcome:
    """The outcome of matex's reading *path*, in order and shuffled, against *expected*."""
    from matex import data
    from matex.errors import MatexError

    try:
        with data.open(path, **case.options) as opened:
            found = {name: np.asarray(rows) for name, rows in opened.items()}
            for name, rows in opened.items():
                order = np.random.default_rng(0).permutation(len(rows))
                if rows.rows(order).tobytes() != found[name][order].tobytes():
                    return Outcome("WRONG", f"{name} has other rows where they are shuffled")
            # A second name of rows that the file has under another one is no member of its own.
            for name in set(found) - set(expected or found):
                if any(rows is opened[name] for other, rows in opened.items() if other != name):
                    del found[name]
    except MatexError as error:
        return refused(str(error), case.word)
    except Exception as error:  # noqa: BLE001 - what the table is about
        return Outcome("CRASH", f"{type(error).__name__}: {error}")
    return judge(expected, found, opened.notes, word=case.word, within=case.within)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="cases with this in their group or name")
    parser.add_argument("--wrong", action="store_true", help="print only the lines that failed")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    want_readers(parser)
    if arguments.serve:
        return serve(answer, memory_bytes=MEMORY_BYTES)
    from ci.readers.cases import GROUPS

    items = [f"{group}: {case.name}" for group, cases in GROUPS.items() for case in cases]
    if len(set(items)) < len(items):
        parser.error(f"names must differ. Received: {Counter(items).most_common(1)[0][0]} twice")
    wanted = [item for item in items if arguments.only in item]
    started = time.monotonic()
    counts: Counter[str] = Counter()
    command = [sys.executable, "-m", "ci.readers.table", "--serve"]
    for item, outcome in answers(command, wanted, limit_s=LIMIT_S):
        counts[outcome.word] += 1
        if outcome.word in FAILURES or not arguments.wrong:
            why = " ".join(outcome.why.split())
            print(f"{outcome.word:8} {item}{': ' if why else ''}{why}", flush=True)
    figures = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    print(f"{len(wanted)} files, {time.monotonic() - started:.0f} s: {figures}")
    return int(not wanted or any(counts[word] for word in FAILURES))


if __name__ == "__main__":
    sys.exit(main())
