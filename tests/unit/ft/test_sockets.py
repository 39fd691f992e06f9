"""Connections to a host that is left behind end; others stay."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Iterator

import pytest

from ci.patience import patience
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


def test_a_connection_that_is_being_made_is_not_made_any_more() -> None:
    with contextlib.ExitStack() as stack:

        def begun(family: int, to: tuple[str, int]) -> socket.socket:
            connection = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            connection.setblocking(False)
            connection.connect_ex(to)
            return connection

        servers, waiting, leads_to = [], select.poll(), {}
        for address in ("127.0.0.8", "127.0.0.9"):
            # One that accepts nothing: when its queue is full, the kernel answers no attempt.
            server = stack.enter_context(socket.create_server((address, 0), backlog=0))
            server.setblocking(False)
            servers.append(server)
            port = server.getsockname()[1]
            for _ in range(4):
                begun(socket.AF_INET, (address, port))
            for family, place in (
                (socket.AF_INET, address), (socket.AF_INET6, f"::ffff:{address}"),
            ):  # fmt: skip
                connection = begun(family, (place, port))
                waiting.register(connection, select.POLLOUT)
                leads_to[connection.fileno()] = address
        assert waiting.poll(100) == []  # there is no answer
        assert sockets.shut({"127.0.0.8"}) == 1  # the one in the queue
        # All ask again after a second, and later; a place in a queue is of who asks first.
        limit, made = time.monotonic() + patience(30), []
        while not made and time.monotonic() < limit:
            for server in servers:
                with contextlib.suppress(BlockingIOError):
                    stack.enter_context(server.accept()[0])
            made = waiting.poll(100)
        assert {leads_to[number] for number, _ in made} == {"127.0.0.9"}


def test_an_address_of_version_4_is_known_behind_version_6() -> None:
    with (
        socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server,
        socket.create_connection(("127.0.0.4", server.getsockname()[1]), 10) as mine,
        server.accept()[0],
    ):
        assert mine.getpeername()[0] == "127.0.0.4"
        assert sockets.shut({"127.0.0.4"}) >= 1
        assert mine.recv(1) == b""


def test_who_was_left_behind_cannot_connect_again() -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        to = server.getsockname()

        def connect(source: str) -> None:
            stack.enter_context(socket.create_connection(to, 1, source_address=(source, 0)))

        connect("127.0.0.5")
        sockets.shut({"127.0.0.5"})
        sockets.shut({"127.0.0.6"})
        for source in ("127.0.0.5", "127.0.0.6"):
            with pytest.raises(TimeoutError):
                connect(source)
        connect("127.0.0.7")


def scattered(count: int) -> list[str]:
    """Addresses of which no two make a range."""
    return [f"127.{1 + at // 16384}.{at // 128 % 128}.{at % 128 * 2}" for at in range(count)]


@pytest.fixture
def nobody_left() -> Iterator[None]:
    """No address is shut out, before the test and after it."""
    kept = set(sockets._left_behind), set(sockets._uncovered)
    sockets._left_behind.clear()
    sockets._uncovered.clear()
    yield
    sockets._left_behind, sockets._uncovered = kept


def answers(server: socket.socket, source: str) -> bool:
    """Whether *server* lets *source* connect."""
    try:
        socket.create_connection(server.getsockname(), 0.3, source_address=(source, 0)).close()
    except TimeoutError:
        return False
    return True


@pytest.mark.usefixtures("nobody_left")
@pytest.mark.parametrize("already", [0, 2000])
def test_many_addresses_are_shut_out(already: int) -> None:
    lost = scattered(2200)
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as server:
        if already:
            sockets.shut(lost[:already])
        sockets.shut(lost)
        assert not any(answers(server, address) for address in (*lost[:3], *lost[-3:], lost[1000]))
        assert answers(server, "127.1.0.1")
        assert answers(server, "127.0.0.1")


@pytest.mark.usefixtures("nobody_left")
def test_ranges_of_addresses_are_shut_out_as_such() -> None:
    lost = [f"127.9.{at // 256}.{at % 256}" for at in range(5, 20_000)]
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as server:
        sockets.shut(lost)
        assert not any(answers(server, address) for address in (lost[0], lost[9_000], lost[-1]))
        assert answers(server, "127.9.0.4")
        assert answers(server, "127.9.78.32")


@pytest.mark.usefixtures("nobody_left")
def test_what_the_kernel_has_no_room_for_is_said_once(capfd: pytest.CaptureFixture[str]) -> None:
    lost = scattered(6000)
    with (
        socket.create_server(("127.0.0.1", 0), backlog=1000) as server,
        socket.create_server(("127.0.0.1", 0)),
    ):
        sockets.shut(lost)
        said = capfd.readouterr().err
        assert said.count("\n") == 1
        assert "of 6000 addresses of lost hosts do not fit" in said
        assert not answers(server, lost[0])
        again = socket.create_connection(server.getsockname(), 5, source_address=(lost[-1], 0))
        with again, server.accept()[0]:
            assert sockets.shut({"127.9.9.9"}) >= 1
            assert again.recv(1) == b""
        assert capfd.readouterr().err == ""


def test_own_addresses_are_not_those_of_loopback() -> None:
    found = sockets.own_addresses()
    assert all(socket.inet_aton(address) for address in found)
    assert not any(address.startswith("127.") for address in found)
