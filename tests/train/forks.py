"""A fork server for the ranks of tests: TensorFlow is imported once, and not once a rank.

With ``--fork-ranks`` the ranks of :func:`tests.train.runs.execute` are forked from a process that
has imported it, as newcomers of ``matex run --respawn`` are, in the modules that use the fixture
``forked_ranks``; the import is most of what a small test computes.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping

from ci.patience import patience

__all__ = ["ALONE", "fork_server_for", "start_alone"]

_SERVER = "TEST_FORK_SERVER"  # its address, which sitecustomize of the ranks reads
ALONE = {_SERVER: ""}
_numbers = itertools.count()
_IMPORTED_S = 60.0
_AT_IMPORT = ("PYTHON", "TF_", "KERAS_", "XLA_", "CUDA_", "OMP_", "OPENBLAS_", "LD_", "HOME")


@contextlib.contextmanager
def fork_server_for(paths: str) -> Iterator[dict[str, str]]:
    """Have a server for the ranks of this process's tests, which ends with it at the latest.

    Args:
        paths: folders in which ranks find modules.

    Yields:
        The variable with which ranks are forked from it, when it has imported TensorFlow: those
        that came before would do so themselves.
    """
    address = f"matex-tests-{os.getpid()}-{next(_numbers)}"
    environment = {**os.environ, "PYTHONPATH": paths}
    with socket.socket() as claim:
        words = [sys.executable, "-m", "matex.process.forked_rank", address]
        server = subprocess.Popen(
            [*words, str(os.getpid()), str(claim.fileno())],
            env=environment,
            stdin=subprocess.DEVNULL,
            pass_fds=[claim.fileno()],
        )
    try:
        _wait_for(address, server)
        yield {_SERVER: address}
    finally:
        server.kill()
        server.wait()


def _wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    """Return when the *server* can be reached, or has ended."""
    limit = time.monotonic() + patience(_IMPORTED_S)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as letters:
        while server.poll() is None and time.monotonic() < limit:
            with contextlib.suppress(ConnectionRefusedError):
                letters.connect(f"\0{address}")
                return
            time.sleep(0.05)


def start_alone(given: Mapping[str, str]) -> dict[str, str]:
    """The variable with which ranks start alone, where *given* ones count at an import. Pure.

    Args:
        given: variables that a test adds to the environment of its ranks.
    """
    return ALONE if any(name.startswith(_AT_IMPORT) for name in given) else {}
