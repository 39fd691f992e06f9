"""Server that forks newcomers from a process that has imported TensorFlow.

The first newcomer of a host starts it, see :mod:`matex.fork_server.client`. It never uses
TensorFlow, so it has no threads that a fork would lose, and it does not use MPI. Its imported
modules are in memory once, however many newcomers there are. Its program is
:mod:`matex.process.forked_rank`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import selectors
import signal
import socket
from typing import Any

from matex.fork_server import client

__all__ = ["ForkServer"]


class ForkServer:
    """The server, with the connection of each process that it has forked.

    Args:
        letters: socket on which requests' connections arrive.
        launcher: file of the launcher's process, readable once that has ended.
        claim: file that only the server keeps open.
    """

    def __init__(self, letters: socket.socket, launcher: int, claim: int) -> None:
        self._letters = letters
        self._launcher = launcher
        self._claim = claim
        self._selector = selectors.DefaultSelector()

    def serve(self) -> dict[str, Any] | None:
        """Fork a newcomer for each that asks.

        Returns:
            Request, in a newcomer; None in the server, after the launcher has ended.
        """
        self._selector.register(self._letters, selectors.EVENT_READ)
        self._selector.register(self._launcher, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fd == self._launcher:
                    return None
                if key.data is not None:
                    self._reap(key.fd, *key.data)
                elif (request := self._forked()) is not None:
                    return request

    def _forked(self) -> dict[str, Any] | None:
        """Fork for the next request; return the request in the newcomer, None in the server."""
        connection = client.received_connection(self._letters)
        try:
            client.greeted(connection)
            request, files = client.receive(connection)
        except (EOFError, OSError):
            connection.close()
            return None
        process = os.fork()
        if process == 0:
            *standard, lives = files
            for number, file in enumerate(standard):
                os.dup2(file, number)
            connection.close()
            self._leave(standard)
            _end_with(lives)
            return dict(request)
        for file in files:
            os.close(file)
        with contextlib.suppress(OSError):  # the requester has ended: so does the newcomer
            client.send(connection, process)
        self._selector.register(
            os.pidfd_open(process), selectors.EVENT_READ, data=(process, connection)
        )
        return None

    def _leave(self, files: list[int]) -> None:
        """Close the server's files and sockets; in a newcomer."""
        others = [key.fd for key in self._selector.get_map().values() if key.data is not None]
        connections = [key.data[1] for key in self._selector.get_map().values() if key.data]
        self._selector.close()
        self._letters.close()
        for connection in connections:
            connection.close()
        for file in (self._launcher, self._claim, *others, *files):
            os.close(file)

    def _reap(self, file: int, process: int, connection: socket.socket) -> None:
        """Report the exit status of *process*."""
        _, status = os.waitpid(process, 0)
        self._selector.unregister(file)
        os.close(file)
        with connection, contextlib.suppress(OSError):  # the requester has ended first
            client.send(connection, status)


def _end_with(file: int) -> None:
    """Let this process be killed when the other end of the pipe *file* closes; it stays open."""
    fcntl.fcntl(file, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([file], [], [], 0)[0]:  # it had closed before
        os.kill(os.getpid(), signal.SIGKILL)
