"""A newcomer's start: ``python -S fork_client.py ARGUMENTS...`` for ``python ARGUMENTS...``.

The import of TensorFlow is most of the time that a process takes to its first step. So the first
newcomer of a host starts a fork server, :mod:`matex.process.fork_server`, which imports it beside.
When it has, newcomers are forked from that one, and have the environment, the files and the cores
of the process that asked. That process, the program of this module, is the one that MPI has
started: it passes signals on, ends as the newcomer ends, and takes it with it when it is killed.

It is quick because it imports nothing but what is Python's own. Where no fork server can be
had yet, it becomes the newcomer itself, by ``exec``.
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

# Signals that the newcomer gets when the process that MPI knows gets them.
_PASSED_ON: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)

# What belongs to one process of a job: the fork server is none.
_OF_ONE_PROCESS: Final = ("PMIX_", "OMPI_", "PRTE_", "OPAL_")
# What Python and TensorFlow read when they are imported: all that one server forks have it alike.
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
    """The words of a command line that does what ``python ARGUMENTS...`` does, by a fork. Pure.

    Args:
        arguments: words that come after ``python``: its own options, and ``-m matex ...``. Where it
            is a script instead, or the system is not Linux, there is no fork.
    """
    forks = sys.platform == "linux" and _MODULE in arguments
    return [sys.executable, *(["-S", __file__] if forks else []), *arguments]


def address_of(arguments: Sequence[str], environment: Mapping[str, str], parent: int) -> str:
    """The address, a name of no file, of the fork server for such a newcomer. Pure.

    Args:
        arguments: command line after ``python``; the options of Python are in it.
        environment: environment of the newcomer.
        parent: process id of the launcher, whose newcomers share a server.
    """
    read = {n: v for n, v in sorted(environment.items()) if n.startswith(_READ_AT_IMPORT)}
    options = arguments[: arguments.index(_MODULE)]
    wanted = json.dumps([sys.executable, os.getuid(), parent, options, read])
    return f"matex-fork-{hashlib.sha256(wanted.encode()).hexdigest()[:32]}"


def send(to: socket.socket, content: Any, files: Sequence[int] = ()) -> None:
    """Send *content*, of what JSON knows, and open *files* to the other end. Local."""
    text = json.dumps(content).encode()
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else []
    to.sendmsg([len(text).to_bytes(_LENGTH_BYTES, "little")], rights)
    to.sendall(text)


def receive(source: socket.socket) -> tuple[Any, list[int]]:
    """The content that was sent, and the files.

    Raises:
        EOFError: the other end is gone.
    """
    head, files = _received(source, _LENGTH_BYTES)
    head += _exactly(source, _LENGTH_BYTES - len(head))
    text = _exactly(source, int.from_bytes(head, "little"))
    return json.loads(text), files


def received_connection(letters: socket.socket) -> socket.socket:
    """The next connection that a newcomer has sent to the server; waits for it."""
    _, (file,) = _received(letters, 1)
    return socket.socket(fileno=file)


def _received(source: socket.socket, size: int) -> tuple[bytes, list[int]]:
    """The content, of at most *size* bytes, and the files that came with it."""
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
    """Have the newcomer forked, and end as it ends; become it where there is no server yet."""
    arguments = sys.argv[1:]
    address = address_of(arguments, os.environ, os.getppid())
    try:
        _have_server(arguments, address)
        return forked(arguments, address)
    except (EOFError, OSError):
        os.execv(sys.executable, [sys.executable, *arguments])


def forked(arguments: Sequence[str], address: str) -> int:
    """Have a process forked, with the environment, files and cores of this one; wait for its end.

    Args:
        arguments: its command line after ``python``.
        address: the fork server's, as :func:`address_of` gives it.

    Returns:
        Its exit status.

    Raises:
        OSError: there is no server yet, or no longer.
        EOFError: the server ended instead of answering.
    """
    with _connected(address) as connection:
        _meet_server(connection)
        lives, other = os.pipe()  # of which this one tells that this process has ended
        request = {
            "arguments": arguments,
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
    """Start the fork server where nobody has.

    No newcomer waits while it imports: the one who spawned it is to meet it soon.
    """
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with claim, contextlib.suppress(OSError):  # another newcomer has started the server
        claim.bind(f"\0{address}-claim")
        _start_server(claim, address, arguments)


def _connected(address: str) -> socket.socket:
    """A connection to the fork server.

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
    """Wait until the server answers, and see that it is one of this user.

    Raises:
        OSError: it is another's, or gone.
    """
    _, rights, _, _ = connection.recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size))
    users = [_CREDENTIALS.unpack(data)[1] for _, kind, data in rights if kind == _SCM_CREDENTIALS]
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)
    if users != [os.getuid()]:
        raise ConnectionRefusedError("the fork server is none of this user")


def greeted(connection: socket.socket) -> None:
    """Answer a newcomer, so that it sends its request; on the server.

    Raises:
        OSError: it is another user's, or gone.
    """
    size = _CREDENTIALS.size
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    if _CREDENTIALS.unpack(data)[1] != os.getuid():
        raise ConnectionRefusedError("the newcomer is none of this user")
    connection.settimeout(_REQUEST_S)
    connection.sendall(b"1")


def _start_server(claim: socket.socket, address: str, arguments: Sequence[str]) -> None:
    """Start the server, which keeps *claim*, and has a session of its own: it outlives this one."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(_OF_ONE_PROCESS)
    }
    options = arguments[: arguments.index(_MODULE)]
    module = [_MODULE, "matex.process.fork_server"]
    subprocess.Popen(
        [sys.executable, *options, *module, address, str(os.getppid()), str(claim.fileno())],
        # The launcher waits until nobody has the files of a process that it has started.
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[claim.fileno()],
        env=environment,
        start_new_session=True,
    )


def _ended_like(process: int, connection: socket.socket) -> int:
    """Wait for the end of *process*, pass signals on to it, and give its exit status.

    A signal that ended it ends this process, too.
    """

    def pass_on(number: int, _: object) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has just ended, which is heard next
            os.kill(process, number)

    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    try:
        status, _ = receive(connection)
    except (EOFError, OSError):  # the server is gone, which the newcomer outlives
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
