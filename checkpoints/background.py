"""Saving from a thread, so that the computing thread waits for a copy of the arrays at most.

A function that makes the snapshot can be given instead: then even the copy is made by the thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from checkpoints.errors import StaleWriter, StorageError
from checkpoints.snapshot import Snapshot
from checkpoints.store import Store
from checkpoints.together import Team

__all__ = ["BackgroundWriter", "Saved"]

_LONGEST_RETRY_S = 60.0

Given = Snapshot | Callable[[], Snapshot]


@dataclass(frozen=True, kw_only=True)
class Saved:
    """Outcome of one attempt to save a snapshot.

    Attributes:
        step: number of training steps done in the snapshot.
        seconds: duration of the attempt.
        busy_s: processor time of the attempt in this thread, seconds.
        path: file on the disk; None if the attempt failed, or if another process publishes the
            file, of which this process wrote a part.
        error: reason of a failure; None if there was none.
        place: number of the part that this process wrote, from 0.
        parts: number of parts of the file, each written by another process.

    Example:
        >>> saved = checkpoints.Saved(step=120, seconds=0.8, busy_s=0.1)
        >>> saved.error is None
        True
    """

    step: int
    seconds: float
    busy_s: float
    path: Path | None = None
    error: StorageError | None = None
    place: int = 0
    parts: int = 1


class BackgroundWriter:
    """Saves snapshots one after the other; the newest one waits while another is being written.

    A snapshot that cannot be saved is tried again, after 1 s and then at longer intervals, until
    it is saved or a newer one replaces it: so a full disk is survived, and a mount that returns is
    used again.

    The arrays of a snapshot must not change after `save`. A snapshot with a team is saved by all
    processes of the team together; if they fail, the publishing process writes the whole file.

    Args:
        store: store for the snapshots; no other object saves to it.
        on_saved: function of the outcome, called from the saving thread after each attempt.
        retry_s: seconds to wait after the first failure, 1 by default.

    Example:
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     writer = checkpoints.BackgroundWriter(
        ...         checkpoints.Store(directory), on_saved=lambda saved: print(saved.step)
        ...     )
        ...     writer.save(checkpoints.Snapshot(weights={}, cursor={"step": 120}))
        ...     writer.close()
        120
        True
    """

    def __init__(
        self, store: Store, *, on_saved: Callable[[Saved], None], retry_s: float = 1.0
    ) -> None:
        self._store = store
        self._on_saved = on_saved
        self._retry_s = retry_s
        self._changed = threading.Condition()
        self._storing = threading.Lock()
        self._waiting: tuple[Given, Team | None] | None = None
        self._closing = False
        self._superseded = False
        self._thread: threading.Thread | None = None
        self._ended_by: Exception | None = None

    def save(self, snapshot: Given, team: Team | None = None) -> None:
        """Queue a snapshot; it replaces a snapshot that still waits.

        Args:
            snapshot: snapshot, or function that returns it, called once in the thread when its turn
                comes.
            team: processes that save it together; None, the default, for this process alone.

        Raises:
            ValueError: after `close`.
            RuntimeError: the thread has ended by an exception, which is its cause, of the function
                of a snapshot or of `on_saved`. Nothing is saved from then on.
        """
        with self._changed:
            if self._closing:
                raise ValueError("a writer that is not closed was wanted. Received: a closed one.")
            if self._ended_by is not None:
                raise RuntimeError(
                    "a writer whose thread runs was wanted. Received: one that ended by "
                    f"{type(self._ended_by).__name__}: {self._ended_by}"
                ) from self._ended_by
            self._waiting = snapshot, team
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="checkpoints-writer", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()

    def save_now(self, snapshot: Snapshot, team: Team | None = None) -> Saved:
        """Save from the calling thread, and return when it is done or has failed.

        A waiting snapshot is dropped, because it is older. A failure is not retried. ``on_saved``
        is called as for any attempt.

        Args:
            snapshot: snapshot to save.
            team: processes that save it together; None, the default, for this process alone.

        Returns:
            The outcome; a failure is in its ``error``.
        """
        with self._changed:
            self._waiting = None
            self._superseded = True
            self._changed.notify_all()
        return self._attempt(snapshot, team)

    def close(self, timeout_s: float | None = None) -> bool:
        """Try to save the waiting snapshot once more, and end the thread.

        Args:
            timeout_s: seconds to wait for the thread; None, the default, for no limit.

        Returns:
            True if the thread has ended in time, and not by an exception.
        """
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout_s)
            return not self._thread.is_alive() and self._ended_by is None
        return True

    def _run(self) -> None:
        try:
            self._save_all()
        except Exception as error:
            with self._changed:
                self._ended_by = error
            raise

    def _save_all(self) -> None:
        while True:
            with self._changed:
                while self._waiting is None and not self._closing:
                    self._changed.wait()
                given, self._waiting = self._waiting, None
                self._superseded = False
                if given is None:
                    return
            self._save(*given)
            given = None  # it holds a whole state

    def _save(self, given: Given, team: Team | None) -> None:
        began_s = time.thread_time()
        snapshot = given() if callable(given) else given
        making_s = time.thread_time() - began_s
        delay_s = self._retry_s
        last = False
        if team is not None:
            # A writer that waits here must not delay other processes' work on a newer snapshot.
            known = team.over
            team = replace(team, over=lambda: known() or self._is_superseded())
        while True:
            saved = self._attempt(snapshot, team, making_s)
            making_s = 0.0
            stale = isinstance(saved.error, StaleWriter)  # no retry can help
            if saved.error is None or saved.place or last or stale:
                return
            team = None
            with self._changed:
                self._changed.wait_for(self._has_news, delay_s)
                if self._waiting is not None or self._superseded:
                    return
                last = self._closing
            delay_s = min(2 * delay_s, _LONGEST_RETRY_S)

    def _attempt(self, snapshot: Snapshot, team: Team | None, making_s: float = 0.0) -> Saved:
        with self._storing:
            began, busy = time.monotonic(), time.thread_time()
            path, error, parts = None, None, 1
            try:
                if team is not None:
                    path, parts = self._store.save_together(snapshot, team), team.size
                if path is None and (team is None or not team.place):
                    path, parts = self._store.save(snapshot), 1
            except StorageError as problem:
                error = problem
            saved = Saved(
                step=snapshot.step,
                seconds=time.monotonic() - began,
                busy_s=time.thread_time() - busy + making_s,
                path=path,
                error=error,
                place=0 if team is None else team.place,
                parts=parts,
            )
        self._on_saved(saved)
        return saved

    def _has_news(self) -> bool:
        return self._closing or self._is_superseded()

    def _is_superseded(self) -> bool:
        return self._waiting is not None or self._superseded
