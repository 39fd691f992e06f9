"""CSV text as whole lines: what the columns are, and whether every line has them."""

from __future__ import annotations

import contextlib
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from matex.errors import DataError

__all__ = ["Dialect", "Lines", "lines", "numbers", "sniff"]

BLOCK_BYTES = 8 << 20
_DELIMITERS = b",;\t"
_SHOWN = 40


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How a file is written.

    Args:
        delimiter: one character.
        width: values in a row.
        columns: their names; empty without a header.
        start: where the first row begins, in bytes of the text.
    """

    delimiter: str
    width: int
    columns: list[str]
    start: int


class Lines(NamedTuple):
    """Whole lines of equal width.

    Attributes:
        row: number of the first, from 0.
        offset: where it begins in the text, in bytes.
        text: the lines.
        starts: where each begins in *text*, int64.
    """

    row: int
    offset: int
    text: bytes
    starts: np.ndarray


def sniff(path: Path, header: bool | None) -> Dialect:
    """Look at the first line.

    Raises:
        DataError: it is empty, no text, or has a single value.
    """
    with _opened(path) as (stream, _):
        try:
            first = stream.readline(1 << 20)
        except (OSError, EOFError, zlib.error) as error:
            raise _unreadable(path, error, 0) from None
    fields = first.strip().decode("utf-8", "replace").removeprefix("\ufeff")
    delimiter = max(_DELIMITERS.decode(), key=fields.count)
    names = [name.strip().strip("\"'") for name in fields.split(delimiter)]
    if len(names) < 2:
        raise DataError(
            f"{path} must have a label and at least one more value in a row, between commas, "
            f"semicolons or tabs. Received: the first line {fields[:_SHOWN]!r}"
        )
    if header is None:
        header = not all(_is_number(name) for name in names)
    return Dialect(
        delimiter=delimiter,
        width=len(names),
        columns=names if header else [],
        start=len(first) if header else 0,
    )


def lines(
    path: Path, dialect: Dialect, on_progress: Callable[[int, int], None] | None = None
) -> Iterator[Lines]:
    """All rows of *path*, some megabytes at a time, each checked to have the dialect's width.

    Args:
        on_progress: called with the bytes of the file taken so far, and all of them.

    Raises:
        DataError: naming the file and the row: another width, or the file ends too early.
    """
    total = path.stat().st_size
    row, offset, rest = 0, dialect.start, b""
    with _opened(path) as (stream, taken):
        try:
            stream.read(dialect.start)
            while block := stream.read(BLOCK_BYTES):
                whole = rest + block
                end = whole.rfind(b"\n") + 1
                rest = whole[end:]
                if end:
                    part = _checked(path, dialect, whole[:end], row, offset)
                    yield part
                    row, offset = row + len(part.starts), offset + end
                if on_progress is not None:
                    on_progress(taken.tell(), total)
        except (OSError, EOFError, zlib.error) as error:
            raise _unreadable(path, error, row) from None
    if rest.strip():
        yield _checked(path, dialect, rest + b"\n", row, offset)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """The text, and the file whose position says how far the reading is."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not packed:
            yield file, file
            return
        with gzip.GzipFile(fileobj=file) as text:
            yield text, file  # type: ignore[misc]  # reads like a BinaryIO


def _unreadable(path: Path, error: Exception, row: int) -> DataError:
    return DataError(
        f"{path} must be readable to its end. Received: {error}, after row {row}; copy it again"
    )


def _checked(path: Path, dialect: Dialect, text: bytes, row: int, offset: int) -> Lines:
    ends = _places(text, b"\n")
    while len(ends) > 1 and not text[ends[-2] : ends[-1]].strip():
        ends = ends[:-1]  # empty lines at the end; elsewhere they are rows of the wrong width
    delimiters = _places(text, dialect.delimiter.encode())
    widths = np.diff(np.searchsorted(delimiters, ends), prepend=0) + 1
    wrong = np.flatnonzero(widths != dialect.width)
    if len(wrong):
        first = int(wrong[0])
        line = row + first + 1 + bool(dialect.columns)
        raise DataError(
            f"{path} must have {dialect.width} values in every row, as in its first. "
            f"Received: {widths[first]} in row {row + first} (line {line})"
        )
    starts = np.concatenate([[0], ends[:-1] + 1])
    return Lines(row, offset, text[: ends[-1] + 1], starts)


def _places(text: bytes, character: bytes) -> np.ndarray:
    return np.flatnonzero(np.frombuffer(text, np.uint8) == character[0])


def numbers(path: Path, dialect: Dialect, text: bytes, rows: np.ndarray) -> np.ndarray:
    """The values of whole lines, shape (rows, width), float32.

    Args:
        rows: the number of each line's row, for messages.

    Raises:
        DataError: a value is no number; file, row and column are named.
    """
    try:
        values = np.loadtxt(
            io.BytesIO(text), np.float32, delimiter=dialect.delimiter, comments=None, ndmin=2,
            encoding="latin1",
        )  # fmt: skip
    except ValueError as error:
        raise _no_number(path, dialect, text, rows, error) from None
    if values.shape != (len(rows), dialect.width):
        raise DataError(
            f"{path} must not change while it is read. Received: {len(values)} rows of "
            f"{values.shape[1]} values, where there were {len(rows)} of {dialect.width}"
        )
    return values


def _no_number(
    path: Path, dialect: Dialect, text: bytes, rows: np.ndarray, error: ValueError
) -> DataError:
    for row, line in zip(rows.tolist(), text.decode("latin1").split("\n"), strict=False):
        for column, field in enumerate(line.split(dialect.delimiter)):
            if not _is_number(field.strip().strip('"')):
                name = f" ({dialect.columns[column]})" if dialect.columns else ""
                return DataError(
                    f"{path} must have numbers only. "
                    f"Received: {field[:_SHOWN]!r} in row {row}, column {column}{name}"
                )
    return DataError(f"{path} must have numbers only. Received: {error}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
