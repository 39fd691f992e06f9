"""Lines for the user: those of the run as a whole, and those of one rank."""

from __future__ import annotations

import ft
from matex.records import console

__all__ = ["Terminal"]


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
        if line not in self._said:
            self._said.add(line)
            self.say(line)

    def warn(self, line: str) -> None:
        """Print a line from this rank."""
        rank = self._communicator.world.rank
        print(f"matex: rank {rank}: {line}", file=console.own("stderr"), flush=True)
