"""Tracebacks of the script's errors, without matex's frames between the script's."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from matex.records import console

__all__ = ["is_of_script_alone", "shorten"]

_ROOT = Path(__file__).parents[2]
_HIDDEN = tuple(f"{_ROOT / name}{os.sep}" for name in ("matex", "ft", "checkpoints"))
_FILES = (
    f"{_ROOT / 'matex' / 'files'}{os.sep}"  # around open() and the like, which no rank waits in
)
# The frame of Keras that remains after Keras has removed its own from a traceback.
_FILTER = str(Path("keras", "src", "utils", "traceback_utils.py"))
_LEFT_OUT = (
    "matex: frames of matex are left out of this traceback; the log of the rank has all, and so "
    "has the terminal after keras.config.disable_traceback_filtering()"
)


def shorten(error: BaseException) -> None:
    """Remove matex's frames from the traceback of *error*, and from those of its causes.

    It does so if Keras removes its own frames. Frames of matex stay if they are innermost, because
    the error is there, unless Keras has removed frames of its own: the error may be in one of
    these, as for an input of another shape. The log of this rank gets the whole traceback, and the
    terminal a line that says so.

    Args:
        error: exception that will be printed next.
    """
    if not _is_wanted():
        return
    whole = "".join(traceback.format_exception(error))
    left_out = False
    for each in list(_chain(error)):
        entries = list(_entries(each.__traceback__))
        kept = _kept(entries, of_syntax=isinstance(each, SyntaxError))
        each.__traceback__ = _joined(kept)
        # The frames around the script are of no use to the reader.
        left_out |= bool(kept) and len(kept) < len(entries) - entries.index(kept[0])
    if left_out:
        console.write_to_log(f"the whole traceback:\n{whole}\n")
        print(_LEFT_OUT, file=sys.stderr, flush=True)


def is_of_script_alone(error: BaseException) -> bool:
    """Whether *error* went through no call in which other ranks may wait for this one. Local.

    An error in a thread of the script ends the thread alone then, as in any Python program.
    """
    names = (entry.tb_frame.f_code.co_filename for entry in _entries(error.__traceback__))
    return not any(name.startswith(_HIDDEN) and not name.startswith(_FILES) for name in names)


def _is_wanted() -> bool:
    """Whether Keras filters tracebacks, as it does by default."""
    keras = sys.modules.get("keras")
    return keras is None or bool(keras.config.is_traceback_filtering_enabled())


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """*error*, its causes and its contexts, each once."""
    known: set[int] = set()
    left = [error]
    while left:
        each = left.pop()
        if each is not None and id(each) not in known:
            known.add(id(each))
            yield each
            left += [each.__cause__, each.__context__]


def _entries(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _kept(entries: list[TracebackType], *, of_syntax: bool) -> list[TracebackType]:
    """Traceback entries to show.

    Args:
        of_syntax: whether they are of a syntax error, which is in a file and in no frame.
    """
    shown = [not _is_hidden(entry) for entry in entries]
    if not any(shown):
        return [] if of_syntax else entries
    if any(entry.tb_frame.f_code.co_filename.endswith(_FILTER) for entry in entries):
        return [entry for entry, is_shown in zip(entries, shown, strict=True) if is_shown]
    innermost = len(shown) - shown[::-1].index(True)
    return [entry for n, entry in enumerate(entries) if shown[n] or n >= innermost]


def _joined(entries: list[TracebackType]) -> TracebackType | None:
    trace: TracebackType | None = None
    for entry in reversed(entries):
        trace = TracebackType(trace, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return trace


def _is_hidden(entry: TracebackType) -> bool:
    return entry.tb_frame.f_code.co_filename.startswith(_HIDDEN)
