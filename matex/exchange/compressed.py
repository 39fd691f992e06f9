"""The exchange with gradients of 16 bits, and what rounding took sent in the next step.

Error feedback: Karimireddy et al., arXiv:1901.09847.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import ft
from matex.exchange.host import HostExchange
from matex.exchange.layout import Layout
from matex.exchange.rounding import FORMATS

__all__ = ["CompressedExchange"]

# Says that a rank's part of the result has come.
_HERE = 1


class CompressedExchange(HostExchange):
    """A host exchange that sends half the bytes.

    Each rank adds up one part of the vector, in float32 and in the order of ranks,
    and sends the sum to all: an alltoall and an allgather, which move what a ring
    allreduce moves, with two roundings whatever the number of ranks. The auxiliary part
    goes unrounded with the first. All ranks hold equal bits afterwards.

    What the first rounding took from this rank's gradients is kept, and added to
    those of the next step; a step that is replayed adds the same again. It is not
    in checkpoints, and dies with its rank.

    Args:
        compression: a key of :data:`matex.exchange.rounding.FORMATS`.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        layout: Layout,
        *,
        compression: str,
        faults: ft.Injector,
        **options: Any,
    ) -> None:
        super().__init__(communicator, layout, faults=faults, **{**options, "large_bytes": _NEVER})
        self._format = FORMATS[compression]
        self._body = layout.offsets[-2]
        self._kept = np.zeros(self._body, np.float32)
        self._taken = np.zeros(self._body, np.float32)

    @property
    def bytes(self) -> int:
        return 2 * self._body + self._send[self._body :].nbytes

    def begin(self, *, samples: int, fingerprint: int) -> None:
        self._kept, self._taken = self._taken, self._kept
        super().begin(samples=samples, fingerprint=fingerprint)

    def _reduce(self, result: np.ndarray) -> None:
        size = self._communicator.world.size
        if size == 1:
            super()._reduce(result)
            return
        body, auxiliary = self._body, self._send[self._body :]
        part = -(-body // size)
        message = np.zeros((size, part + auxiliary.nbytes // 2), np.uint16)
        codes = np.zeros(size * part, np.uint16)
        wanted = self._send[:body].astype(np.float32) + self._kept
        codes[:body] = self._format.encode(wanted)
        np.subtract(wanted, self._format.decode(codes[:body]), out=self._taken)
        self._taken[~np.isfinite(self._taken)] = 0
        message[:, :part] = codes.reshape(size, part)
        message[:, part:] = auxiliary.view(np.uint16)

        def call(comm: Any) -> None:
            got = np.zeros_like(message)
            comm.Alltoall(message, got)
            total = self._format.decode(np.ascontiguousarray(got[:, :part])).sum(0)
            mine = np.append(self._format.encode(total), np.uint16(_HERE))
            sums = np.zeros((size, part + 1), np.uint16)
            comm.Allgather(mine, sums)
            whole = np.ascontiguousarray(sums[:, :-1]).reshape(-1)[:body]
            result[:body] = self._format.decode(whole)
            auxiliaries = np.ascontiguousarray(got[:, part:]).view(auxiliary.dtype)
            result[body:] = auxiliaries.sum(0)
            if not (sums[:, -1] == _HERE).all():  # a death that MPI has reported as success
                result[self.layout.header_at("ranks")] = 0

        self._communicator.attempt(result, call, self._is_whole, untouched=True)


# One result would be written while a peer may still need it.
_NEVER = 1 << 62
