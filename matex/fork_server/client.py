"""A newcomer's start: ``python -S client.py ARGUMENTS...`` for ``python ARGUMENTS...``.

Importing TensorFlow is most of the time from the start of a process to its first step. So the first
newcomer of a host starts a fork server, :mod:`matex.fork_server.server`, which imports it in the
background. From then on newcomers are forked from the server, with the environment, files and cores
of the process that asked. That process, the program of this module, is the one that MPI has
started: it passes signals on, ends as the newcomer ends, and takes it along when it is killed, or
ended by SIGURG: MPI reports a process that it has to kill because its newcomer went first. It
is fast because it imports only the standard library. If the fork server is not ready, the
process becomes the newcomer itself, by ``exec``.

"""

from __future__ import annotations

import array
import contextlib
import hashlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

__all__ = [
    "address_of",
    "command",
    "forked",
    "greeted",
    "main",
    "receive",
    "received_connection",
    "send",
]

# Signals that are passed on to the newcomer.
_PASSED_ON: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)

# Signal at which this process and the newcomer end. By default it is without effect.
_ENDS_AT: Final = signal.SIGURG

# Environment variables of one process of a job, which the fork server must not have.
_OF_ONE_PROCESS: Final = ("PMIX_", "OMPI_", "PRTE_", "OPAL_")
# Variables that Python and TensorFlow read at import: equal for all processes of one fork server.
_READ_AT_IMPORT: Final = (
    "PYTHON", "TF_", "KERAS_", "XLA_", "CUDA_", "OMP_", "OPENBLAS_", "MKL_", "LD_", "HOME", "PATH",
)  # fmt: skip
_MODULE: Final = "-m"
_LENGTH_BYTES: Final = 8
_STANDARD: Final = (0, 1, 2)
_CREDENTIALS: Final = struct.Struct("iII")  # the process, the user and the group at the other end
_SCM_CREDENTIALS: Final = 2  # of Linux; Python has no name for it
_REQUEST_S: Final = 10.0
_MOST_FILES: Final = len(_STANDARD) + 1


def command(arguments: Sequence[str]) -> list[str]:
    """Command line that does the same as ``python ARGUMENTS...``, by a fork. Pure.

    Args:
        arguments: words after ``python``: its own options, and ``-m matex ...``. For a script, or
            on other systems than Linux, there is no fork.
    """
    forks = sys.platform == "linux" and _MODULE in arguments
    return [sys.executable, *(["-S", __file__] if forks else []), *arguments]


def address_of(arguments: Sequence[str], environment: Mapping[str, str], parent: int) -> str:
    """Abstract socket address of the fork server for a newcomer. Pure.

    Args:
        arguments: command line after ``python``, with Python's options.
        environment: environment of the newcomer.
        parent: process id of the launcher, whose newcomers share a server.
    """
    read = {n: v for n, v in sorted(environment.items()) if n.startswith(_READ_AT_IMPORT)}
    options = arguments[: arguments.index(_MODULE)]
    wanted = json.dumps([sys.executable, os.getuid(), parent, options, read])
    return f"matex-fork-{hashlib.sha256(wanted.encode()).hexdigest()[:32]}"


def send(to: socket.socket, content: Any, files: Sequence[int] = ()) -> None:
    """Send *content*, as JSON, and open *files* to the other end. Local."""
    text = json.dumps(content).encode()
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else []
    to.sendmsg([len(text).to_bytes(_LENGTH_BYTES, "little")], rights)
    to.sendall(text)


def receive(source: socket.socket) -> tuple[Any, list[int]]:
    """Content and files that :func:`send` sent.

    Raises:
        EOFError: the other end has closed.
    """
    head, files = _received(source, _LENGTH_BYTES)
    head += _exactly(source, _LENGTH_BYTES - len(head))
    text = _exactly(source, int.from_bytes(head, "little"))
    return json.loads(text), files


def received_connection(letters: socket.socket) -> socket.socket:
    """Next connection that a newcomer has sent to the server; waits for it."""
    _, (file,) = _received(letters, 1)
    return socket.socket(fileno=file)


def _received(source: socket.socket, size: int) -> tuple[bytes, list[int]]:
    """Content of at most *size* bytes, and the files sent with it."""
    room = socket.CMSG_SPACE(_MOST_FILES * array.array("i").itemsize)
    content, rights, _, _ = source.recvmsg(size, room)
    files = array.array("i")
    for _, _, data in rights:
        files.frombytes(data)
    return content, list(files)


def _exactly(source: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = source.recv(size - len(found))
        if not more:
            raise EOFError("the other end of the connection is gone")
        found += more
    return found


def main() -> int:
    """Have the newcomer forked, and end as it ends; become it if there is no server yet."""
    arguments = sys.argv[1:]
    address = address_of(arguments, os.environ, os.getppid())
    try:
        _have_server(arguments, address)
        return forked(arguments, address)
    except (EOFError, OSError):
        os.execv(sys.executable, [sys.executable, *arguments])


def forked(arguments: Sequence[str], address: str) -> int:
    """Fork a process through the server, with this one's environment; wait for its end.

    Args:
        arguments: its command line after ``python``.
        address: address of the fork server, from :func:`address_of`.

    Returns:
        Exit status of the process.

    Raises:
        OSError: there is no server yet, or no longer.
        EOFError: the server ended instead of answering.
    """
    with _connected(address) as connection:
        _meet_server(connection)
        lives, other = os.pipe()  # the pipe by which this process tells that it has ended
        request = {
            "arguments": arguments,
            "process": [os.getpid(), int(_ENDS_AT)],
            "environment": dict(os.environ),
            "directory": str(Path.cwd()),
            "cores": sorted(os.sched_getaffinity(0)),
        }
        try:
            send(connection, request, (*_STANDARD, lives))
            process, _ = receive(connection)
        except (EOFError, OSError):
            os.close(other)
            raise
        finally:
            os.close(lives)
        return _ended_like(process, connection)


def _have_server(arguments: Sequence[str], address: str) -> None:
    """Start the fork server unless another newcomer has.

    No newcomer waits for its imports, because its sponsor expects it soon.
    """
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with claim, contextlib.suppress(OSError):  # another newcomer has started the server
        claim.bind(f"\0{address}-claim")
        _start_server(claim, address, arguments)


def _connected(address: str) -> socket.socket:
    """Connection to the fork server.

    Raises:
        OSError: there is no server yet.
    """
    connection, other = socket.socketpair()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)  # before the server can answer
    with other, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as post:
        rights = array.array("i", [other.fileno()])
        try:
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
            post.sendmsg([b"1"], ancillary, 0, f"\0{address}")
        except OSError:
            connection.close()
            raise
    return connection


def _meet_server(connection: socket.socket) -> None:
    """Wait until the server answers, and check that it belongs to this user.

    Raises:
        OSError: it belongs to another user, or has ended.
    """
    _, rights, _, _ = connection.recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size))
    users = [_CREDENTIALS.unpack(data)[1] for _, kind, data in rights if kind == _SCM_CREDENTIALS]
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)
    if users != [os.getuid()]:
        raise ConnectionRefusedError("the fork server is none of this user")


def greeted(connection: socket.socket) -> None:
    """Answer a newcomer, so that it sends its request; on the server.

    Raises:
        OSError: it belongs to another user, or has ended.
    """
    size = _CREDENTIALS.size
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    if _CREDENTIALS.unpack(data)[1] != os.getuid():
        raise ConnectionRefusedError("the newcomer is none of this user")
    connection.settimeout(_REQUEST_S)
    connection.sendall(b"1")


def _start_server(claim: socket.socket, address: str, arguments: Sequence[str]) -> None:
    """Start the server, which keeps *claim* and has its own session, to outlive this process."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(_OF_ONE_PROCESS)
    }
    options = arguments[: arguments.index(_MODULE)]
    module = [_MODULE, "matex.process.forked_rank"]
    subprocess.Popen(
        [sys.executable, *options, *module, address, str(os.getppid()), str(claim.fileno())],
        # The launcher waits until no process has the files of a process that it has started.
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[claim.fileno()],
        env=environment,
        start_new_session=True,
    )


def _ended_like(process: int, connection: socket.socket) -> int:
    """Wait for the end of *process*, pass signals on to it, and return its exit status.

    A signal that ended the process ends this one, too.
    """

    def pass_on(number: int, _: object) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.kill(process, number)

    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    signal.signal(_ENDS_AT, lambda _number, _frame: os._exit(1))
    try:
        status, _ = receive(connection)
    except (EOFError, OSError):  # the server has ended, which the newcomer survives
        with contextlib.suppress(ProcessLookupError):
            select.select([os.pidfd_open(process)], [], [])
        return 1
    if os.WIFSIGNALED(status):
        ended_by = os.WTERMSIG(status)
        if ended_by in _PASSED_ON:
            signal.signal(ended_by, signal.SIG_DFL)
        os.kill(os.getpid(), ended_by)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
