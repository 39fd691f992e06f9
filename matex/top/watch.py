"""Repeated reading of a report directory, and display of its run."""

from __future__ import annotations

import json
import socket
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from matex.config.environment import variable
from matex.errors import InputError
from matex.records.events import EVENTS, has_room
from matex.records.launcher_protocol.heartbeat_file import Sign, read_sign
from matex.records.summary import SUMMARY
from matex.top.event_tail import EventTail
from matex.top.processes import look
from matex.top.run_view import RunView
from matex.top.screen import Surroundings, screen
from matex.top.sparkline import BLOCKS, PLAIN

__all__ = ["Watch", "show", "show_once"]

# A screen after another takes at most this part of a core, which the ranks may need: every three
# seconds for some ranks, less often for hundreds of them.
_SHARE = 0.0015
_LEAST_S, _MOST_S = 0.5, 10.0
# Characters of a line that nobody limits.
_ANY_WIDTH = 10_000
# Clocks of hosts and of file servers differ by no more.
_CLOCKS_S = 5.0


class Watch:
    """The run in *directory*, which is only read.

    Args:
        directory: report directory of the run.

    Raises:
        InputError: there is no report, or it cannot be read.
    """

    def __init__(self, directory: Path) -> None:
        if not directory.is_dir():
            raise InputError(
                f"a report directory of matex run is wanted. Received: {directory}, which is "
                f"{'no directory' if directory.exists() else 'absent'}; name the DIR of --report"
            )
        if not _may_become_report(directory):
            raise InputError(
                f"a report directory of matex run is wanted. Received: {directory}, which has no "
                f"{EVENTS}; name the DIR of --report"
            )
        self._directory = directory
        self._tail = EventTail(directory / EVENTS)
        self._sign = Sign()
        self._signed_s: float | None = None
        self.view = RunView()

    def look(self) -> Surroundings:
        """Read the new events into the view, and give the facts that are in no event.

        Raises:
            InputError: the directory cannot be read.
        """
        try:
            arrived = self._tail.read()
            summary, written_s = _read_summary(self._directory / SUMMARY)
        except OSError as error:
            raise InputError(
                "a report directory that can be read is wanted. "
                f"Received: {self._directory}: {error.strerror}"
            ) from None
        if arrived.anew:
            self.view = RunView()
        for event in arrived.events:
            self.view.add(event)
        if written_s < (self.view.newest_s or 0.0) - _CLOCKS_S:  # that of an earlier run
            summary = {}
        elif summary:
            self.view.end_as(str(summary.get("status")))
        now_s = time.time()
        self._hear_sign(now_s)
        heard_s = max(self._signed_s or 0.0, self.view.newest_s or now_s)
        return Surroundings(
            name=str(self._directory),
            now_s=now_s,
            silent_s=max(0.0, now_s - heard_s),
            step=self._sign.step,
            summary=summary,
            processes=look(self.view.ranks.values(), socket.gethostname()),
        )

    def _hear_sign(self, now_s: float) -> None:
        """Note whether the run has given a sign of life since the last check."""
        before, self._sign = self._sign, read_sign(self._directory)
        if before.beats and before != self._sign:
            self._signed_s = now_s


def _may_become_report(directory: Path) -> bool:
    """Whether *directory* is that of a run, or of one that begins; an empty one may be."""
    try:
        is_empty = not any(directory.iterdir())
    except OSError:  # whose reason is told where the events are read
        return True
    return is_empty or has_room(directory) or (directory / EVENTS).exists()


def _read_summary(path: Path) -> tuple[dict[str, Any], float]:
    """Summary in *path*, and its time; empty if there is none.

    What is no JSON object counts as none: it may be written by a program that copies the directory.
    """
    try:
        summary = json.loads(path.read_bytes())
        return (summary if isinstance(summary, dict) else {}), path.stat().st_mtime
    except (FileNotFoundError, ValueError):
        return {}, 0.0


def show_once(directory: Path) -> None:
    """Print one screen.

    Raises:
        InputError: there is no run.
    """
    watch = Watch(directory)
    around = watch.look()
    if watch.view.newest_s is None:
        raise InputError(
            f"a run that started is wanted. Received: {directory}: no events yet; "
            "they come when the ranks have met"
        )
    width = _width()
    console = _console(width or _ANY_WIDTH)
    with console.capture() as printed:
        made = screen(watch.view, around, width=width, signs=_signs(console))
        console.print(made, crop=False)
    print(*(line.rstrip() for line in printed.get().splitlines()), sep="\n")


def show(directory: Path) -> None:
    """Show the run until this process is interrupted, even before its start and after its end.

    Raises:
        InputError: the directory cannot be read.
        KeyboardInterrupt: by Ctrl-C.
    """
    watch = Watch(directory)
    console = _console()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        live.update(_seen(watch, console), refresh=True)  # which takes longer than later ones
        time.sleep(_LEAST_S)
        while True:
            before_s = time.process_time()
            live.update(_seen(watch, console), refresh=True)
            time.sleep(pause_after(time.process_time() - before_s))


def pause_after(screen_s: float) -> float:
    """Seconds to wait after a screen that took *screen_s* of a core. Pure."""
    return min(max(_LEAST_S, screen_s / _SHARE), _MOST_S)


def _seen(watch: Watch, console: Console) -> RenderableType:
    around = watch.look()
    if watch.view.newest_s is None:
        return Text(f"no events yet in {around.name}")
    width, height = console.size
    return screen(watch.view, around, height=height, width=width, signs=_signs(console))


def _width() -> int | None:
    """Number of characters in a line of standard output; None if it is no terminal."""
    if sys.stdout.isatty():
        return Console().width
    asked = variable("COLUMNS") or ""  # as by watch(1)
    return int(asked) if asked.isdecimal() and int(asked) else None


def _console(width: int | None = None) -> Console:
    """The terminal, or plain text if standard output is none, whatever its encoding."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    return Console(
        width=width,
        force_terminal=sys.stdout.isatty(),
        highlight=False,
        markup=False,
        emoji=False,
    )


def _signs(console: Console) -> str:
    return BLOCKS if console.encoding.startswith("utf") else PLAIN
