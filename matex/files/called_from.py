"""Place in the script from which a function was called, named equally on all ranks."""

from __future__ import annotations

import sys
import traceback

__all__ = ["called_from"]

# Modules that run the script; frames outside of it differ on newcomers.
_RUNNERS = ("matex.process.program", "runpy")


def called_from() -> str:
    """Lines of the script in the call stack, innermost first. Local."""
    lines = []
    # From a frame that is given: without one Python leaves out as many as its own callers have.
    for frame, line in traceback.walk_stack(sys._getframe(1)):
        if frame.f_globals.get("__name__") in _RUNNERS:
            break
        lines.append(f"{frame.f_code.co_filename}:{line} ")
    return "".join(lines)
