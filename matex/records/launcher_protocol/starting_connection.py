"""Sign that a rank lives on its way to MPI_Init: a connection to the launcher, kept until there.

Where all ranks are on the launcher's host it looks at their processes, and none is wanted.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading

from matex.config.launcher_address import LauncherAddress

__all__ = ["MET", "SEEN", "STARTING", "StartingConnection"]

#: The key of the first line that a rank sends, with its number and its process in words.
STARTING = "starting"
#: The byte that the launcher answers.
SEEN = b"\n"
#: What a rank sends when it has met the others; a connection that ends without is a death.
MET = b"met\n"

_ANSWER_S = 10.0
_SEEN_S = 0.5


class StartingConnection:
    """Connection of this rank to the launcher. Local.

    A thread makes it, for which nobody waits longer than half a second: time enough to be seen even
    if this rank dies next. Where the launcher cannot be reached from here it does not see this
    rank, which makes no difference to the rank.

    Args:
        address: address of the launcher.
        rank: number of this rank.
    """

    def __init__(self, address: LauncherAddress, rank: int) -> None:
        self._address = address
        self._rank = rank
        self._kept: socket.socket | None = None
        self._thread = threading.Thread(target=self._connect, name="starting", daemon=True)
        self._thread.start()
        self._thread.join(_SEEN_S)

    def end(self) -> None:
        """Tell the launcher that this rank has met the others."""
        self._thread.join(_ANSWER_S)
        if self._kept is not None:
            with self._kept, contextlib.suppress(OSError):
                self._kept.sendall(MET)

    def _connect(self) -> None:
        process = f"process {os.getpid()} on {socket.gethostname()}"
        content = {"token": self._address.token, STARTING: [self._rank, process]}
        for connection in self._address.connections():
            try:
                connection.settimeout(_ANSWER_S)
                connection.sendall(json.dumps(content).encode() + b"\n")
                if connection.recv(1) == SEEN:
                    self._kept = connection
                    return
            except OSError:
                pass
            connection.close()
