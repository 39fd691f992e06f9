"""A host that cannot be reached is given up; a late one, or a process that stands still, is not."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys

import pytest

from ci.network.emulated import emulated
from ci.network.switch import Link

LISTEN = """
import socket, sys
server = socket.create_server((sys.argv[1], 7000))
print("up", flush=True)
sys.stdin.read()
"""
# Each line that it reads: how many bytes to send, how often the kernel is to send them again before
# the host is looked at, and how it is looked at. The kernel waits twice as long each time: those
# before Linux 6.15 know nothing else.
SEND = """
import socket, sys, time
from ft import silent_hosts, sockets
from ft.silent_hosts import SilentHosts

silent_hosts._OPTIONS = silent_hosts._OPTIONS[:-1]
peer = socket.create_connection((sys.argv[1], 7000), 30)
peer.setblocking(False)
hosts = SilentHosts(lambda: {sys.argv[1], "10.1.2.3"} - sockets.left_behind())
for line in sys.stdin:
    size, again, way = map(int, line.split())
    if size:
        peer.send(bytes(size))
    while peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[2] < again:
        time.sleep(0.05)
    if way == 1:
        hosts.disconnect_silent()
    if way == 2:
        hosts.start()
        end = time.monotonic() + 100
        while not sockets.left_behind() and time.monotonic() < end:
            time.sleep(0.05)
    print(*sockets.left_behind(), flush=True)
"""
WAIT, SETTLE, WATCH = 0, 1, 2


def test_a_host_is_given_up_where_it_cannot_be_reached_and_not_where_it_is_only_late() -> None:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and the command ip")
    with contextlib.ExitStack() as stack:
        try:
            found = stack.enter_context(emulated(2, Link(rate_bit_s=1e9, delay_s=1e-4)))
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no such network can be made here: {error}")
        target = found.addresses[1]

        def started(host: int, program: str) -> subprocess.Popen[str]:
            words = [*found.inside[host], sys.executable, "-c", program, target]
            process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        listener = started(1, LISTEN)
        assert listener.stdout is not None
        assert listener.stdout.readline() == "up\n"
        sender = started(0, SEND)

        def left(size: int, again: int, way: int) -> list[str]:
            assert sender.stdin is not None
            assert sender.stdout is not None
            sender.stdin.write(f"{size} {again} {way}\n")
            return sender.stdout.readline().split()

        found.stop(2)  # and its kernel answers, also where there is no more room
        assert left(20_000_000, 0, SETTLE) == []
        found.go_on(2)
        # After .2, .4, .8 ... s: nothing comes for 12 s more when the network is whole again.
        cut = frozenset({(1, 2), (2, 1)})
        found.switch.cut = cut
        assert left(1, 6, WAIT) == []
        found.switch.cut = frozenset()
        assert left(0, 0, SETTLE) == []
        found.switch.cut = cut
        assert left(0, 0, WATCH) == [target]
