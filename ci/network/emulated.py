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
import heapq
import itertools
import json
import os
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

NETWORK = "10.77.42.0/24"
HEAD = 1  # the last byte of its address; the hosts follow

# As jumbo frames: fewer of them to carry.
MTU = 9000
_FRAME = MTU + 18

_networks = itertools.count()

_TUNSETIFF, _TAP, _NO_HEADER = 0x400454CA, 0x0002, 0x1000
_BROADCAST = 0x01  # of the first byte of an address: to more than one

# What Open MPI's launcher calls in place of ssh: ADDRESS COMMAND...
_AGENT = """#!/bin/sh
case $1 in {cases} *) exit 255;; esac
shift
exec ip netns exec $space unshare --uts sh -c "hostname $name; $*"
"""


@dataclass(frozen=True, kw_only=True)
class Link:
    """The link of every host to all others.

    Args:
        rate_bit_s: bits a second that leave a host.
        delay_s: from the end of sending to arrival.
        queue_s: a frame that would wait longer than this for its turn is dropped, as a full
            router does, and TCP slows down.
    """

    rate_bit_s: float
    delay_s: float
    queue_s: float = 0.05

    def departure(self, now: float, free: float, size: int) -> float | None:
        """When the last bit of *size* bytes has left; None where the frame is dropped. Pure.

        Args:
            free: when the link will have sent what came before.
        """
        begin = max(now, free)
        if begin - now > self.queue_s:
            return None
        return begin + 8 * size / self.rate_bit_s


class Switch:
    """Carries frames between TAP devices in a thread; port 0 is the head's, and quick.

    ``sent[i]`` are the bytes of the frames that left port i for another host, and ``dropped``
    counts frames. ``cut`` are pairs of ports, from and to, between which nothing is carried.
    """

    def __init__(self, taps: Sequence[int], macs: Sequence[bytes], link: Link) -> None:
        self._taps = list(taps)
        self._port_of = {mac: port for port, mac in enumerate(macs)}
        self._link = link
        self._free = [0.0] * len(taps)
        self._waiting: list[tuple[float, int, int, bytes]] = []
        self._number = 0
        self._wake, self._stop = os.pipe()
        self.sent = [0] * len(taps)
        self.dropped = 0
        self.cut: frozenset[tuple[int, int]] = frozenset()
        self._thread = threading.Thread(target=self._carry, name="switch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Carry no more."""
        os.write(self._stop, b"x")
        self._thread.join()
        for file in (*self._taps, self._wake, self._stop):
            os.close(file)

    def _carry(self) -> None:
        ports = {tap: port for port, tap in enumerate(self._taps)}
        while True:
            now = time.monotonic()
            while self._waiting and self._waiting[0][0] <= now:
                _, _, port, frame = heapq.heappop(self._waiting)
                self._deliver(port, frame)
            left = max(0.0, self._waiting[0][0] - now) if self._waiting else None
            ready, _, _ = select.select([*self._taps, self._wake], [], [], left)
            if self._wake in ready:
                return
            for tap in ready:
                self._take(ports[tap], os.read(tap, _FRAME))

    def _take(self, port: int, frame: bytes) -> None:
        to = self._port_of.get(frame[:6])
        if to is not None:
            self._send(port, to, frame)
        elif frame[0] & _BROADCAST:
            for other in range(len(self._taps)):
                if other != port:
                    self._send(port, other, frame)

    def _send(self, port: int, to: int, frame: bytes) -> None:
        if (port, to) in self.cut:
            self.dropped += 1
            return
        if 0 in (port, to):
            self._deliver(to, frame)
            return
        now = time.monotonic()
        departure = self._link.departure(now, self._free[port], len(frame))
        if departure is None:
            self.dropped += 1
            return
        self._free[port] = departure
        self.sent[port] += len(frame)
        self._number += 1  # of two that arrive together the first goes first
        arrival = departure + self._link.delay_s
        heapq.heappush(self._waiting, (arrival, self._number, to, frame))

    def _deliver(self, port: int, frame: bytes) -> None:
        try:
            os.write(self._taps[port], frame)
        except OSError:  # its queue is full, or the device goes down
            self.dropped += 1


@dataclass(frozen=True, kw_only=True)
class Emulated:
    """A network that is up.

    Args:
        addresses: of the hosts.
        environment: with which Open MPI starts ranks on them.
        head: words before a command that is to run on the head.
        inside: the same for each host.
        spaces: the namespaces of the hosts.
        switch: counts what goes between hosts.
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
            _ip("netns", "add", space)
            undo.callback(_remove, space)
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
            environment={
                "PRTE_MCA_plm_ssh_agent": str(agent),
                "PRTE_MCA_prte_if_include": NETWORK,
                "OMPI_MCA_btl_tcp_if_include": NETWORK,
                # It speaks TCP alone: over libfabric's, Open MPI takes thrice as long.
                "OMPI_MCA_btl": "^ofi",
            },
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
    done = subprocess.run(["ip", *words], check=True, capture_output=True, timeout=30, text=True)
    return done.stdout


def _remove(space: str) -> None:
    """The namespace, and what still runs in it."""
    _signal(space, signal.SIGKILL)
    _ip("netns", "del", space)


def _signal(space: str, number: signal.Signals) -> None:
    for pid in _ip("netns", "pids", space).split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), number)


def end_tidily() -> None:
    """From now on SIGTERM ends this program as an exception does: networks are removed."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


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
