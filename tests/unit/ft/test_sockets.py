"""Connections to a host that is left behind end; others stay."""

from __future__ import annotations

import contextlib
import socket

import pytest

from ft import sockets


def test_only_connections_with_the_given_addresses_are_shut() -> None:
    with contextlib.ExitStack() as stack:
        pairs = []
        for address in ("127.0.0.2", "127.0.0.3"):
            server = stack.enter_context(socket.create_server((address, 0)))
            mine = stack.enter_context(socket.create_connection(server.getsockname(), 10))
            theirs = stack.enter_context(server.accept()[0])
            theirs.settimeout(10)
            pairs.append((mine, theirs))
        left, kept = pairs
        assert sockets.shut({"127.0.0.2"}) >= 1
        assert left[0].recv(1) == b""
        kept[0].sendall(b"x")
        assert kept[1].recv(1) == b"x"
        # What the host that was left behind still has to say is refused.
        with pytest.raises(OSError):
            for _ in range(100):
                left[1].sendall(b"x")
        assert sockets.shut(set()) == 0


def test_an_address_of_version_4_is_known_behind_version_6() -> None:
    with (
        socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server,
        socket.create_connection(("127.0.0.4", server.getsockname()[1]), 10) as mine,
        server.accept()[0],
    ):
        assert mine.getpeername()[0] == "127.0.0.4"
        assert sockets.shut({"127.0.0.4"}) >= 1
        assert mine.recv(1) == b""


def test_own_addresses_are_not_those_of_loopback() -> None:
    found = sockets.own_addresses()
    assert all(socket.inet_aton(address) for address in found)
    assert not any(address.startswith("127.") for address in found)
