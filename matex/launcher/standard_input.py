"""The launcher's standard input, served to its ranks: each reads all of it from the beginning."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

from matex.launcher.accepting import Acceptor
from matex.records.launcher_protocol.input_frames import CREDENTIALS, InputAddress, frame

__all__ = ["served_input"]

_PIECE = 1 << 16  # bytes


@contextlib.contextmanager
def served_input(scratch: Path) -> Iterator[str | None]:
    """Context in which ranks on this host can read this program's standard input.

    Nothing is read before a rank asks, and little more than it has asked for: the rest is left for
    later readers, such as the rest of a shell's loop, and a pipe without an end blocks nothing.

    Args:
        scratch: directory of the run, for content kept for other ranks.

    Yields:
        The address, as ranks are given it; None where there is nothing to read.
    """
    file = sys.__stdin__
    if file is None or file.closed or _is_empty(file.fileno()):
        yield None
        return
    address = InputAddress(f"matex-input-{uuid.uuid4().hex}", is_terminal=file.isatty())
    with tempfile.TemporaryFile(dir=scratch, buffering=0) as kept:
        server = _InputServer(address, _Kept(file.fileno(), kept.fileno()))
        try:
            yield str(address)
        finally:
            server.close()


def _is_empty(descriptor: int) -> bool:
    """Whether the file is ``/dev/null``, which every rank has anyway."""
    found, null = os.fstat(descriptor), Path(os.devnull).stat()
    return found.st_rdev == null.st_rdev != 0


class _Kept:
    """Content of a file that can be read once, kept in another file as far as it was read.

    Args:
        source: descriptor of the one.
        kept: descriptor of the other.
    """

    def __init__(self, source: int, kept: int) -> None:
        self._source = source
        self._kept = kept
        self._size = 0
        self._is_over = False
        self._lock = threading.Lock()

    def read(self, offset: int) -> bytes:
        """Content from *offset* on, waiting until there is some; empty at the end.

        Raises:
            OSError: the content cannot be read or kept.
        """
        if offset >= self._size:
            with self._lock:  # another may have read on meanwhile
                if offset >= self._size and not self._is_over:
                    self._read_on()
        return os.pread(self._kept, _PIECE, offset)

    def _read_on(self) -> None:
        piece = os.read(self._source, _PIECE)
        self._is_over = not piece
        written = 0
        while written < len(piece):
            written += os.pwrite(self._kept, piece[written:], self._size + written)
        self._size += len(piece)


class _InputServer:
    """Sends the content of *kept* to each process of this user that connects, until `close`."""

    def __init__(self, address: InputAddress, kept: _Kept) -> None:
        self._kept = kept
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(address.name)
        listening.listen()
        self._acceptor = Acceptor(listening, self._send, name="input")

    def close(self) -> None:
        """Serve no further processes."""
        self._acceptor.close()

    def _send(self, connection: socket.socket) -> None:
        # A rank that has ended, or is another user's, gets nothing; one whose content breaks off
        # sees that, because the empty piece at the end has not come.
        with connection, contextlib.suppress(OSError):
            asks = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
            if CREDENTIALS.unpack(asks)[1] != os.getuid():
                return
            offset = 0
            while piece := self._kept.read(offset):
                connection.sendall(frame(piece))
                offset += len(piece)
            connection.sendall(frame(b""))
