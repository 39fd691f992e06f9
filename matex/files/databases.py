"""SQLite databases, which C code opens: each rank has its own, the leader's is the real one."""

from __future__ import annotations

import functools
import os
from typing import Any
from urllib.parse import quote, unquote

from matex.files import real
from matex.files.interface import Files
from matex.files.view import FileView
from matex.files.writing import to_write
from matex.replacing import replace

__all__ = ["install"]

# Files that SQLite writes beside a database while it changes it.
_BESIDE = ("-journal", "-wal", "-shm")
_URI = 6  # its place after the name among the arguments of connect
_MOST_COPIED = 1 << 28  # bytes of a database that is there; a larger one is only read, as a rule


def install(files: Files) -> None:
    """Replace how Python's module connects, for the rest of the process. Local."""
    try:
        import sqlite3
        from sqlite3 import dbapi2
    except ImportError:  # a Python that was built without it
        return
    original = sqlite3.connect

    @functools.wraps(original)
    def connect(database: Any, *args: Any, **kwargs: Any) -> Any:
        view = files.view()
        is_uri = bool(kwargs.get("uri", args[_URI] if len(args) > _URI else False))
        name, query = _named(database, is_uri=is_uri)
        path = files.path(name) if view is not None and _is_file(name, query) else None
        if view is None or path is None:
            return original(database, *args, **kwargs)
        try:
            place = _place(view, path, query)
        except OSError:
            raise sqlite3.OperationalError("unable to open database file") from None
        if place == path and view.folder is None:
            return original(database, *args, **kwargs)
        if query is not None:
            place = f"file:{quote(place)}?{query}"
        return original(place, *args, **kwargs)

    replace(sqlite3, "connect", connect)
    replace(dbapi2, "connect", connect)


def _named(database: Any, *, is_uri: bool) -> tuple[Any, str | None]:
    """The file that *database* names, and the query of a URI; None for any other name. Pure."""
    if isinstance(database, bytes | os.PathLike):
        database = os.fsdecode(database)
    if not (is_uri and isinstance(database, str) and database.startswith("file:")):
        return database, None
    name, _, query = database.removeprefix("file:").partition("#")[0].partition("?")
    if name.startswith("//"):
        name = "/" + name[2:].partition("/")[2]
    return unquote(name), query


def _is_file(name: Any, query: str | None) -> bool:
    return (
        isinstance(name, str)
        and name not in ("", ":memory:")
        and "mode=memory" not in (query or "").split("&")
    )


def _place(view: FileView, path: str, query: str | None) -> str:
    """Place of the database *path*, which the script may change unless *query* forbids it.

    Raises:
        OSError: there is no such folder, or no file to read.
    """
    words = (query or "").split("&")
    if "mode=ro" in words or "immutable=1" in words:
        return view.at(path, _that_is_there)
    there = view.place(path)
    if there is None and "mode=rw" in words:
        raise FileNotFoundError(path)
    if there == path and not view.leads and real.stat(there).st_size > _MOST_COPIED:
        return path
    place = to_write(view, path, "overwrite")
    if view.leads and view.ledger is not None and not view.knows_ranks:
        for beside in _BESIDE:
            if not real.lexists(path + beside):
                view.ledger.note_aside(path + beside)
    return place


def _that_is_there(place: str) -> str:
    real.lstat(place)
    return place
