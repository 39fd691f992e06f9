"""Lines for the user: those of the run as a whole, and those of one rank."""

from __future__ import annotations

import re

import ft
from matex.records import console

__all__ = ["Terminal"]

_FIGURE = re.compile(r"-?\d[\d.]*(e[-+]?\d+)?|\b(nan|inf)\b")


class Terminal:
    """Prints lines for the user, with the project's name before each. Local."""

    def __init__(self, communicator: ft.Communicator) -> None:
        self._communicator = communicator
        self._said: set[str] = set()

    def say(self, line: str) -> None:
        """Print a line from the run as a whole; the leader prints it."""
        if self._communicator.world.is_leader:
            print(f"matex: {line}", file=console.own("stdout"), flush=True)

    def say_once(self, line: str) -> None:
        """Print *line* from the run once, however often it is passed; the leader prints it."""
        self._say_first(line, line)

    def say_once_of_its_kind(self, line: str) -> None:
        """Print *line* unless one was printed that differs in nothing but figures.

        Fits of a script that trains many models are computed whole for one reason with other
        figures each.
        """
        self._say_first(line, _FIGURE.sub("#", line))

    def _say_first(self, line: str, kind: str) -> None:
        if kind not in self._said:
            self._said.add(kind)
            self.say(line)

    def warn(self, line: str) -> None:
        """Print a line from this rank."""
        rank = self._communicator.world.rank
        print(f"matex: rank {rank}: {line}", file=console.own("stderr"), flush=True)
