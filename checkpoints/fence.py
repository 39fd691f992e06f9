"""A file beside the snapshots that refuses writers of worlds that have been left behind.

A process on a host that was cut off, or that its launcher gave up, may finish a file after the
other processes, or a restarted run, have gone on. The file would be whole but outdated, and the
process would remove snapshots that belong to the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from checkpoints import files
from checkpoints.errors import StaleWriter, storage_error

__all__ = ["FENCE", "Fence"]

#: Name of the file in the directory; its content is the world, such as ``3 1``, and a line break.
FENCE = ".fence"

World = tuple[int, int]


class Fence:
    """The fence of a directory, for one of the processes that write to it. Local.

    Args:
        directory: path of the directory, which all writers share.
        world: function that returns the world of this process, called at each `check`: the number
            of the start of the run, and the number of changes of its members since. Later worlds
            are larger.

    No lock is taken, because a host that stands still would hold it. So a later world may still
    come between the check of the fence and the renaming that follows.

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
        """Read the latest world that has written here, or was about to write.

        A damaged file counts as no world.

        Returns:
            The world; (0, 0) if none has written.

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
        """Whether this world is still the latest that has written here.

        Returns:
            True if writers of this world may still publish.

        Raises:
            StorageError: the file cannot be read.
        """
        return self._world() >= self.newest()

    def check(self) -> None:
        """Refuse all earlier worlds from now on; called right before publishing.

        Raises:
            StaleWriter: a later world has refused this one.
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
