"""Files that a leader's callbacks write, for the next leader, or the next start, to go on with."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from matex.keras_hooks.callbacks import is_csv_logger

__all__ = ["NotedSaves", "drop_row", "in_order", "keeping_rows", "lines_written"]


class NotedSaves:
    """A model that does not save itself, but notes how it was to be saved.

    Args:
        model: model of this rank, whose other attributes are those of this one.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._noted: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Note the call; the leader makes it."""
        self._noted.append(("save", args, kwargs))

    def save_weights(self, *args: Any, **kwargs: Any) -> None:
        """Note the call; the leader makes it."""
        self._noted.append(("save_weights", args, kwargs))

    def make(self) -> None:
        """Save the model as noted. Local."""
        for name, args, kwargs in self._noted:
            getattr(self._model, name)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def drop_row(callback: Any, epoch: int) -> None:
    """Delete the last line of a CSVLogger's file if it is that of *epoch*, or not whole. Local."""
    if is_csv_logger(callback):
        rows = _CsvRows(Path(callback.filename), callback.sep)
        lines = rows.lines()
        if lines and (rows.epoch(lines[-1]) == epoch or not lines[-1].endswith(b"\n")):
            rows.path.write_bytes(b"".join(lines[:-1]))


def lines_written(callbacks: Iterable[Any]) -> list[int]:
    """Number of lines in the file of each CSVLogger among *callbacks*. Local."""
    loggers = [one for one in callbacks if is_csv_logger(one)]
    return [len(_CsvRows(Path(one.filename), one.sep).lines()) for one in loggers]


def in_order(callbacks: Iterable[Any], lines: Iterable[int]) -> list[int]:
    """The number of lines for each of *callbacks*, of those of CSVLoggers in order. Pure."""
    left = iter(lines)
    return [next(left, 0) if is_csv_logger(one) else 0 for one in callbacks]


@contextlib.contextmanager
def keeping_rows(callback: Any, *, before: int | None = None, lines: int = 0) -> Iterator[None]:
    """Context in which a CSVLogger that begins goes on with its file. Local.

    Args:
        callback: the CSVLogger; another callback begins as ever.
        before: epoch from which on the last fit's rows are deleted; none are by default.
        lines: number of lines that were there before this fit, 0 by default.
    """
    if not is_csv_logger(callback):
        yield
        return
    if before is not None:
        _drop_from(_CsvRows(Path(callback.filename), callback.sep), before, lines)
    given, callback.append = callback.append, True
    try:
        yield
    finally:
        callback.append = given


def _drop_from(rows: _CsvRows, epoch: int, first: int) -> None:
    lines = rows.lines()
    kept = len(lines) - (bool(lines) and not lines[-1].endswith(b"\n"))
    following: float = math.inf
    while kept > first and (told := rows.epoch(lines[kept - 1])) is not None:
        if not epoch <= told < following:  # of this fit, or of an earlier one
            break
        kept, following = kept - 1, told
    if kept < len(lines):
        rows.path.write_bytes(b"".join(lines[:kept]))


class _CsvRows(NamedTuple):
    """Rows of the CSV file *path*, which begin with an epoch and *separator*."""

    path: Path
    separator: str

    def lines(self) -> list[bytes]:
        """Lines of the file; none if it is not there."""
        return self.path.read_bytes().splitlines(keepends=True) if self.path.exists() else []

    def epoch(self, line: bytes) -> int | None:
        """Epoch of a *line*; None of the header."""
        first = line.partition(self.separator.encode())[0]
        return int(first) if first.isdigit() else None
