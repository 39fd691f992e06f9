"""Route of a vector between hosts: which rank sums which part of it. Pure.

The vector is divided into buckets, which are sent one after the other. A bucket is divided into as
many *slices* as each host has ranks (the smallest number of a host), and a slice into as many
*pieces* as there are hosts. Rank c of each host, the server of slice c on it,

1. sums its slice over the ranks of its host,
2. sends each piece to the server of slice c on another host, and sums its own piece over the hosts,
3. sends that sum to the servers of slice c on the other hosts,
4. and sends the whole slice to the ranks of its host.

So 2 (H - 1) / H vectors leave a host of H, whatever the number of its ranks, all of these send and
receive at once, and all ranks hold bit-identical sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

import ft
from ft.pieces import most_elements

__all__ = ["BLOCK", "Extent", "Message", "Phase", "Range", "Route", "buckets", "groups"]

#: Number of elements that share a scale in 8 bits; all pieces but a bucket's last are multiples.
BLOCK = 256

_BUCKET_BYTES = 512 << 10
_MOST_BUCKETS = 16


class Range(NamedTuple):
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start

    def cut(self, parts: int, part: int) -> Range:
        """Part number *part* of *parts* parts of about equal size; the last may be shorter."""
        step = -(-self.size // (parts * BLOCK)) * BLOCK
        return Range(
            min(self.start + step * part, self.stop), min(self.start + step * (part + 1), self.stop)
        )


class Extent(NamedTuple):
    """Size of a vector, and of the parts of it that may be compressed."""

    lasting: int
    """Number of elements whose meaning is the same in each step, which come first."""
    body: int
    """Number of elements that may be compressed; those that are not lasting have 16 bits."""
    size: int
    """Number of all elements."""
    dtype: np.dtype[Any]

    @staticmethod
    def plain(size: int, dtype: np.dtype[Any]) -> Extent:
        """Extent of a vector that is exchanged without compression."""
        return Extent(size, size, size, dtype)


class Phase(IntEnum):
    """Phases of a bucket's exchange, each with its own tag."""

    TO_SERVER = 0
    TO_OWNER = 1
    FROM_OWNER = 2
    FROM_SERVER = 3


class Message(NamedTuple):
    """A message of one bucket, as seen by one of its two ends."""

    phase: Phase
    peer: int
    """Place of the other end in the communicator."""
    sends: bool
    part: Range
    """Elements of the vector in the message."""
    whose: int
    """Origin of the content: index on the host in phases within a host, else the host's."""


@dataclass(frozen=True)
class Route:
    """Places of a communicator by host, and this rank's place.

    Args:
        hosts: places by host.
        place: place of this rank.
    """

    hosts: tuple[tuple[int, ...], ...]
    place: int

    @staticmethod
    def of(world: ft.World) -> Route:
        """Route of the members of *world*; on one host each member counts as a host of its own."""
        apart = world.host_count == 1
        by_host: dict[object, list[int]] = {}
        for place, member in enumerate(world.members):
            by_host.setdefault(place if apart else member.machine, []).append(place)
        return Route(tuple(map(tuple, by_host.values())), world.place)

    @cached_property
    def host(self) -> int:
        """Index of this rank's host."""
        return next(i for i, places in enumerate(self.hosts) if self.place in places)

    @property
    def local(self) -> tuple[int, ...]:
        """Places of the ranks on this rank's host."""
        return self.hosts[self.host]

    @property
    def index(self) -> int:
        """Index of this rank on its host."""
        return self.local.index(self.place)

    @cached_property
    def slices(self) -> int:
        return min(map(len, self.hosts))

    @property
    def serves(self) -> bool:
        """Whether this rank is the server of a slice."""
        return self.index < self.slices

    def slice(self, bucket: Range, index: int) -> Range:
        return bucket.cut(self.slices, index)

    def piece(self, bucket: Range, index: int, host: int) -> Range:
        """Piece of slice *index* that the server on *host* sums."""
        return self.slice(bucket, index).cut(len(self.hosts), host)

    def messages_of(self, bucket: Range) -> list[Message]:
        """Messages that this rank sends and receives for *bucket*, without empty ones."""
        return [message for message in self._all_messages(bucket) if message.part.size]

    def _all_messages(self, bucket: Range) -> Iterable[Message]:
        mine, here = self.index, self.host
        for index, server in enumerate(self.local[: self.slices]):
            if index == mine:
                continue
            part = self.slice(bucket, index)
            yield Message(Phase.TO_SERVER, server, True, part, mine)
            yield Message(Phase.FROM_SERVER, server, False, part, index)
        if not self.serves:
            return
        whole = self.slice(bucket, mine)
        for index, place in enumerate(self.local):
            if index == mine:
                continue
            yield Message(Phase.TO_SERVER, place, False, whole, index)
            yield Message(Phase.FROM_SERVER, place, True, whole, mine)
        owned = self.piece(bucket, mine, here)
        for host, places in enumerate(self.hosts):
            if host == here:
                continue
            peer, part = places[mine], self.piece(bucket, mine, host)
            yield Message(Phase.TO_OWNER, peer, True, part, host)
            yield Message(Phase.TO_OWNER, peer, False, owned, host)
            yield Message(Phase.FROM_OWNER, peer, True, owned, host)
            yield Message(Phase.FROM_OWNER, peer, False, part, host)


def buckets(extent: Extent) -> list[Range]:
    """Buckets of a vector, in order; the last has the elements that are never compressed.

    Each fits one message.
    """
    found: list[Range] = []
    for whole in (Range(0, extent.lasting), Range(extent.lasting, extent.body)):
        itemsize = extent.dtype.itemsize
        count = min(max(whole.size * itemsize // _BUCKET_BYTES, 1), _MOST_BUCKETS)
        count = max(count, -(-whole.size // most_elements(itemsize)))
        found += [part for part in (whole.cut(count, i) for i in range(count)) if part.size]
    return [*found, Range(extent.body, extent.size)]


def groups(offsets: Sequence[int], itemsize: int) -> list[int]:
    """Boundaries between groups of gradients that are sent together.

    Each group has at least a bucket's size but for the first, whose gradients are available last.

    Args:
        offsets: indices in the vector at which gradients begin, and at which the last one ends.
        itemsize: bytes of an element.
    """
    cuts = [len(offsets) - 1]
    for number in range(len(offsets) - 2, -1, -1):
        if (offsets[cuts[-1]] - offsets[number]) * itemsize >= _BUCKET_BYTES:
            cuts.append(number)
    return [*([0] if cuts[-1] else []), *cuts[::-1]]
