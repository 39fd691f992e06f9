"""Fork servers for the ranks of tests: TensorFlow is imported twice, and not once a rank.

With ``--fork-ranks`` the ranks of :func:`tests.train.runs.execute` are forked from one of two
processes that have imported it, as newcomers of ``matex run --respawn`` are; the import is a third
of what most tests compute. Ranks of even and odd numbers have different ones, because ranks
that start alone do not order sets alike.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping

__all__ = ["ALONE", "forked_ranks", "start_alone"]

_SERVERS = "TEST_FORK_SERVERS"  # their addresses, which sitecustomize of the ranks reads
ALONE = {_SERVERS: ""}
_AT_IMPORT = ("PYTHON", "TF_", "KERAS_", "XLA_", "CUDA_", "OMP_", "OPENBLAS_", "LD_", "HOME")


@contextlib.contextmanager
def forked_ranks(paths: str) -> Iterator[None]:
    """Have servers for the ranks of this process's tests, which end with it at the latest.

    Args:
        paths: where ranks find modules.
    """
    names = [f"matex-tests-{os.getpid()}-{parity}" for parity in ("even", "odd")]
    environment = {**os.environ, "PYTHONPATH": paths}
    module = [sys.executable, "-m", "matex.process.fork_server"]
    servers = []
    for name in names:
        with socket.socket() as claim:
            words = [*module, name, str(os.getpid()), str(claim.fileno())]
            server = subprocess.Popen(
                words, env=environment, stdin=subprocess.DEVNULL, pass_fds=[claim.fileno()]
            )
        servers.append(server)
    os.environ[_SERVERS] = " ".join(names)
    try:
        yield
    finally:
        del os.environ[_SERVERS]
        for server in servers:
            server.kill()
            server.wait()


def start_alone(given: Mapping[str, str]) -> dict[str, str]:
    """The variable with which ranks start alone, where *given* ones count at an import. Pure.

    Args:
        given: what a test adds to the environment of its ranks.
    """
    return ALONE if any(name.startswith(_AT_IMPORT) for name in given) else {}
