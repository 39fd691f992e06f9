"""Hosts in network namespaces, joined by a slow network that a program emulates.

    python -m ci.network.emulated --hosts 2 --rate 100 --delay 1 -- \\
        matex run -n 4 --hosts {hosts:2} train.py

Each host is a network namespace with a name of its own and one TAP device. A thread carries
the frames between them, each after its turn on the sender's link (``--rate`` megabits a
second) and ``--delay`` milliseconds later: real TCP of real MPI meets a slow link, and the
kernel needs no queueing discipline. The command runs on a host of its own, the head, whose
frames are not slowed down. ``{hosts:2}`` in it becomes the hosts' addresses with 2 slots
each. At the end a line says how many bytes went between hosts.

Needs root and the command ip. Nothing leaves the namespaces, which are gone afterwards.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import itertools
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ci.jobs import between_hosts
from ci.network.switch import MTU, Link, Switch
from ci.patience import patience

NETWORK = "10.77.42.0/24"
_SPACES = Path("/run/netns")
HEAD = 1  # the last byte of its address; the hosts follow

_networks = itertools.count()

_TUNSETIFF, _TAP, _NO_HEADER = 0x400454CA, 0x0002, 0x1000

# What Open MPI's launcher calls in place of ssh: ADDRESS COMMAND...
_AGENT = """#!/bin/sh
case $1 in {cases} *) exit 255;; esac
shift
exec ip netns exec $space unshare --uts sh -c "hostname $name; $*"
"""


@dataclass(frozen=True, kw_only=True)
class Emulated:
    """A network that is up.

    Args:
        addresses: addresses of the hosts.
        environment: variables with which Open MPI starts ranks on them.
        head: words before a command that is to run on the head.
        inside: words before a command that is to run on a host, for each.
        spaces: namespaces of the hosts.
        switch: switch between the hosts, which counts their frames.
    """

    addresses: tuple[str, ...]
    environment: dict[str, str]
    head: tuple[str, ...]
    inside: tuple[tuple[str, ...], ...]
    spaces: tuple[str, ...]
    switch: Switch

    def hosts(self, slots: int) -> str:
        """The value for ``--hosts``."""
        return ",".join(f"{address}:{slots}" for address in self.addresses)

    def stop(self, host: int) -> None:
        """Stop all processes of the host of that number, from 1."""
        _signal(self.spaces[host - 1], signal.SIGSTOP)

    def go_on(self, host: int) -> None:
        """Let the processes of a host that was stopped go on."""
        _signal(self.spaces[host - 1], signal.SIGCONT)


@contextlib.contextmanager
def emulated(hosts: int, link: Link) -> Iterator[Emulated]:
    """Hosts joined by *link*, gone afterwards.

    Raises:
        OSError: no TAP device can be made (not root, no /dev/net/tun).
        subprocess.CalledProcessError: ip refused.
    """
    network = next(_networks)  # of this process
    spaces = [f"matex-{os.getpid()}-{network}-{n}" for n in range(hosts + 1)]
    addresses = [f"{NETWORK.rpartition('.')[0]}.{HEAD + n}" for n in range(hosts + 1)]
    macs = [bytes((2, 0, 0, 0, 42, n)) for n in range(hosts + 1)]
    with contextlib.ExitStack() as undo:
        taps: list[int] = []
        for space, address, mac in zip(spaces, addresses, macs, strict=True):
            undo.callback(_remove, space)
            _ip("netns", "add", space)
            taps.append(_tap(space, address, mac))
        switch = Switch(taps, macs, link)
        undo.callback(switch.close)
        folder = undo.enter_context(tempfile.TemporaryDirectory(prefix="network-"))
        agent = Path(folder) / "agent"
        cases = " ".join(
            f"{address}) space={space} name=host{number};;"
            for number, (space, address) in enumerate(zip(spaces, addresses, strict=True))
            if number
        )
        agent.write_text(_AGENT.format(cases=cases))
        agent.chmod(0o755)
        yield Emulated(
            addresses=tuple(addresses[1:]),
            environment=between_hosts(NETWORK, agent),
            head=_words(spaces[0]),
            inside=tuple(_words(space) for space in spaces[1:]),
            spaces=tuple(spaces[1:]),
            switch=switch,
        )


def _tap(space: str, address: str, mac: bytes) -> int:
    """The file of a TAP device, up in the namespace *space* under the name eth0."""
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    name = f"mx{os.getpid() % 10**7}t{mac[-1]}"
    try:
        request = struct.pack("16sH22x", name.encode(), _TAP | _NO_HEADER)
        fcntl.ioctl(file, _TUNSETIFF, request)
        _ip("link", "set", name, "netns", space, "name", "eth0")
        inside = ("-n", space, "link", "set")
        _ip(*inside, "eth0", "address", mac.hex(":"), "mtu", str(MTU))
        _ip("-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
        _ip(*inside, "eth0", "up")
        _ip(*inside, "lo", "up")
    except BaseException:
        os.close(file)
        raise
    return file


def _words(space: str) -> tuple[str, ...]:
    """The words before a command that is to run in *space*."""
    return ("ip", "netns", "exec", space)


def _ip(*words: str) -> str:
    done = subprocess.run(
        ["ip", *words], check=True, capture_output=True, timeout=patience(30), text=True
    )
    return done.stdout


def _remove(space: str) -> None:
    """The namespace, where it was made, and what still runs in it."""
    if not (_SPACES / space).exists():
        return
    _signal(space, signal.SIGKILL)
    _ip("netns", "del", space)


def _signal(space: str, number: signal.Signals) -> None:
    for pid in _ip("netns", "pids", space).split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), number)


def end_tidily() -> None:
    """Let SIGTERM end this program like an exception from now on, so that networks are removed.

    A second one, while they are removed, is ignored: a process group and a pool often send two.
    """

    def leave(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, leave)


@contextlib.contextmanager
def ended_tidily() -> Iterator[None]:
    """Context in which SIGTERM ends this process as by :func:`end_tidily`; local.

    A process that waits for work is to end by the system's own way: an exception that comes in a
    destructor is only printed, and one that comes right before a lock is waited for, never.
    """
    before = signal.getsignal(signal.SIGTERM)
    end_tidily()
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def with_command(parser: argparse.ArgumentParser) -> tuple[argparse.Namespace, list[str]]:
    """The options of this program's command line, and the command that follows them after ``--``.

    Raises:
        SystemExit: no command follows.
    """
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    words = arguments.command[arguments.command[:1] == ["--"] :]
    if not words:
        parser.error("a command is wanted, after --")
    return arguments, words


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--rate", type=float, default=100.0, help="megabits a second")
    parser.add_argument("--delay", type=float, default=1.0, help="milliseconds")
    arguments, words = with_command(parser)
    end_tidily()
    link = Link(rate_bit_s=1e6 * arguments.rate, delay_s=1e-3 * arguments.delay)
    with emulated(arguments.hosts, link) as network:

        def hosts(found: re.Match[str]) -> str:
            return network.hosts(int(found[1]))

        command = [re.sub(r"\{hosts:(\d+)\}", hosts, word) for word in words]
        environment = {**os.environ, **network.environment}
        status = subprocess.run([*network.head, *command], env=environment, check=False).returncode
        sent, dropped = network.switch.sent[1:], network.switch.dropped
    print(json.dumps({"bytes_sent": sent, "frames_dropped": dropped}), file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
