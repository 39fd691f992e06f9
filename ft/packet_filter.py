"""A packet filter that hides hosts from a socket of this process.

It is a program in the machine language of linux/filter.h. The kernel limits its length, and the
memory for it (``net.core.optmem_max``): it has one step for each address or range of addresses.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import socket
import struct
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, collapse_addresses
from typing import NamedTuple

__all__ = ["hide", "ranges_of"]

_SO_ATTACH_FILTER, _SO_DETACH_FILTER = 26, 27
_NETWORK_HEADER, _KEEP, _DROP = 0xFFF00000, 0xFFFFFFFF, 0
_FARTHEST = 255  # steps that a comparison can skip


class _Instruction(NamedTuple):
    """One of the program: its code, the steps to skip if a condition holds or not, and a number."""

    code: int
    yes: int
    no: int
    number: int


# A comparison goes on to the next step or skips some.
_LOAD_BYTE, _LOAD, _AND, _EQUAL, _SKIP, _RETURN = 0x30, 0x20, 0x54, 0x15, 0x05, 0x06


def ranges_of(addresses: Iterable[str]) -> list[IPv4Network]:
    """Ranges of IPv4 addresses that contain *addresses* and no other, the largest first. Pure."""
    ranges = collapse_addresses(IPv4Network(address) for address in addresses)
    return sorted(ranges, key=lambda found: found.prefixlen)


def hide(connection: socket.socket, ranges: Sequence[IPv4Network]) -> list[IPv4Network]:
    """Make the kernel drop packets from *ranges* before *connection* sees them; local.

    Args:
        connection: socket whose earlier filter is replaced.
        ranges: addresses, as from :func:`ranges_of`.

    Returns:
        Those of *ranges* for which the kernel has no room; usually none.

    Raises:
        OSError: *connection* takes no filter.
    """
    most = len(ranges)
    while not _attach(connection, ranges[:most]):
        if most == len(ranges):  # there was no room for the earlier one and this one together
            with contextlib.suppress(OSError):  # there is none
                connection.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)
            if _attach(connection, ranges):
                break
        most -= max(1, most // 16)
    return list(ranges[most:])


def _attach(connection: socket.socket, ranges: Sequence[IPv4Network]) -> bool:
    """Replace the filter of *connection*; return whether the kernel has room for the new one."""
    steps = _program(ranges)
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = struct.pack("HP", len(steps) & 0xFFFF, ctypes.addressof(code))
    if len(steps) > 0xFFFF:
        return False
    try:
        connection.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
    except OSError as error:
        if error.errno not in (errno.ENOMEM, errno.EINVAL) or not ranges:
            raise
        return False
    return True


def _program(ranges: Sequence[IPv4Network]) -> list[_Instruction]:
    """Steps that drop what comes from *ranges*, which are sorted by their sizes. Pure."""
    steps = [
        _Instruction(_LOAD_BYTE, 0, 0, _NETWORK_HEADER),
        _Instruction(_AND, 0, 0, 0xF0),  # the version
        _Instruction(_EQUAL, 1, 0, 0x40),  # 4?
        _Instruction(_RETURN, 0, 0, _KEEP),
    ]
    for _, group in itertools.groupby(ranges, key=lambda found: found.prefixlen):
        same = list(group)
        steps += [
            _Instruction(_LOAD, 0, 0, _NETWORK_HEADER + 12),  # the address of the sender
            _Instruction(_AND, 0, 0, int(same[0].netmask)),
        ]
        for at in range(0, len(same), _FARTHEST):
            block = same[at : at + _FARTHEST]
            steps += [
                _Instruction(_EQUAL, len(block) - place, 0, int(found.network_address))
                for place, found in enumerate(block)
            ]
            steps += [_Instruction(_SKIP, 0, 0, 1), _Instruction(_RETURN, 0, 0, _DROP)]
    return [*steps, _Instruction(_RETURN, 0, 0, _KEEP)]
