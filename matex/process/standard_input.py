"""The standard input of a rank: the launcher's own, which every rank reads from the beginning."""

from __future__ import annotations

import io
import os
import socket
import sys
from typing import Any

from matex.records.launcher_protocol.input_frames import CREDENTIALS, LENGTH, InputAddress

__all__ = ["install"]

_ELSEWHERE = (
    "standard input can be read by ranks on the host of matex run; "
    "give the script a file that all hosts have"
)
_BROKEN_OFF = "standard input broke off: the launcher has ended, or could not keep it"


def install(address: str | None) -> None:
    """Make ``sys.stdin`` the launcher's standard input, if it has one. Local.

    Args:
        address: address from the launcher.
    """
    if address is None or sys.stdin is None:
        return
    buffer = io.BufferedReader(_FromLauncher(InputAddress.read(address)))
    stream = io.TextIOWrapper(buffer, encoding=sys.stdin.encoding, errors=sys.stdin.errors)
    _first.append(sys.stdin)
    setattr(sys, "stdin", stream)  # noqa: B010
    setattr(sys, "__stdin__", stream)  # noqa: B010


_first: list[Any] = []  # Python's own, which would close the descriptor when it goes


class _FromLauncher(io.RawIOBase):
    """Bytes from the launcher, which is asked at the first read."""

    name = "<stdin>"

    def __init__(self, address: InputAddress) -> None:
        super().__init__()
        self._address = address
        self._source: io.BufferedIOBase | None = None
        self._left = 0  # of the piece that has begun
        self._is_over = False

    def readable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._address.is_terminal

    def fileno(self) -> int:
        """The descriptor of Python's own, at which nothing is read."""
        return 0

    def readinto(self, buffer: Any, /) -> int:
        """Fill *buffer* with bytes that have arrived.

        Raises:
            OSError: the launcher is on another host, or has ended.
        """
        if not self._left and not self._is_over:
            self._left = LENGTH.unpack(self._exactly(LENGTH.size))[0]
            self._is_over = not self._left
        size = min(self._left, len(buffer))
        buffer[:size] = self._exactly(size)
        self._left -= size
        return size

    def _exactly(self, size: int) -> bytes:
        if self._source is None:
            self._source = _connected(self._address)
        content = self._source.read(size)
        if len(content) < size:
            raise OSError(_BROKEN_OFF)
        return content


def _connected(address: InputAddress) -> io.BufferedIOBase:
    """The stream of bytes from the launcher.

    Raises:
        OSError: the launcher is on another host, or has ended.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(address.name)
        except ConnectionRefusedError:
            raise OSError(_ELSEWHERE) from None
        serves = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        if CREDENTIALS.unpack(serves)[1] != os.getuid():
            raise OSError(_ELSEWHERE)
        return connection.makefile("rb")
