"""Fault plans as CSV: one fault per line, in the order in which they are due. Pure.

The first line names the columns, of which only ``kind`` is required; the others are the keys of
a written fault (see :mod:`ft.faults`), with empty cells for keys that a fault does not have.
Lines that begin with ``#`` are comments.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from ft.errors import FaultSyntaxError
from ft.faults import Fault, parse_fault

__all__ = ["read_plan", "write_plan"]

_COLUMNS = (
    *("step", "time", "event", "count", "kind", "rank", "host"),
    *("at", "factor", "steps", "target", "bit"),
)


def read_plan(lines: Iterable[str], *, name: str) -> tuple[Fault, ...]:
    """Read a fault plan from its lines. Pure.

    Args:
        lines: lines of CSV; the first one names the columns.
        name: name of the plan in messages, such as its file name.

    Returns:
        The faults, in the order in which they are due.

    Raises:
        FaultSyntaxError: a line is wrong; the message, one line, names the line and the reason.

    Example:
        >>> ft.read_plan(["step,kind,rank", "40,kill,2"], name="plan.csv")[0].written()
        'kill:rank=2,step=40'
    """
    header: list[str] = []
    faults: list[Fault] = []
    latest: dict[str, float] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        where = f"{name}, line {number}"
        try:
            (cells,) = csv.reader([line], strict=True)
        except (csv.Error, ValueError):
            raise FaultSyntaxError(
                f"{where}: a line of CSV is wanted. Received: {line.strip()!r}"
            ) from None
        cells = [cell.strip() for cell in cells]
        if not header:
            header = _header(cells, where)
            continue
        fault = _fault(header, cells, where)
        for key, value in (("step", fault.step), ("time", fault.time_s)):
            if value is not None and value < latest.get(key, 0):
                raise FaultSyntaxError(
                    f"{where}: faults must come in the order of their {key}. "
                    f"Received: {key}={value:g} after {latest[key]:g}"
                )
            latest[key] = latest.get(key, 0) if value is None else value
        faults.append(fault)
    if not header:
        raise FaultSyntaxError(
            f"{name}: a first line with the names of the columns is wanted, such as "
            "step,kind,rank. Received: nothing"
        )
    return tuple(faults)


def write_plan(faults: Sequence[Fault], *, comment: str = "") -> str:
    """Write a fault plan as text. Pure.

    Args:
        faults: faults, in the order in which they are due.
        comment: one or more lines of text at the top; none by default.

    Returns:
        CSV text for :func:`read_plan`, with the columns that the faults use.

    Example:
        >>> print(ft.write_plan([ft.parse_fault("kill:rank=2,step=40")], comment="one death"))
        # one death
        step,kind,rank
        40,kill,2
        <BLANKLINE>
    """
    rows = [{"kind": fault.kind, **fault.values()} for fault in faults]
    used = [c for c in _COLUMNS if c == "kind" or any(c in row for row in rows)]
    text = io.StringIO(newline="")
    for line in comment.splitlines():
        text.write(f"# {line}\n")
    writer = csv.DictWriter(text, used, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _header(cells: list[str], where: str) -> list[str]:
    unknown = [cell for cell in cells if cell not in _COLUMNS]
    if unknown or "kind" not in cells or len(set(cells)) < len(cells):
        raise FaultSyntaxError(
            f"{where}: columns are {', '.join(_COLUMNS)}, each at most once, and kind is needed. "
            f"Received: {','.join(cells)}"
        )
    return cells


def _fault(header: list[str], cells: list[str], where: str) -> Fault:
    if len(cells) != len(header):
        raise FaultSyntaxError(
            f"{where}: {len(header)} cells are wanted, as in the first line. Received: {len(cells)}"
        )
    values = {key: cell for key, cell in zip(header, cells, strict=True) if cell}
    kind = values.pop("kind", "")
    text = f"{kind}:" + ",".join(f"{key}={value}" for key, value in values.items())
    try:
        fault = parse_fault(text)
    except FaultSyntaxError as error:
        raise FaultSyntaxError(f"{where}: {error}") from None
    return Fault(**{**vars(fault), "text": fault.written(), "where": where})
