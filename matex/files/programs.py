"""Programs that the script runs and waits for: the leader runs them for all ranks.

A program writes to the real files, on whichever rank it runs: a second ``rm -r logs``, a moment
later, would remove files that the leader has written since. So the others wait until the leader's
program has ended, and get the same result; where the leader has died, the next rank takes its
place. A program with other words than the leader's, such as a process id, or whose output goes to
an open file of this rank, is run by each rank.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
import pickle
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from matex.files import real
from matex.files.called_from import called_from
from matex.files.held_files import see_real
from matex.files.private import PrivateFiles
from matex.files.view import FileView
from matex.replacing import replace

__all__ = ["install"]

# Time that the leader may take to reach the same call, unless it has died.
_LEADER_S, _LOOK_S = 60.0, 0.01
# Exceptions that subprocess may raise for a program.
_ERRORS = (OSError, subprocess.SubprocessError, ValueError, TypeError)


def install(files: PrivateFiles) -> None:
    """Replace the functions of ``subprocess`` that wait, for the rest of the process. Local."""
    asked: dict[str, Iterator[int]] = {}
    process = os.getpid()

    def once(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            def run() -> Any:
                return original(*args, **kwargs)

            view = files.view()
            folder = files.shared_folder
            alone = view is None or view.knows_ranks or folder is None or os.getpid() != process
            if alone or folder is None or _goes_to_files(kwargs):
                return run()
            words = repr(args or kwargs.get("args"))
            place = called_from()
            if threading.current_thread() is not threading.main_thread():
                place += words  # threads may come in any order
            number = next(asked.setdefault(place, itertools.count()))
            return _Program(files, folder, f"{place}{number}", words).result(run)

        return call

    for name in ("run", "call"):
        replace(subprocess, name, once(getattr(subprocess, name)))


def _goes_to_files(given: dict[str, Any]) -> bool:
    outputs = (given.get("stdout"), given.get("stderr"))
    return not all(output is None or _is_special(output) for output in outputs)


def _is_special(output: Any) -> bool:
    return output in (subprocess.PIPE, subprocess.DEVNULL, subprocess.STDOUT)


def _state(path: str) -> tuple[int, ...] | None:
    """State of the real file *path*, which differs after a change; None if it does not exist."""
    try:
        now = real.lstat(path)
    except OSError:
        return None
    content = () if stat.S_ISDIR(now.st_mode) else (now.st_size, now.st_mtime_ns)
    return now.st_dev, now.st_ino, *content


class _Program:
    """One call of a program, with the same name on all ranks."""

    def __init__(self, files: PrivateFiles, folder: Path, name: str, words: str) -> None:
        self._files = files
        self._words = words
        digest = hashlib.blake2b(name.encode(), digest_size=16).hexdigest()
        self._begun, self._ended = folder / f"{digest}.begun", folder / f"{digest}.ended"

    def result(self, run: Callable[[], Any]) -> Any:
        """Result of the leader's call, by *run* if this rank is the leader."""
        until = time.monotonic() + _LEADER_S
        while True:
            if self._ended_alike():
                return self._told()
            view = self._files.view()
            if view is not None and view.leads:
                return self._run_for_all(view, run)
            begun, lives = self._read(self._begun), self._files.leader_lives()
            waits = time.monotonic() < until or (lives is True and begun is not None)
            differs = begun is not None and json.loads(begun) != self._words
            if lives is False and view is not None:
                leads = self._files.succeed()
                if leads:
                    return self._run_for_all(view, run)
                waits = leads is False
            if differs or not waits:
                return run()
            time.sleep(_LOOK_S)

    def _ended_alike(self) -> bool:
        begun = self._read(self._begun)
        ended = self._read(self._ended)
        return begun is not None and ended is not None and json.loads(begun) == self._words

    def _run_for_all(self, view: FileView, run: Callable[[], Any]) -> Any:
        self._write(self._begun, json.dumps(self._words).encode())
        before = {path: _state(path) for path in view.changes.paths}
        value, failure = None, None
        try:
            value = run()
        except _ERRORS as error:
            failure = error
        changed = [path for path, state in before.items() if _state(path) != state]
        self._write(self._ended, pickle.dumps((value, failure, changed)))
        if failure is not None:
            raise failure
        return value

    def _told(self) -> Any:
        value, error, changed = pickle.loads(self._read(self._ended) or b"")
        view = self._files.view()
        if view is not None and not view.leads:
            for path in changed:
                see_real(view, path)
        if error is not None:
            raise error
        return value

    def _write(self, path: Path, content: bytes) -> None:
        with real.direct():
            aside = path.with_suffix(".part")
            aside.write_bytes(content)
            aside.replace(path)

    def _read(self, path: Path) -> bytes | None:
        with real.direct():
            try:
                return path.read_bytes()
            except FileNotFoundError:
                return None
