"""Whether matex gave what an outside reader gives, or said why it does not. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

__all__ = ["FAILURES", "Outcome", "judge", "refused"]

#: WRONG: other numbers. LOST: rows or members silently missing. REASON: refused, and what it says
#: is not why. CRASH: another exception than matex's own, or the end of the process. HANG: no end.
#: BROKEN: the case itself fails, so nothing is known.
FAILURES = ("WRONG", "LOST", "REASON", "CRASH", "HANG", "BROKEN")

#: How far one value may be from another that is the same in float32, of the largest.
_FLOAT32 = 2.0**-22


class Outcome(NamedTuple):
    """A word, "equal" or "refused" or one of FAILURES, and what there is to say about it."""

    word: str
    why: str = ""


def refused(why: str, word: str) -> Outcome:
    """A file that matex refused for the reason *why*, which must match *word*."""
    if word and re.search(word, why, re.IGNORECASE):
        return Outcome("refused", why)
    wanted = f"the reason must have {word!r}" if word else "it can be read"
    return Outcome("REASON", f"{wanted}. Received: {why}")


def judge(
    expected: Mapping[str, Any] | None,
    found: Mapping[str, np.ndarray],
    notes: Mapping[str, str],
    *,
    word: str = "",
    within: float = 0.0,
) -> Outcome:
    """Compare matex's values of a file with those of the outside reader.

    Args:
        expected: name -> values (masked where missing), or None where the outside reader has
            something that is no rows of numbers; None for a file that must be refused.
        found, notes: rows and notes of matex.
        word: regular expression that the note about a member of numbers that was passed over must
            match.
    """
    if expected is None:
        return Outcome("WRONG", f"it must be refused ({word}). Received: {_shown(found)}")
    known = {name for name, values in expected.items() if values is not None}
    if extra := [str(name) for name in found if name not in known]:
        return Outcome("WRONG", f"the file has no {', '.join(extra)}. Received: {_shown(found)}")
    passed = []
    for name, values in expected.items():
        note = _note(notes, name)
        if name in found:
            if wrong := _compared(name, values, found[name], note, within):
                return wrong
        elif not note:
            return Outcome("LOST", f"{name} is neither among the members nor the notes")
        elif values is not None and not word:
            return Outcome("LOST", f"{name} can be read. Received: {note}")
        elif values is not None and not re.search(word, note, re.IGNORECASE):
            return Outcome("REASON", f"the note on {name} must have {word!r}. Received: {note}")
        else:
            passed.append(f"{name}: {note}")
    return Outcome("equal" if found else "refused", "; ".join(passed))


def _note(notes: Mapping[str, str], name: str) -> str:
    """The notes on a member: under its name or its group's, or with its name in them."""
    name = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    parts = name.split("/")
    for whole in ("/".join(parts[:end]) for end in range(len(parts), 0, -1)):
        if whole in notes:
            return notes[whole]
    itself = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    return next((note for note in notes.values() if itself.search(note)), "")


def _compared(
    name: str, expected: Any, found: np.ndarray, note: str, within: float
) -> Outcome | None:
    """The difference in the values of one member; None where there is none."""
    if found.shape != expected.shape:
        lost = found.ndim and expected.ndim and len(found) < len(expected)
        shapes = f"{name} has shape {expected.shape}. Received: {found.shape}"
        return Outcome("LOST" if lost else "WRONG", shapes)
    missing = np.ma.getmaskarray(expected)
    values = np.ma.getdata(expected)
    if missing.any() and found.dtype.kind != "f":
        if re.search("fill|missing", note, re.IGNORECASE):
            return _difference(name, values[~missing], found[~missing], within)
        return Outcome("WRONG", f"{name} has missing values. Received: numbers for them")
    if missing.any() and not np.isnan(found[missing]).all():
        return Outcome("WRONG", f"{name} has missing values. Received: {found[missing][:3]}")
    return _difference(name, values[~missing], found[~missing], within)


def _difference(name: str, values: np.ndarray, found: np.ndarray, within: float) -> Outcome | None:
    """The difference of two arrays of one shape beyond that of their types, or *within*."""
    wide, mine = values.astype(np.float64), found.astype(np.float64)
    if not within and values.dtype.kind in "iu" and found.dtype.kind in "iu":
        apart = values != found
    else:
        finite = np.isfinite(wide)
        narrow = np.dtype(np.float32) in (values.dtype, found.dtype)
        largest = float(np.abs(wide[finite]).max(initial=0.0))
        room = max(within, largest * _FLOAT32 if narrow and values.dtype != found.dtype else 0.0)
        with np.errstate(invalid="ignore"):  # infinity minus infinity
            near = np.abs(wide - mine) <= room
        apart = ~(near | (wide == mine) | (np.isnan(wide) & np.isnan(mine)))
    if apart.any():
        place = np.flatnonzero(apart)[0]
        one, other = wide.ravel()[place], mine.ravel()[place]
        return Outcome("WRONG", f"{name} has {one:.9g}. Received: {other:.9g}")
    if not within and (merged := len(np.unique(values)) - len(np.unique(found))) > 0:
        return Outcome(
            "WRONG", f"{name} has different values, {merged} of which became equal to others"
        )
    return None


def _shown(found: Mapping[str, np.ndarray]) -> str:
    return ", ".join(f"{name} {values.shape} {values.dtype}" for name, values in found.items())
