"""Unique HDF5 link paths for the names of arrays. For people; the manifest has the names.

A slash in a name makes a group, so `h5ls` finds ``dense/kernel`` as a path. Characters that a
path cannot contain are escaped: ``%`` and control characters as ``%XX``, the segment ``.`` as
``%2E``, an empty segment as ``%empty``. If a name is also the beginning of another (``a`` beside
``a/b``), it would need a data set and a group at one path; then its own last segment gets the
suffix ``%array``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_NAME_BYTES = 1024

_SPECIAL = re.compile(r"[%\x00-\x1f\x7f]")


def name_problem(name: object) -> str | None:
    """Reason for which *name* cannot name an array; None if it can."""
    if not isinstance(name, str):
        return "a name must be a str"
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "a name must be valid Unicode"
    return f"a name has at most {MAX_NAME_BYTES} bytes" if size > MAX_NAME_BYTES else None


def link_paths(names: Iterable[str]) -> list[str]:
    """Link path of each of the *names*, which must differ, relative to the group of its section."""
    names = list(names)
    groups = {name[:end] for name in names for end, char in enumerate(name) if char == "/"}
    return [
        "/".join(map(_escape, name.split("/"))) + ("%array" if name in groups else "")
        for name in names
    ]


def _escape(segment: str) -> str:
    if segment == "":
        return "%empty"
    if segment == ".":
        return "%2E"
    return _SPECIAL.sub(lambda m: f"%{ord(m[0]):02X}", segment)
