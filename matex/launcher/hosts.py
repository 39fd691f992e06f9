"""Other hosts of a run, reached in the same way as ranks are started on them."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from matex.launcher.job import Job
from matex.launcher.mpiexec import Mpiexec

__all__ = ["Hosts"]

_TIMEOUT_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Hosts:
    """Commands on hosts, started with *mpiexec* in *environment*."""

    mpiexec: Mpiexec
    environment: Mapping[str, str]

    def run(
        self, hosts: Iterable[str], words: Sequence[str], *, within_s: float = _TIMEOUT_S
    ) -> list[str]:
        """Run *words* on each of *hosts* in parallel; return the hosts with success, in order.

        With ``true`` those on which a program can be started.

        Args:
            hosts: names of hosts.
            words: a command.
            within_s: time limit, seconds, 30 by default.
        """
        return list(self.ask(hosts, words, within_s=within_s))

    def ask(
        self, hosts: Iterable[str], words: Sequence[str], *, within_s: float = _TIMEOUT_S
    ) -> dict[str, str]:
        """Run *words* on each of *hosts* in parallel; return their output where they succeed.

        Args:
            hosts: names of hosts.
            words: a command.
            within_s: time limit, seconds, 30 by default.
        """
        names = list(hosts)
        with ThreadPoolExecutor(max(1, len(names))) as pool:
            outputs = list(pool.map(lambda host: self._output(host, words, within_s), names))
        return {
            name: output for name, output in zip(names, outputs, strict=True) if output is not None
        }

    def unknown(self, hosts: Iterable[str]) -> list[str]:
        """Names of *hosts* that mean nothing here, and on which nothing can be started.

        A name that is no address may still be one that ssh knows.
        """
        nameless = [host for host in hosts if not _has_address(host)]
        there = self.run(nameless, ["true"]) if nameless else []
        return [host for host in nameless if host not in there]

    def _output(self, host: str, words: Sequence[str], within_s: float) -> str | None:
        """Output of *words* on *host*; None where they do not succeed in time."""
        command = self.mpiexec.probe(host, words)
        with tempfile.TemporaryFile() as said:
            job = Job(self.mpiexec, command, self.environment, quiet=True, said=said)
            try:
                if not (job.wait(within_s) and job.status == 0):
                    return None
            finally:
                job.end()
            said.seek(0)
            return said.read().decode(errors="replace")


def _has_address(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return False
    return True
