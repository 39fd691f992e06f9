"""The TCP connections of this process to other hosts.

After a repair that has left a host behind, the connections to it are shut. Otherwise its ranks,
which may be alive behind a network that is cut, tell the others when the network returns whom
*they* have given up; Open MPI passes this on as news of deaths, and healthy ranks part.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
import struct
from collections.abc import Collection, Iterator
from pathlib import Path

__all__ = ["own_addresses", "shut"]

_SIOCGIFADDR = 0x8915  # linux/sockios.h: the IPv4 address of an interface
_DESCRIPTORS = Path("/proc/self/fd")


def own_addresses() -> tuple[str, ...]:
    """The IPv4 addresses of this host's interfaces, without those of the loopback interface."""
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
    """Shut this process's TCP connections with the hosts of *addresses*; return how many.

    Both directions end at once: what arrives later is refused by the kernel. The descriptors
    stay open, and whoever reads one finds its end. Not only MPI's connections are shut: nothing
    tells them from those of the script.
    """
    if not addresses:
        return 0
    count = 0
    for connection in _connections():
        with connection, contextlib.suppress(OSError):  # not connected, or no longer
            if _plain(connection.getpeername()[0]) in addresses:
                connection.shutdown(socket.SHUT_RDWR)
                count += 1
    return count


def _connections() -> Iterator[socket.socket]:
    """Copies of this process's TCP sockets, each of which the caller closes."""
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


def _plain(address: str) -> str:
    """An IPv4 address that is written as one of IPv6, in its own form."""
    return address.removeprefix("::ffff:")
