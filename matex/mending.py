"""A step whose exchange failed is brought to its end by those who are left."""

from __future__ import annotations

import time

import numpy as np

import ft
from matex.blame import blame
from matex.errors import TrainingError
from matex.exchange import HostExchange, header_of
from matex.partition import Span, difference, size
from matex.share import Share
from matex.source import Source
from matex.step_report import Replay, share_of

__all__ = ["Mender"]


class Mender:
    """Repairs, computes what the dead left undone, and replays. One to a training.

    ``have`` are the spans that this rank's kept contribution is made of; ``replay`` is
    what the running step lost and took over.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        share: Share,
        source: Source,
        *,
        faults: ft.Injector,
    ) -> None:
        self._communicator = communicator
        self._share = share
        self._source = source
        self._faults = faults
        self.have: list[Span] = []
        self.replay = Replay()

    def begin(self) -> list[Span]:
        """A new step: what this rank is to compute of it. Local.

        Who was lost in the last step, after others had finished it, has a share in this one.
        """
        span, pending = self._share.current.span, self._communicator.pending
        self.replay = Replay()
        self.have = self._share.assigned(span)
        if pending.lost:
            fresh = ft.Pending(operation=pending.operation, expected=pending.expected, lost=())
            self.replay.at_risk = {rank: share_of(rank, span, fresh) for rank in pending.lost}
            own = share_of(self._communicator.world.rank, span, fresh)
            self.replay.recomputed = size(self.have) - own
        return self.have

    def mend(self, exchange: HostExchange | None, error: BaseException) -> None:
        """Bring the failed exchange to its end; collective over the survivors.

        Afterwards the exchange holds the result of a whole step, the same on every rank.

        Raises:
            TrainingError: alike on every rank, no update was made.
        """
        cause = error if exchange is None else exchange.error
        while isinstance(cause, ft.PeerFailure):
            assert exchange is not None
            finished = self._recover()
            started = time.perf_counter()
            try:
                if finished:
                    exchange.check()
                else:
                    exchange.replay(self._completed(exchange))
                return
            except ft.PeerFailure as again:
                cause = again
            except TrainingError as wrong:
                cause = wrong
            finally:
                self.replay.seconds += time.perf_counter() - started
        if isinstance(cause, TrainingError):
            raise self._explained(exchange, cause) from None
        raise error if cause is None else cause

    def _recover(self) -> bool:
        """Whether somebody had finished the operation; what was at risk is noted. Collective."""
        span, pending = self._share.current.span, self._communicator.pending
        recovery = self._communicator.recover()
        for member in recovery.lost:
            # What a rank handed over before it died is in the sum that another one has.
            undone = 0 if recovery.finished else share_of(member.rank, span, pending)
            self.replay.at_risk[member.rank] = undone
        return recovery.finished

    def _completed(self, exchange: HostExchange) -> np.ndarray:
        """What this rank has for the step, and its piece of what the dead left undone."""
        wanted = self._share.assigned(self._share.current.span)
        missing = difference(wanted, self.have)
        vector = exchange.local.copy()
        if missing is None:  # a second death moved the pieces: start over
            vector[:] = 0
            missing = wanted
        if missing:
            vector += exchange.packed(self._share.contribution(missing))
            self.replay.recomputed += size(missing)
        self.have = wanted
        tail = self._share.layout.views(vector)[-1]
        self._share.put_header(tail, header_of(tail))
        return vector

    def _explained(self, exchange: HostExchange | None, error: TrainingError) -> TrainingError:
        """Say whose fault it is; collective, all ranks get here together."""
        assert exchange is not None
        step = self._faults.step
        if exchange.header.nonfinite:
            spoiled = exchange.local if exchange.spoiled else None
            return blame(self._communicator, self._share.layout, spoiled, step=step)
        return self._misfit(error)

    def _misfit(self, error: TrainingError) -> TrainingError:
        """The sum is not of the step's samples; on every rank that had some alike."""
        reason = self._source.explanation
        if reason and not self.have:
            # The others may be of one mind, and go on: this rank has no part in their sum.
            ft.die(f"step {self._faults.step}: {reason}")
        return TrainingError(f"step {self._faults.step}: {reason}") if reason else error
