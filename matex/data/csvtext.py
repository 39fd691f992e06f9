"""CSV text as whole lines: detection of the columns, and a check of every line."""

from __future__ import annotations

import contextlib
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from matex.data.csv_header import names_in, unquoted
from matex.errors import DataError

__all__ = ["Dialect", "Lines", "lines", "numbers", "sniff"]

BLOCK_BYTES = 8 << 20
_DELIMITERS = b",;\t"
_SHOWN = 40
_UTF8_MARK = b"\xef\xbb\xbf"
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
_INTEGER = re.compile(r"[+-]?[0-9]+")

# Text for a missing value: a line of numbers and such text is no header.
_MISSING = {"", "?", "-", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "missing"}

# Above it float32 holds every second integer, and then fewer.
_EXACT = float(1 << 24)


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """The format of a CSV file.

    Args:
        delimiter: one character.
        width: values in a row.
        columns: names of the columns; empty without a header.
        start: offset of the first row, in bytes of the text.
        dtype: type of the values.
        exact: column whose integers must not be rounded, such as the label's.
    """

    delimiter: str
    width: int
    columns: list[str]
    start: int
    dtype: np.dtype[Any] = np.dtype(np.float32)  # noqa: RUF009  # a constant
    exact: int | None = None


class Lines(NamedTuple):
    """Whole lines of equal width.

    Attributes:
        row: number of the first, from 0.
        offset: offset of the lines in the text, bytes.
        text: the lines.
        starts: offsets of each line in *text*, int64.
    """

    row: int
    offset: int
    text: bytes
    starts: np.ndarray


def sniff(path: Path, header: bool | None, dtype: str = "float32") -> Dialect:
    """Look at the first line.

    It names the columns where a field of it is neither a number nor a word for a missing one.

    Raises:
        DataError: it is empty, no text, has a single value, or is written in a way that is not
            read: a decimal comma, a comment, lines that end with CR alone.
    """
    with _opened(path) as (stream, _):
        try:
            first = stream.readline(1 << 20)
        except (OSError, EOFError, zlib.error) as error:
            raise _unreadable(path, error, 0) from None
    mark = len(_UTF8_MARK) if first.startswith(_UTF8_MARK) else 0
    text = first[mark:].strip().decode("utf-8", "replace")
    if "\r" in text:
        raise DataError(
            f"{path} must have lines that end with LF, or CR LF. Received: CR alone; "
            "convert it: tr '\\r' '\\n' < OLD > NEW"
        )
    delimiter = max(_DELIMITERS.decode(), key=unquoted(text).count)
    names = [name.strip().strip("\"'") for name in text.split(delimiter)]
    if len(names) < 2:
        raise DataError(
            f"{path} must have a label and at least one more value in a row, between commas, "
            f"semicolons or tabs. Received: the first line {text[:_SHOWN]!r}"
        )
    _must_be_written_plainly(path, text, names)
    if header is None:
        header = not all(_is_number(name) or name.lower() in _MISSING for name in names)
    if header and len(quoted := names_in(text, delimiter)) > 1:
        names = quoted
    return Dialect(
        delimiter=delimiter,
        width=len(names),
        columns=names if header else [],
        start=len(first) if header else mark,
        dtype=np.dtype(dtype),
    )


def _must_be_written_plainly(path: Path, text: str, names: list[str]) -> None:
    """Refuse a first line that looks like names, but consists of numbers in another notation."""
    parts = [part.strip() for part in text.split(";")]
    commas = [part for part in parts if _DECIMAL_COMMA.fullmatch(part)]
    if len(parts) > 1 and commas and all(_is_number(part.replace(",", ".")) for part in parts):
        raise DataError(
            f"{path} must have decimal points. Received: decimal commas, as in {commas[0]!r}; "
            "write it with points"
        )
    for name in names:
        number, sign, _ = name.partition("#")
        if sign and _is_number(number):
            raise DataError(
                f"{path} must have no comments behind its values. Received: {name[:_SHOWN]!r} in "
                "row 0; leave them out"
            )


def lines(
    path: Path, dialect: Dialect, on_progress: Callable[[int, int], None] | None = None
) -> Iterator[Lines]:
    """All rows of *path*, in blocks of some megabytes, checked for the dialect's width.

    Args:
        on_progress: function of the bytes of the file taken so far, and of all bytes.

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
    """The text, and the file whose position tells the progress of reading."""
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
    """The values of whole lines, shape (rows, width), of the dialect's dtype.

    Args:
        rows: the number of each line's row, for messages.

    Values are rounded to the dtype, as all that goes into Keras is.

    Raises:
        DataError: a value is no number, or the dtype cannot hold it: too large, or an integer of
            the label that it would round; file, row and column are named.
    """
    try:
        values = np.loadtxt(
            io.BytesIO(text), np.float64, delimiter=dialect.delimiter, comments=None, ndmin=2,
            encoding="latin1",
        )  # fmt: skip
    except ValueError as error:
        raise _no_number(path, dialect, text, rows, error) from None
    if values.shape != (len(rows), dialect.width):
        raise DataError(
            f"{path} must not change while it is read. Received: {len(values)} rows of "
            f"{values.shape[1]} values, where there were {len(rows)} of {dialect.width}"
        )
    if dialect.dtype == np.float64:
        return values
    with np.errstate(over="ignore"):
        held: np.ndarray = values.astype(dialect.dtype)
    if float(np.abs(values).max(initial=0.0, where=~np.isnan(values))) > _EXACT:
        _must_hold(path, dialect, text, rows, values, held)
    return held


def _must_hold(
    path: Path,
    dialect: Dialect,
    text: bytes,
    rows: np.ndarray,
    values: np.ndarray,
    held: np.ndarray,
) -> None:
    """Refuse values that became infinite, and label integers that were changed."""
    too_large = np.isinf(held) & ~np.isinf(values)
    rounded = (np.abs(values) > _EXACT) & (held != values) & (values == np.floor(values))
    rounded &= np.arange(dialect.width) == dialect.exact
    if not (too_large | rounded).any():
        return
    written = text.decode("latin1").split("\n")
    for column in np.flatnonzero((too_large | rounded).any(0)).tolist():
        row = int(np.flatnonzero((too_large | rounded)[:, column])[0])
        field = written[row].split(dialect.delimiter)[column].strip()
        if too_large[row, column] or _INTEGER.fullmatch(field.strip('"')):
            name = f" ({dialect.columns[column]})" if dialect.columns else ""
            raise DataError(
                f"{path} must have values that {dialect.dtype} holds. Received: "
                f"{field[:_SHOWN]!r} in row {rows[row]}, column {column}{name}; leave the column "
                'out, or open the file with dtype="float64"'
            )


def _no_number(
    path: Path, dialect: Dialect, text: bytes, rows: np.ndarray, error: ValueError
) -> DataError:
    for row, line in zip(rows.tolist(), text.decode("latin1").split("\n"), strict=False):
        for column, field in enumerate(line.split(dialect.delimiter)):
            if not _is_number(field.strip()):
                name = f" ({dialect.columns[column]})" if dialect.columns else ""
                return DataError(
                    f"{path} must have numbers only. "
                    f"Received: {field[:_SHOWN]!r} in row {row}, column {column}{name}"
                    + (_UNQUOTE if _is_quoted(field.strip()) else "")
                )
    return DataError(f"{path} must have numbers only. Received: {error}")


_UNQUOTE = "; take the quotes away: tr -d '\"' < OLD > NEW"


def _is_quoted(field: str) -> bool:
    """Whether a whole number is quoted, and not a number with thousands separators."""
    return field[:1] == field[-1:] == '"' and _is_number(field[1:-1])


def _is_number(text: str) -> bool:
    if "_" in text or not text.isascii():  # which Python reads, and no other program
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True
