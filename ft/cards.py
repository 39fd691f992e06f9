"""Fixed-size bytes by which ranks introduce themselves and mark what they send.

No pickle: when a rank dies in the middle of an exchange, bytes may be missing,
and must be looked at before they are believed.
"""

from __future__ import annotations

import numpy as np

from ft.world import Member

__all__ = ["card", "label", "read_card"]

_HOST_BYTES = 256
_MARK = 0x66745F726F770000


def label(rank: int) -> np.ndarray:
    """uint8, shape (8,): says that what follows is from original rank *rank*."""
    return np.array([_MARK + rank], np.uint64).view(np.uint8)


def card(member: Member) -> np.ndarray:
    """uint8, shape (272,): the member's process id, the space of that, and the host."""
    host = member.host.encode()[:_HOST_BYTES].ljust(_HOST_BYTES, b"\0")
    return np.frombuffer(np.array([member.pid, member.space], np.int64).tobytes() + host, np.uint8)


def read_card(rank: int, content: np.ndarray) -> Member:
    """The member that :func:`card` described."""
    data = content.tobytes()
    host = data[16:].rstrip(b"\0").decode(errors="replace")
    pid, space = np.frombuffer(data[:16], np.int64).tolist()
    return Member(rank=rank, host=host, pid=pid, space=space)
