"""The cause in the text of an error, which frameworks print below headings and frames. Pure."""

from __future__ import annotations

import re

__all__ = ["cause_of", "in_one_line"]

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
# Keras puts the location before the cause, TensorFlow its own frames, AutoGraph lines of code.
_ABOVE = re.compile(
    r"Exception encountered when calling|Graph execution error|Detected at node|File |in user code|"
    r"Could not automatically infer|\d+ root error\(s\) found"
)
# What TensorFlow adds to the line of the cause: names of its graphs, and the stages of a pipeline.
_ADDED = re.compile(
    r"\{\{function_node [^}]*\}\} ?|\s*\[\[\{\{node [^}]*\}\}\]\]|\s*\[Op:\w+\]( name:.*)?$"
)
_IN_PIPELINE = re.compile(
    r"Error in user-defined function passed to \w+(:\d+)? transformation with iterator: "
    r"\w+(::[\w\[\]]+)*: "
)
# Keras says how many rows each argument has, where they differ, in a line of its own.
_SIZES = re.compile(r"\n(?='\w+' sizes: )")


def cause_of(error: BaseException) -> str:
    """First line of *error*'s message that tells the cause; "" if there is none."""
    text = _SIZES.sub(", ", _STYLE.sub("", str(error)))
    lines = [line for given in text.splitlines() if (line := _tidied(given.strip()))]
    kind = f"{type(error).__name__}: "
    told = [line.removeprefix(kind) for line in lines if line.startswith(kind)]
    told = told or [line for line in lines if not _ABOVE.match(line)] or lines
    return told[0] if told else ""


def _tidied(line: str) -> str:
    return _IN_PIPELINE.sub("in a function of tf.data: ", _ADDED.sub("", line))


def in_one_line(error: BaseException) -> str:
    """Kind of *error* and its cause, if it tells one."""
    cause = cause_of(error)
    return f"{type(error).__name__}: {cause}" if cause else type(error).__name__
