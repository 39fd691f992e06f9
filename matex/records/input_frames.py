"""The form in which the launcher's standard input travels to ranks. Pure."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

__all__ = ["CREDENTIALS", "LENGTH", "InputAddress", "frame"]

#: The process, the user and the group at the other end of a socket.
CREDENTIALS: Final = struct.Struct("iII")
#: The number of bytes that come next; none at the end.
LENGTH: Final = struct.Struct("<I")

_TERMINAL, _FILE = "terminal", "file"


class InputAddress(NamedTuple):
    """The address at which ranks read it.

    Args:
        socket: name of the socket, which is no file.
        is_terminal: whether somebody types what is read.
    """

    socket: str
    is_terminal: bool

    def __str__(self) -> str:
        return f"{_TERMINAL if self.is_terminal else _FILE}:{self.socket}"

    @property
    def name(self) -> str:
        """The address in Linux's own form."""
        return f"\0{self.socket}"

    @staticmethod
    def read(text: str) -> InputAddress:
        """The inverse of ``str``."""
        kind, _, name = text.partition(":")
        return InputAddress(name, kind == _TERMINAL)


def frame(piece: bytes) -> bytes:
    """*piece*, with its length before it."""
    return LENGTH.pack(len(piece)) + piece
