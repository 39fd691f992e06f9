"""The slow network that strategies are tried on."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys

import pytest

from ci.network.emulated import Emulated, emulated
from ci.network.switch import Link
from ci.patience import patience

RATE = 80e6  # 10 MB a second
BYTES = 4_000_000

LISTEN = """
import socket, sys
server = socket.create_server((sys.argv[1], 7000))
print("up", flush=True)
peer, _ = server.accept()
while peer.recv(1 << 20):
    pass
peer.sendall(b"k")
"""
SEND = """
import socket, sys, time
peer = socket.create_connection((sys.argv[1], 7000))
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
began = time.monotonic()
peer.sendall(bytes(int(sys.argv[2])))
peer.shutdown(socket.SHUT_WR)
assert peer.recv(1) == b"k"
print(time.monotonic() - began)
"""


def test_a_frame_leaves_after_those_before_it() -> None:
    link = Link(rate_bit_s=8e6, delay_s=1.0, queue_s=0.01)
    assert link.departure(5.0, 0.0, 1000) == pytest.approx(5.001)
    assert link.departure(5.0, 5.004, 1000) == pytest.approx(5.005)
    assert link.departure(5.0, 5.011, 1000) is None


def test_bytes_between_hosts_take_their_time_and_are_counted() -> None:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and the command ip")
    link = Link(rate_bit_s=RATE, delay_s=2e-3)
    with contextlib.ExitStack() as stack:
        try:
            found = stack.enter_context(emulated(2, link))
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no such network can be made here: {error}")
        spaces = [f"{found.head[-1][:-1]}{number}" for number in (1, 2)]
        inside = [["ip", "netns", "exec", space, sys.executable, "-c"] for space in spaces]
        target = found.addresses[1]
        with subprocess.Popen([*inside[1], LISTEN, target], stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == b"up\n"
            done = subprocess.run(
                [*inside[0], SEND, target, str(BYTES)],
                check=True, capture_output=True, text=True, timeout=patience(60),
            )  # fmt: skip
            assert server.wait(timeout=patience(60)) == 0
        least_s = 8 * BYTES / RATE + 2 * link.delay_s
        assert float(done.stdout) > 0.95 * least_s  # the link was busy with no more than its rate
        head, sent, answered = found.switch.sent
        assert head == 0
        assert BYTES < sent < 1.1 * BYTES + 10_000 * found.switch.dropped
        assert 0 < answered < BYTES / 10
    left = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True)
    assert not any(space in left.stdout for space in spaces)


def _started_on(network: Emulated) -> subprocess.Popen[bytes]:
    words = [*network.inside[0], "sh", "-c", "echo up; exec sleep 60"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"up\n"
    return process


def test_what_runs_on_one_network_outlives_the_end_of_another() -> None:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and the command ip")
    link = Link(rate_bit_s=RATE, delay_s=0)
    with contextlib.ExitStack() as stack:
        try:
            found = stack.enter_context(emulated(1, link))
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no such network can be made here: {error}")
        with emulated(1, link) as other:
            assert not {*found.spaces, *found.head} & {*other.spaces, other.head[-1]}
            here, there = map(_started_on, (found, other))
        assert there.wait(patience(10)) == -signal.SIGKILL
        assert here.poll() is None
    assert here.wait(patience(10)) == -signal.SIGKILL
