"""Nodes that Slurm is about to drain: the launcher is told, and its ranks leave them.

An administrator drains a node, or says that it will fail, and sends SIGUSR2 to the job's batch
shell, in which the launcher runs. The launcher asks Slurm which nodes are meant, and asks the ranks
to leave them, as ``matex drain`` does.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from matex.errors import InputError
from matex.launcher.exit_report import all_events, last_start
from matex.launcher.host_names import HostNames
from matex.launcher.lines import say
from matex.launcher.restarts import members_of
from matex.records.launcher_protocol.resize_request import Request, write_request

__all__ = ["Draining", "hosts_to_leave", "nodes_to_leave"]

_TIMEOUT_S = 20.0
# Slurm's states of nodes that will get no more jobs, or are believed to fail soon.
_STATES = ("draining", "drained", "drain", "failing", "fail")


def nodes_to_leave(listing: str) -> list[str]:
    """The nodes that are being drained, or are about to fail. Pure.

    Args:
        listing: lines of a node's name and its state, as ``sinfo --format="%n %T"`` prints them;
            a node in several partitions is there several times.
    """
    words = [line.split() for line in listing.splitlines() if line.strip()]
    # A flag may be appended, such as * for a node that does not answer.
    leaving = [name for name, state, *_ in words if state.rstrip("*~#!%$@^+-") in _STATES]
    return list(dict.fromkeys(leaving))


def hosts_to_leave(nodes: Collection[str], hosts: Collection[str]) -> list[str]:
    """Hosts, as they call themselves, that are among *nodes*. Pure."""
    names = HostNames(nodes)
    return [host for host in dict.fromkeys(hosts) if nodes and names.of(host)]


class Draining:
    """Asks Slurm which hosts will be drained, and asks the ranks to leave them.

    Args:
        report: directory in which the ranks find requests.
        environment: variables of the batch job.
    """

    def __init__(self, report: Path, environment: Mapping[str, str]) -> None:
        self._report = report
        self._environment = environment
        self._is_asked = False
        self._waiting: list[str] = []
        self._requested: set[str] = set()

    def ask(self) -> None:
        """Make :meth:`look` ask Slurm; may be called by a signal handler."""
        self._is_asked = True

    def look(self) -> None:
        """Ask Slurm if requested, and write the next request if none is pending."""
        if self._is_asked:
            self._is_asked = False
            self._waiting += self._found()
        if not self._waiting:
            return
        request = Request(time.time_ns(), host=self._waiting[0])
        try:
            write_request(self._report, request)
        except InputError:
            return  # another one waits for its answer
        except OSError as error:
            say(f"drain {request.host} cannot be asked for: {error.strerror}")
        self._waiting.pop(0)

    def _found(self) -> list[str]:
        """Hosts that ranks must leave and have not been asked to leave."""
        nodes = self._environment.get("SLURM_JOB_NODELIST", "")
        if not nodes:
            say(
                "SIGUSR2 asks which hosts Slurm drains, and this is no job of Slurm: "
                "matex drain DIR HOST lets the ranks leave a host"
            )
            return []
        try:
            listing = _sinfo(nodes, self._environment)
        except (OSError, subprocess.SubprocessError) as error:
            say(f"SIGUSR2: Slurm does not say which hosts it drains: {_reason(error)}")
            return []
        members = members_of(last_start(all_events(self._report)))
        hosts = [host for host, _ in members.values()]
        named = nodes_to_leave(listing)
        found = [host for host in hosts_to_leave(named, hosts) if host not in self._requested]
        if not found:
            say(f"SIGUSR2: Slurm drains no host of the ranks: {_in_words(listing)}")
        elif not set(hosts) - set(found) - self._requested:
            named_ones = ", ".join(named)
            say(f"SIGUSR2: Slurm drains all hosts of the ranks, which stay: {named_ones}")
            return []
        else:
            say(f"SIGUSR2: Slurm drains {', '.join(found)}")
        self._requested.update(found)
        return found


def _sinfo(nodes: str, environment: Mapping[str, str]) -> str:
    """States of *nodes*, from Slurm's controller.

    Raises:
        OSError: sinfo is not installed.
        subprocess.SubprocessError: it fails, or does not end.
    """
    command = ["sinfo", "--noheader", "--Node", f"--nodes={nodes}", "--format=%n %T"]
    done = subprocess.run(
        command,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=_TIMEOUT_S,
    )
    return done.stdout


def _reason(error: OSError | subprocess.SubprocessError) -> str:
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else ""
    return next(reversed((said or "").strip().splitlines()), str(error))


def _in_words(listing: str) -> str:
    states: Sequence[str] = sorted({line.strip() for line in listing.splitlines() if line.strip()})
    return ", ".join(states) or "it knows none of them"
