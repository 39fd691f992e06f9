"""Keras's file functions: a rank always reads whole files, fetched once for all ranks."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matex import keras_hooks
from matex.files import real
from matex.files.interface import Files
from matex.files.scratch import ALIAS

__all__ = ["install", "make_directory"]

# Time that the leader, who shows the progress, may take to reach the same call.
_LEADER_S, _LOOK_S = 60.0, 0.05
_ENDINGS = (".keras", ".h5", ".hdf5")


def install(files: Files) -> None:
    """Replace Keras's functions for the rest of the process. Local."""
    fetches: Counter[str] = Counter()
    keras_hooks.replace_file_functions(
        {
            "save": lambda original, given: _save(files, original, given),
            "fetch": lambda original, given: _fetch(files, fetches, original, given),
            "directory": make_directory,
            "folder": lambda original, given: _folder(files, original, given),
        }
    )


def _save(files: Files, original: Callable[..., Any], given: dict[str, Any]) -> Any:
    """Write a real file under another name, and then rename it."""
    target = given["filepath"]
    view = files.view()
    path = files.path(target) if view is not None and "://" not in str(target) else None
    if view is None or path is None or not path.endswith(_ENDINGS):
        return original(**given)
    real_files = view.leads or (view.knows_ranks and not view.is_mirrored(path))
    folder = os.path.dirname(path)
    asks = real.lexists(path) and not given["overwrite"]
    if not real_files or asks or given.get("max_shard_size") or not real.isdir(folder):
        return original(**given)
    if real.lexists(path) and not os.path.isfile(path):
        return original(**given)
    if real.islink(path):
        path = os.path.realpath(path)
    aside = view.aside(path)
    try:
        with real.direct():
            result = original(**{**given, "filepath": aside})
        if os.path.isfile(path):
            shutil.copymode(path, aside)
        view.claim(path, "replace")
        real.replace(aside, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            real.unlink(aside)
    return result


def make_directory(original: Callable[..., Any], given: dict[str, Any]) -> Any:
    """Make a directory that Keras has not found; another rank may have made it meanwhile.

    That is so where the script asked for its rank, and all ranks' files are the real ones.
    """
    try:
        return original(**given)
    except FileExistsError:
        if not os.path.isdir(given["path"]):
            raise
        return None


def _folder(files: Files, original: Callable[..., Any], given: dict[str, Any]) -> Any:
    """Read a folder that the script made by a name that is this rank's own, and equal on all."""
    view = files.view()
    path = None if view is None else files.path(given["directory"])
    if view is None or path is None or path not in view.changes.created or view.knows_ranks:
        return original(**given)
    result = original(**{**given, "directory": ALIAS + path})
    for part in result if isinstance(result, tuple) else (result,):
        if isinstance(paths := getattr(part, "file_paths", None), list):
            part.file_paths = [path.removeprefix(ALIAS) for path in paths]
    return result


def _fetch(
    files: Files,
    fetches: Counter[str],
    original: Callable[..., Any],
    given: dict[str, Any],
) -> Any:
    """Fetch and unpack on the first rank of a file system; the others find the result."""
    view = files.view()
    if view is None:
        return original(**given)
    text = json.dumps(given, default=str, sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    fetches[key] += 1
    with real.direct():
        until = time.monotonic() + _LEADER_S
        while True:
            try:
                file = _locked(keras_hooks.cache_folder(given))
            except OSError:  # a place that cannot be written to, which Keras may never want
                return original(**given)
            with file:
                wait = files.others_first and time.monotonic() < until
                if not wait or _has_begun(file, key, fetches[key], files.run):
                    result = _once(file, key, fetches[key], files, original, given)
                    break
            time.sleep(_LOOK_S)
    if isinstance(result, str | os.PathLike):
        path = os.path.abspath(result)
        for gone in [gone for gone in view.changes.deleted if f"{gone}/".startswith(f"{path}/")]:
            del view.changes.deleted[gone]
    return result


def _has_begun(file: Any, key: str, number: int, run: str) -> bool:
    """Whether some rank has begun, even if it died meanwhile."""
    told = _read(file)
    done = told.get("done", {}).get(key, {}) if told.get("run") == run else {}
    return done.get("begun", 0) >= number


def _once(
    file: Any,
    key: str,
    number: int,
    files: Files,
    original: Callable[..., Any],
    given: dict[str, Any],
) -> Any:
    told = _read(file)
    if told.get("run") != files.run:
        told = {"run": files.run, "done": {}}
        files.at_end.append(file.name)
    elif file.name not in files.at_end:
        files.at_end.append(file.name)
    done = told["done"].get(key, {"number": 0})
    if done["number"] >= number:
        return done["result"]
    if done.get("begun") == number:  # by a rank that died over it
        given = {**given, "force_download": True}
    _write(file, {**told, "done": {**told["done"], key: {**done, "begun": number}}})
    result = original(**given)
    after = {"number": number, "begun": number, "result": str(result)}
    _write(file, {**told, "done": {**told["done"], key: after}})
    return result


def _locked(folder: Path) -> Any:
    """A file in *folder* that this rank holds exclusively until it closes it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ".matex-lock"
    while True:
        file = path.open("a+b", buffering=0)
        fcntl.flock(file, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if _is_same(file, path):
                return file
        file.close()  # it was removed meanwhile


def _is_same(file: Any, path: Path) -> bool:
    mine, there = os.fstat(file.fileno()), path.stat()
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)


def _read(file: Any) -> dict[str, Any]:
    file.seek(0)
    try:
        told = json.loads(file.read() or b"{}")
    except ValueError:  # cut short by a death
        return {}
    return told if isinstance(told, dict) else {}


def _write(file: Any, told: dict[str, Any]) -> None:
    file.truncate(0)
    file.write(json.dumps(told).encode())
