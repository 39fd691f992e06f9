"""Actions of ``matex data info`` and ``matex data convert``."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from matex.data.convert import check_target, convert, open_to_convert
from matex.data.formats import FORMATS
from matex.data.source import Data
from matex.errors import InputError

__all__ = ["run"]

_LINES_EVERY_S = 10.0  # on a pipe


def run(arguments: argparse.Namespace) -> int:
    """Run ``info`` or ``convert``; return its exit status.

    Raises:
        InputError: bad input, or a bad file; the message is one line.
    """
    options = {
        name: getattr(arguments, name)
        for name in ("format", "label", "header", "size")
        if getattr(arguments, name) is not None
    }
    if arguments.action == "info":
        return _info(arguments.file, options)
    return _convert(arguments, options)


def _info(path: Path, options: dict[str, Any]) -> int:
    with _shown("checking") as on_progress:
        data = open_to_convert(path, on_progress=on_progress, **options)
    with data:
        stored = _size(path)
        print(f"{path}: {FORMATS[data.format]}" + (f", {stored:,} bytes" if stored else ""))
        width = max(len(name) for name in [*data, *data.notes])
        for name, rows in data.items():
            shape = " x ".join(f"{n:,}" for n in rows.shape)
            note = f"  ({data.notes[name]})" if name in data.notes else ""
            print(f"  {name:<{width}}  {shape}  {rows.dtype}{note}")
        for name, note in data.notes.items():
            if name not in data:
                print(f"  {name:<{width}}  {note}")
        for name, words in data.facts.items():
            more = ", ..." if len(words) > 40 else ""
            print(f"  {name}: {', '.join(words[:40])}{more}")
    return 0


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _convert(arguments: argparse.Namespace, options: dict[str, Any]) -> int:
    source, target = arguments.source, arguments.target
    check_target(target, arguments.force)
    if target.suffix.lower() not in (".h5", ".hdf5"):
        raise InputError(f"the file to write must be named .h5 or .hdf5. Received: {target}")
    started = time.monotonic()
    with _shown("checking") as on_progress:
        data = open_to_convert(source, on_progress=on_progress, **options)
    with data:
        test_rows = _test_rows(arguments, data)
        try:
            with _shown("converting") as on_progress:
                convert(
                    data,
                    target,
                    test_rows=test_rows,
                    dtype=arguments.dtype,
                    force=arguments.force,
                    on_progress=on_progress,
                )
        except OSError as error:
            raise InputError(f"{target} could not be written. Received: {error}") from None
        rows = max(len(member) for member in data.values())
    seconds = time.monotonic() - started
    print(f"{target}: {rows:,} rows, {_size(target):,} bytes, in {seconds:.1f} s")
    return 0


def _test_rows(arguments: argparse.Namespace, data: Data) -> int:
    if arguments.test_fraction is not None:
        rows = min(len(member) for member in data.values())
        return max(1, round(rows * arguments.test_fraction))
    return int(arguments.test_rows or 0)


@contextlib.contextmanager
def _shown(what: str) -> Iterator[Callable[[int, int], None]]:
    """Progress display: a bar on a terminal, occasional lines on a pipe."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(what)
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(),
        TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _lines(what: str) -> Callable[[int, int], None]:
    last = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _LINES_EVERY_S:
            last = time.monotonic()
            print(f"{what}: {100 * done // max(1, total)} %", file=sys.stderr, flush=True)

    return show
