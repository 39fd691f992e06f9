"""Encodings of fixed size by which ranks introduce themselves and label what they send.

No pickle: when a rank dies in the middle of an exchange, bytes may be missing,
and must be looked at before they are believed.
"""

from __future__ import annotations

import socket

import numpy as np

from ft.world import Member

__all__ = ["decode_member", "encode_member", "rank_tag", "tagged_ranks"]

_HOST_BYTES = 256
_ADDRESS_BYTES = 4
_ADDRESSES = 16  # of a host; more of them are left out
_MAGIC = 0x66745F726F770000


def rank_tag(rank: int) -> np.ndarray:
    """uint8, shape (8,): says that what follows is from original rank *rank*."""
    return np.array([_MAGIC + rank], np.uint64).view(np.uint8)


def tagged_ranks(rows: np.ndarray) -> tuple[int, ...]:
    """Original ranks that the tags name with which *rows* (uint8, 2-D) begin."""
    tags = np.ascontiguousarray(rows[:, : rank_tag(0).size]).view(np.uint64)
    return tuple(int(tag) - _MAGIC for tag in tags.ravel())


def encode_member(member: Member) -> np.ndarray:
    """uint8, shape (336,): the member's process id, the space of that, the addresses, the host."""
    numbers = np.array([member.pid, member.space], np.int64).tobytes()
    packed = b"".join(map(socket.inet_aton, member.addresses[:_ADDRESSES]))
    host = member.host.encode()[:_HOST_BYTES].ljust(_HOST_BYTES, b"\0")
    return np.frombuffer(
        numbers + packed.ljust(_ADDRESSES * _ADDRESS_BYTES, b"\0") + host, np.uint8
    )


def decode_member(rank: int, content: np.ndarray) -> Member:
    """The member that :func:`encode_member` described."""
    data = content.tobytes()
    pid, space = np.frombuffer(data[:16], np.int64).tolist()
    addresses, host = data[16:-_HOST_BYTES], data[-_HOST_BYTES:].rstrip(b"\0")
    packed = [
        addresses[at : at + _ADDRESS_BYTES] for at in range(0, len(addresses), _ADDRESS_BYTES)
    ]
    return Member(
        rank=rank,
        host=host.decode(errors="replace"),
        pid=pid,
        space=space,
        addresses=tuple(socket.inet_ntoa(address) for address in packed if any(address)),
    )
