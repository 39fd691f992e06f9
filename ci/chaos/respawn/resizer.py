"""Asks a running training to go on with other numbers of ranks, by ``matex resize``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["Resizer"]


class Resizer:
    """Makes the requests one after the other, each when so many ranks have been killed.

    Args:
        report: report directory of the training.
        ranks: number of ranks at the start.
        sizes: numbers of ranks to ask for.
        after: number of ranks that are killed before each request.
        environment: variables of the command.
    """

    def __init__(
        self,
        report: Path,
        ranks: int,
        sizes: Sequence[int],
        *,
        after: Sequence[int],
        environment: Mapping[str, str],
    ) -> None:
        self._report = report
        self._left = list(zip(after, sizes, strict=True))
        self._environment = environment
        self._asking: subprocess.Popen[str] | None = None
        self.wanted = ranks
        """The number of ranks that there are to be by now."""
        self.refused = ""
        """What the command said that did not succeed; "" where all did."""

    @property
    def is_done(self) -> bool:
        """Whether every request has been answered."""
        return not self._left and self._asking is None

    def look(self, killed: int) -> None:
        """Make the next request where it is time, and hear of the last one."""
        if self._asking is not None:
            self._hear(self._asking)
        elif self._left and killed >= self._left[0][0]:
            command = [sys.executable, "-m", "matex", "resize", str(self._report)]
            self._asking = subprocess.Popen(
                [*command, str(self._left[0][1])],
                env=dict(self._environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def end(self) -> None:
        """End a command that still waits for its answer."""
        if self._asking is not None:
            self._asking.kill()
            self._asking.communicate()

    def _hear(self, asking: subprocess.Popen[str]) -> None:
        if asking.poll() is None:
            return
        said, _ = asking.communicate()
        _, size = self._left.pop(0)
        self._asking = None
        if asking.returncode:
            self.refused += f"{size} ranks: {said.strip()}; "
        else:
            self.wanted = size
