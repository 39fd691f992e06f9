"""Format in which the launcher's standard input is sent to ranks. Pure."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

__all__ = ["CREDENTIALS", "LENGTH", "InputAddress", "frame"]

#: Process, user and group ids at the other end of a socket.
CREDENTIALS: Final = struct.Struct("iII")
#: Number of bytes that follow; 0 at the end.
LENGTH: Final = struct.Struct("<I")

_TERMINAL, _FILE = "terminal", "file"


class InputAddress(NamedTuple):
    """Address at which ranks read the launcher's standard input.

    Args:
        socket: name of the socket in Linux's abstract namespace.
        is_terminal: whether the input is typed at a terminal.
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
        """Inverse of ``str``."""
        kind, _, name = text.partition(":")
        return InputAddress(name, kind == _TERMINAL)


def frame(piece: bytes) -> bytes:
    """*piece*, with its length before it."""
    return LENGTH.pack(len(piece)) + piece
