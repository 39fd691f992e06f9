"""The TCP connections of this process to other hosts.

After a repair that has left a host behind, the connections to it are shut. Otherwise its ranks,
which may be alive behind a cut network, report the ranks that *they* have given up when the network
returns; Open MPI passes these reports on as deaths, and healthy ranks separate.

Connections to a host that has fallen silent are shut, too (:mod:`ft.silent_hosts`). The detector
of Open MPI finds one rank of it at a time, some 40 s after the previous one; the network may return
meanwhile; when a connection ends, the rank at its other end is lost at once.

Nor may such a host connect anew: ranks make connections when they first need them. Connections
that this process has begun, without an answer yet, would be made when the network returns: the
answer is dropped. (They are not shut: Open MPI 5.0.9 may crash if one ends before it is made.)
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
import struct
import sys
from collections.abc import Collection, Iterable, Iterator
from ipaddress import IPv4Network
from pathlib import Path

from ft.packet_filter import hide, ranges_of

__all__ = ["connections", "left_behind", "own_addresses", "plain", "shut"]

_SIOCGIFADDR = 0x8915  # linux/sockios.h: the IPv4 address of an interface
_DESCRIPTORS = Path("/proc/self/fd")
# The kernel's lists of TCP sockets, and its code for the state of a socket that waits for the
# answer to its first packet (linux/tcp_states.h: TCP_SYN_SENT).
_TABLES = (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6"))
_SYN_SENT = "02"
_MAPPED = "0000000000000000FFFF0000"  # an IPv4 address in the form of IPv6, four bytes at a time

_left_behind: set[str] = set()  # a property of the process, as its sockets are
_uncovered: set[str] = set()  # those that the kernel does not hide


def own_addresses() -> tuple[str, ...]:
    """IPv4 addresses of this host's interfaces, without the loopback interface."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(asking.fileno(), _SIOCGIFADDR, request)
            except OSError:  # an interface without such an address
                continue
            found.append(socket.inet_ntoa(answer[20:24]))
    return tuple(address for address in found if not address.startswith("127."))


def shut(addresses: Collection[str]) -> int:
    """Shut this process's TCP connections to the hosts of *addresses*; return their number.

    Both directions end at once: the kernel refuses data that arrives later, answers no attempt of
    these hosts to connect again, and drops their answers to attempts of this process. The
    descriptors stay open, and reading one finds the end of the stream. Not only MPI's connections
    are shut: nothing distinguishes them from connections of the script.

    If there are more addresses than the kernel's filter has room for, one line says so, and what
    connects again from the others is shut by the next call.
    """
    if not addresses:
        return 0
    _left_behind.update(addresses)
    ended = _uncovered.union(addresses)
    count, ranges = 0, ranges_of(_left_behind)
    begun = _begun()
    for connection in connections():
        with connection, contextlib.suppress(OSError):  # not connected, or no longer
            inode = os.fstat(connection.fileno()).st_ino
            listens = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            if listens or begun.get(inode) in addresses:
                _note_uncovered(hide(connection, ranges))
            elif inode not in begun and plain(connection.getpeername()[0]) in ended:
                connection.shutdown(socket.SHUT_RDWR)
                count += 1
    return count


def left_behind() -> frozenset[str]:
    """Addresses of hosts that this process has shut out: see :func:`shut`."""
    return frozenset(_left_behind)


def _note_uncovered(ranges: Iterable[IPv4Network]) -> None:
    """Note lost hosts that the kernel does not hide; the first time, say so."""
    uncovered = {str(address) for found in ranges for address in found}
    if uncovered and not _uncovered:
        print(
            f"{len(uncovered)} of {len(_left_behind)} addresses of lost hosts do not fit into the "
            "kernel's packet filter: if they connect again they are shut out at the next repair "
            "only (sysctl net.core.optmem_max)",
            file=sys.stderr,
            flush=True,
        )
    _uncovered.update(uncovered)


def connections() -> Iterator[socket.socket]:
    """Copies of this process's TCP sockets; the caller closes each of them."""
    try:
        descriptors = [int(entry.name) for entry in _DESCRIPTORS.iterdir()]
    except OSError:  # a system without /proc
        return
    for descriptor in descriptors:
        try:
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            copy = socket.socket(fileno=os.dup(descriptor))
        except OSError:  # closed since it was listed
            continue
        internet = copy.family in (socket.AF_INET, socket.AF_INET6)
        if internet and copy.type == socket.SOCK_STREAM:
            yield copy
        else:
            copy.close()


def _begun() -> dict[int, str]:
    """IPv4 addresses of connections that TCP sockets have begun without an answer, by inode."""
    found = {}
    for table in _TABLES:
        try:
            _, *lines = table.read_text().splitlines()
        except OSError:  # a system without /proc, or without IPv6
            continue
        for line in lines:
            _, _, remote, state, *rest = line.split()
            word = remote.partition(":")[0].removeprefix(_MAPPED)
            if state == _SYN_SENT and len(word) == 8:
                found[int(rest[5])] = socket.inet_ntoa(struct.pack("=I", int(word, 16)))
    return found


def plain(address: str) -> str:
    """Dotted form of an IPv4 address that may be mapped into IPv6."""
    return address.removeprefix("::ffff:")
