"""A file beside the snapshots that keeps out who still writes for a world that others have left.

A process on a host that was cut off, or that its launcher gave up, may finish a file that it had
begun while the others, or a run that was started again, have gone on. What it writes would be
whole, but later than it should come, and it would remove snapshots that are not its own to remove.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from checkpoints import files
from checkpoints.errors import StaleWriter, storage_error

__all__ = ["FENCE", "Fence"]

#: The name of the file in the directory: the world, such as ``3 1``, and a line break.
FENCE = ".fence"

World = tuple[int, int]


class Fence:
    """The fence of a directory, for one of the processes that write into it. Local.

    Args:
        directory: path of the directory, which all writers share.
        world: function that gives the world of this process, asked at each `check`: number of
            the start of the run, and how many times its members have changed since. Later worlds
            are larger.

    It takes no lock, which a host that stands still would hold: between a look at the fence and
    the renaming that follows, another world can still come, for as long as both take.

    Example:
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     checkpoints.Fence(directory, lambda: (1, 2)).check()  # a world of the first start
        ...     old = checkpoints.Fence(directory, lambda: (1, 1))
        ...     try:
        ...         old.check()
        ...     except checkpoints.StaleWriter:
        ...         print("a later world writes here:", old.newest())
        a later world writes here: (1, 2)
    """

    def __init__(self, directory: str | os.PathLike[str], world: Callable[[], World]) -> None:
        self._path = Path(directory) / FENCE
        self._world = world

    def newest(self) -> World:
        """Read the latest world that has written here, or was about to.

        The rest of a damaged file counts as none.

        Returns:
            The world; (0, 0) where none has.

        Raises:
            StorageError: the file cannot be read.
        """
        try:
            words = self._path.read_bytes().split()
        except FileNotFoundError:
            return 0, 0
        except OSError as error:
            raise storage_error("the fence of a directory was wanted", self._path, error) from error
        if len(words) != 2 or not all(word.isdigit() for word in words):
            return 0, 0
        return int(words[0]), int(words[1])

    def passes(self) -> bool:
        """Whether no later world than this one has written here.

        Returns:
            True where this world's writers still pass.

        Raises:
            StorageError: the file cannot be read.
        """
        return self._world() >= self.newest()

    def check(self) -> None:
        """Keep out all earlier worlds than this one; to be called right before publishing.

        Raises:
            StaleWriter: a later one has kept this one out.
            StorageError: the file cannot be read or written.
        """
        mine, newest = self._world(), self.newest()
        if mine < newest:
            raise StaleWriter(self._path.parent, mine, newest)
        if mine > newest:
            self._raise_to(mine)

    def _raise_to(self, world: World) -> None:
        text = "{} {}\n".format(*world)
        try:
            files.publish(self._path, [memoryview(text.encode("ascii"))])
        except OSError as error:
            raise storage_error("the fence of a directory was wanted", self._path, error) from error
