"""Sum of a vector between hosts by messages along a route, through mpi4py."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import ft
from matex.exchange.codecs import CODECS, FORMAT_NUMBERS, Codec, format_of
from matex.exchange.messages import SliceMessages
from matex.exchange.residuals import Residuals
from matex.exchange.route import Extent, Message, Phase, Range, Route, buckets

__all__ = ["Slices", "Tables"]

Sending = dict[tuple[int, Phase], list[Message]]


class Tables(NamedTuple):
    """A route as tables of numbers: structures Message, Bucket and Route of ``slices.h``."""

    messages: np.ndarray
    buckets: np.ndarray
    numbers: dict[str, int]


class Slices:
    """Exchange of the vectors of one extent along the route of the current members.

    ``exchange.cc`` sends and receives the same messages: ranks with and without it interoperate.

    Args:
        communicator: communicator of the members.
        extent: size of the vector.
        compression: format of the body between hosts: a key of
            :data:`matex.exchange.codecs.CODECS`, or ``none``, the default.
        route_of: function that returns the route among the members.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        extent: Extent,
        *,
        compression: str = "none",
        route_of: Callable[[ft.World], Route] = Route.of,
    ) -> None:
        self._communicator = communicator
        self._dtype = extent.dtype
        self._route_of = route_of
        self.buckets = buckets(extent)
        self._formats = [format_of(bucket, extent, compression) for bucket in self.buckets]
        self.residuals = None
        if compression != "none":
            self.residuals = Residuals(extent.body, lasting=extent.lasting)
        self._world: ft.World | None = None
        self._route: Route | None = None
        self._tables: Tables | None = None
        self._left: list[SliceMessages] = []

    @property
    def route(self) -> Route:
        """Route of the current members. Local."""
        world = self._communicator.world
        if self._route is None or self._world is None or self._world.ranks != world.ranks:
            self._world, self._route, self._tables = world, self._route_of(world), None
            if self.residuals is not None:
                self.residuals.serve(self._route, self.buckets[:-1])
        return self._route

    def codec_of(self, bucket: int) -> Codec | None:
        """Format of a bucket between hosts; None for uncompressed numbers."""
        return CODECS.get(self._formats[bucket])

    @property
    def tables(self) -> Tables:
        """Route of the current members as tables for ``slices.h``. Local."""
        route = self.route
        if self._tables is None:
            messages = [
                (number, *message[:3], *message.part, message.whose)
                for number, bucket in enumerate(self.buckets)
                for message in route.messages_of(bucket)
            ]
            empty = Range(0, 0)
            parts = [
                (
                    *bucket,
                    *(route.slice(bucket, route.index) if route.serves else empty),
                    *(route.piece(bucket, route.index, route.host) if route.serves else empty),
                    FORMAT_NUMBERS[self._formats[number]],
                )
                for number, bucket in enumerate(self.buckets)
            ]
            self._tables = Tables(
                np.array(messages, np.int64),
                np.array(parts, np.int64),
                {
                    "locals": len(route.local),
                    "index": route.index,
                    "hosts": len(route.hosts),
                    "host": route.host,
                    "serves": int(route.serves),
                },
            )
        return self._tables

    @property
    def bytes(self) -> int:
        """Bytes that this rank sends in one exchange."""
        return sum(
            self._nbytes(number, message)
            for number, bucket in enumerate(self.buckets)
            for message in self.route.messages_of(bucket)
            if message.sends
        )

    def next_step(self) -> None:
        """Start a new step, which adds the rounding residuals of the last. Local."""
        if self.residuals is not None:
            self.residuals.next_step()

    def skip(self) -> None:
        """Record that the step's sum is made in another way, which leaves no residuals. Local."""
        if self.residuals is not None:
            self.residuals.taken[:] = 0

    def exchange(self, comm: Any, send: np.ndarray, result: np.ndarray) -> None:
        """Sum *send* over the members into *result*; collective.

        Args:
            comm: ``mpi4py.MPI.Comm`` of the members.
        """
        route = self.route
        self._left = [messages for messages in self._left if not messages.over()]
        messages = SliceMessages(comm)
        try:
            self._exchange(route, messages, send, result)
        except BaseException:
            self._left.append(messages)  # MPI may still write to their buffers
            raise

    def _exchange(
        self, route: Route, messages: SliceMessages, send: np.ndarray, result: np.ndarray
    ) -> None:
        sending: Sending = defaultdict(list)
        for number, bucket in enumerate(self.buckets):
            for message in route.messages_of(bucket):
                if message.sends:
                    sending[number, message.phase].append(message)
                else:
                    messages.receive(number, message, self._nbytes(number, message))

        def send_parts(number: int, vector: np.ndarray, phase: Phase) -> None:
            for message in sending[number, phase]:
                messages.send(number, message, vector[message.part.start : message.part.stop])

        for number in range(len(self.buckets)):
            send_parts(number, send, Phase.TO_SERVER)
        if route.serves:
            # Not in the result, which a peer may need until all members have started.
            sums = np.empty_like(send)
            for number in range(len(self.buckets)):
                self._add_up_on_host(route, messages, number, send, sums)
                for message in sending[number, Phase.TO_OWNER]:
                    messages.send(number, message, self._encoded(number, message.part, sums))
            for number in range(len(self.buckets)):
                owned = self._add_up_over_hosts(route, messages, number, sums, result)
                for message in sending[number, Phase.FROM_OWNER]:
                    messages.send(number, message, owned)
            for number, bucket in enumerate(self.buckets):
                for host in range(len(route.hosts)):
                    part = route.piece(bucket, route.index, host)
                    codes = messages.received(number, Phase.FROM_OWNER, host)
                    if codes is not None:
                        values = self._decoded(self.codec_of(number), codes, part.size)
                        result[part.start : part.stop] = values
                send_parts(number, result, Phase.FROM_SERVER)
        for number, bucket in enumerate(self.buckets):
            for index in range(route.slices):
                part = route.slice(bucket, index)
                codes = messages.received(number, Phase.FROM_SERVER, index)
                if codes is not None:
                    result[part.start : part.stop] = codes.view(self._dtype)
        messages.end()

    def _add_up_on_host(
        self, route: Route, messages: SliceMessages, number: int, send: np.ndarray, sums: np.ndarray
    ) -> None:
        """Sum this rank's slice of a bucket over its host, in the order of the ranks."""
        part = route.slice(self.buckets[number], route.index)
        own, total = send[part.start : part.stop], sums[part.start : part.stop]
        sent = [messages.received(number, Phase.TO_SERVER, i) for i in range(len(route.local))]
        self._add_up(own, sent, route.index, None, total)
        if self.codec_of(number) is not None and self.residuals is not None:
            total += self.residuals.kept[part.start : part.stop]

    def _add_up_over_hosts(
        self,
        route: Route,
        messages: SliceMessages,
        number: int,
        sums: np.ndarray,
        result: np.ndarray,
    ) -> np.ndarray:
        """Sum this rank's piece of a bucket over the hosts, in their order.

        Returns:
            Bytes for the other hosts; *result* then holds their decoded values.
        """
        codec = self.codec_of(number)
        part = route.piece(self.buckets[number], route.index, route.host)
        total = sums[part.start : part.stop]
        sent = [messages.received(number, Phase.TO_OWNER, i) for i in range(len(route.hosts))]
        self._add_up(total.copy(), sent, route.host, codec, total)
        codes = self._encoded(number, part, sums)
        result[part.start : part.stop] = self._decoded(codec, codes, part.size)
        return codes

    def _add_up(
        self,
        own: np.ndarray,
        sent: list[np.ndarray | None],
        place: int,
        codec: Codec | None,
        total: np.ndarray,
    ) -> None:
        """Write the sum of *own*, at its *place*, and the numbers in *sent* to *total*."""
        total[:] = 0
        for index, codes in enumerate(sent):
            if index == place:
                total += own
            elif codes is not None:
                total += self._decoded(codec, codes, total.size)

    def _encoded(self, number: int, part: Range, sums: np.ndarray) -> np.ndarray:
        """Bytes of a part of *sums* for another host; the rounding error is kept."""
        codec, values = self.codec_of(number), sums[part.start : part.stop]
        if codec is None or self.residuals is None:
            return values.view(np.uint8)
        wanted = values.astype(np.float32)
        codes = codec.encode(wanted)
        rest = wanted - codec.decode(codes, part.size)
        rest[~np.isfinite(rest)] = 0
        self.residuals.taken[part.start : part.stop] = rest
        return codes

    def _decoded(self, codec: Codec | None, codes: np.ndarray, count: int) -> np.ndarray:
        return codes.view(self._dtype) if codec is None else codec.decode(codes, count)

    def _nbytes(self, number: int, message: Message) -> int:
        codec = self.codec_of(number)
        between = message.phase in (Phase.TO_OWNER, Phase.FROM_OWNER)
        if codec is not None and between:
            return codec.nbytes(message.part.size)
        return message.part.size * self._dtype.itemsize
