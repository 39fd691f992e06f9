"""Program of the fork server of a host, and of the newcomers that are forked from it.

    python -m matex.process.forked_rank ADDRESS LAUNCHER CLAIM

It has the address for requests, the process id of the launcher, with which it ends, and the number
of an open socket that keeps other newcomers from starting another server.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from typing import Any

from ft.invitation import STARTED_FOR_IT
from matex.fork_server.server import ForkServer
from matex.process.libraries import import_libraries
from matex.process.program import run_program

__all__ = ["main"]


def main() -> None:
    """Import TensorFlow, and fork newcomers until the launcher ends; in a newcomer, be a rank."""
    address, process, claim = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    try:
        launcher = os.pidfd_open(process)
    except ProcessLookupError:
        return
    import_libraries()
    letters = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    letters.bind(f"\0{address}")
    request = ForkServer(letters, launcher, claim).serve()
    if request is None:
        os._exit(0)  # at once: nothing is to be written, and TensorFlow's end takes its time
    _become(request)


def _become(request: dict[str, Any]) -> None:
    """Take over environment, directory and cores of the requester; run its program."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.environ[STARTED_FOR_IT] = " ".join(map(str, request["process"]))
    tempfile.tempdir = None  # which is asked for once, of the environment
    os.chdir(request["directory"])
    if not sys.flags.safe_path:
        sys.path[0] = request["directory"]  # as the server has its own there
    os.sched_setaffinity(0, request["cores"])
    arguments = request["arguments"]
    module = arguments.index("-m") + 1
    sys.orig_argv = [sys.executable, *arguments]
    run_program(arguments[module], arguments[module + 1 :], module=True)


if __name__ == "__main__":
    main()
