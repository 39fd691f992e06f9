"""Thread that accepts connections and answers each on a thread of its own."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

__all__ = ["Acceptor"]


class Acceptor:
    """Accepts connections at *listening*, until :meth:`close`.

    Args:
        listening: listening socket; closed together with this object.
        answer: function of a connection, which it closes.
        name: name of the thread.
    """

    def __init__(
        self, listening: socket.socket, answer: Callable[[socket.socket], None], *, name: str
    ) -> None:
        self._socket = listening
        self._answer = answer
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Accept no further connections."""
        # A blocked accept() does not notice that its socket is closed.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()
