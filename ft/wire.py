"""Encodings of fixed size for members, and rank tags for the data that ranks send.

Pickle is not used: when a rank dies in the middle of an exchange, bytes may be missing, and must
be checked before they are decoded.
"""

from __future__ import annotations

import socket

import numpy as np

from ft.world import Member

__all__ = ["decode_member", "encode_member", "rank_tag", "tagged_ranks"]

_HOST_BYTES = 256
_BOOT_BYTES = 40
_NUMBERS_BYTES = 24
_ADDRESS_BYTES = 4
_ADDRESSES = 16  # addresses per host; further ones are left out
_MAGIC = 0x66745F726F770000


def rank_tag(rank: int) -> np.ndarray:
    """Tag that marks the bytes after it as original rank *rank*'s: uint8, shape (8,)."""
    return np.array([_MAGIC + rank], np.uint64).view(np.uint8)


def tagged_ranks(rows: np.ndarray) -> tuple[int, ...]:
    """Original ranks in the tags at the start of *rows* (uint8, 2-D)."""
    tags = np.ascontiguousarray(rows[:, : rank_tag(0).size]).view(np.uint64)
    return tuple(int(tag) - _MAGIC for tag in tags.ravel())


def encode_member(member: Member) -> np.ndarray:
    """Process id, its namespace and start, boot, addresses and host: uint8, shape (384,)."""
    numbers = np.array([member.pid, member.space, member.started], np.int64).tobytes()
    boot = member.boot.encode()[:_BOOT_BYTES].ljust(_BOOT_BYTES, b"\0")
    packed = b"".join(map(socket.inet_aton, member.addresses[:_ADDRESSES]))
    host = member.host.encode()[:_HOST_BYTES].ljust(_HOST_BYTES, b"\0")
    return np.frombuffer(
        numbers + boot + packed.ljust(_ADDRESSES * _ADDRESS_BYTES, b"\0") + host, np.uint8
    )


def decode_member(rank: int, content: np.ndarray) -> Member:
    """Member that :func:`encode_member` encoded."""
    data = content.tobytes()
    pid, space, started = np.frombuffer(data[:_NUMBERS_BYTES], np.int64).tolist()
    text = data[_NUMBERS_BYTES:]
    boot, text = text[:_BOOT_BYTES].rstrip(b"\0"), text[_BOOT_BYTES:]
    addresses, host = text[:-_HOST_BYTES], text[-_HOST_BYTES:].rstrip(b"\0")
    packed = [
        addresses[at : at + _ADDRESS_BYTES] for at in range(0, len(addresses), _ADDRESS_BYTES)
    ]
    return Member(
        rank=rank,
        host=host.decode(errors="replace"),
        pid=pid,
        space=space,
        boot=boot.decode(errors="replace"),
        started=started,
        addresses=tuple(socket.inet_ntoa(address) for address in packed if any(address)),
    )
