"""Names of the files with curves for TensorBoard, by which matex knows its own again."""

from __future__ import annotations

import os
import re
import socket
import time

__all__ = ["is_curve_file", "new_curve_file"]

_SECOND = 10**9
_FORM = re.compile(r"events\.out\.tfevents\.(\d+)\..*\.(\d+)\.\d+", re.ASCII)


def new_curve_file() -> str:
    """Name of a file that this process begins now.

    TensorBoard reads the files of a directory in the order of their names.
    """
    host, now = socket.gethostname(), time.time_ns()
    return f"events.out.tfevents.{now // _SECOND}.{host}.{now}.{os.getpid()}"


def is_curve_file(name: str) -> bool:
    """Whether *name* is one of :func:`new_curve_file`, and not of TensorFlow's own writer. Pure."""
    found = _FORM.fullmatch(name)
    return found is not None and int(found[2]) // _SECOND == int(found[1])
