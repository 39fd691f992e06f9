"""GossipGraD: each rank averages its model with one other rank's in every step.

Daily et al., arXiv:1803.05880, with the update corrected: see
:mod:`matex.strategies.rules.partners`. The models travel while the step is computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import ft
from matex.exchange.codecs import CODECS
from matex.exchange.traffic import Traffic
from matex.strategies.interface import ReplicaLike, Strategy
from matex.strategies.mean import average_replicas
from matex.strategies.rules.partners import mix, partners

__all__ = ["Gossip"]

_OF_STATE = CODECS["bf16"]


class Gossip(Strategy):
    """Gossip: one model sent and one received per step, whatever the number of ranks.

    Weights and momenta are averaged. A step in which a peer dies, and the step after a peer's
    repair, is made without exchange; from then on the survivors are paired anew.

    With compression, ranks exchange the difference from the last model that all ranks had. A rank
    uses its own model as its partner decodes it, so the mean over the ranks is kept. The
    optimizer's state is in bf16, whatever the format of the weights: it spans more orders of
    magnitude than the other formats hold, and second moments rounded to zero would make huge
    updates.

    Args:
        replica: replica of this rank; equal on all ranks when training starts.
        seed: seed of the order in which partners change; equal on all ranks.
        compression: format of the weights: a key of :data:`matex.exchange.codecs.CODECS`, or
            ``none``, the default.
    """

    name = "gossip"

    def __init__(
        self,
        communicator: ft.Communicator,
        replica: ReplicaLike,
        *,
        seed: int,
        compression: str = "none",
    ) -> None:
        self._communicator = communicator
        self._replica = replica
        self._seed = seed
        self._swap: ft.Swap | None = None
        self._codec = CODECS.get(compression)
        self._reference: np.ndarray | None = None
        self._sent = np.empty(0, np.float32)
        self._have_diverged = False
        self._distance = 0.0
        self.traffic = Traffic()

    def before_step(self, step: int) -> None:
        self._swap, self.traffic = None, Traffic()
        if self._codec is not None and not self._have_diverged:
            self._reference = self._replica.read()
        self._have_diverged = True
        world = self._communicator.world
        pair = partners(world.ranks, world.rank, step, seed=self._seed)
        # Ranks that found a failure one operation later have been here, or still wait for partners
        # among the earlier members.
        if pair is None or self._communicator.pending.p2p_unsafe:
            return
        message = self._message(self._replica.read())
        self._swap = ft.Swap(
            self._communicator, message, to=pair.to, source=pair.source, number=step
        )
        self.traffic = Traffic(1, message.nbytes)

    def after_step(self, step: int) -> None:
        if (got := self._end_swap()) is not None:
            now, got = self._replica.read(), self._decoded(got)
            magnitudes = self._replica.magnitudes(now, self._sent, got)
            self._replica.write(mix(now, self._sent, got, magnitudes))

    def step_declined(self, step: int) -> None:
        self._end_swap()  # for memory that MPI still uses; models are as before

    def _end_swap(self) -> np.ndarray | None:
        """Partner's message; None if none is under way or it does not arrive whole."""
        swap, self._swap = self._swap, None
        return None if swap is None else swap.wait()

    def _message(self, model: np.ndarray) -> np.ndarray:
        """Message for *model*; sets :attr:`_sent` to the model that a partner decodes from it."""
        if self._codec is None:
            self._sent = model
            return model
        difference = (model - self._reference).astype(np.float32, copy=False)
        weights, state = np.split(difference, [self._replica.weights])
        message = np.concatenate([self._codec.encode(weights), _OF_STATE.encode(state)])
        self._sent = self._decoded(message)
        return message

    def _decoded(self, message: np.ndarray) -> np.ndarray:
        """Model decoded from *message*."""
        if self._codec is None:
            return message
        assert self._reference is not None
        weights = self._replica.weights
        codes, rest = np.split(message, [self._codec.nbytes(weights)])
        difference = np.append(
            self._codec.decode(codes, weights),
            _OF_STATE.decode(rest, self._reference.size - weights),
        )
        model: np.ndarray = np.add(self._reference, difference, dtype=self._reference.dtype)
        return model

    def consensus(self) -> None:
        """Set every replica to the mean of all; messages of a step that failed are dropped."""
        self._end_swap()
        if self._have_diverged:
            self._have_diverged = False
            self._distance = average_replicas(self._communicator, self._replica)

    def report(self) -> dict[str, Any]:
        """Relative distance of this replica from the mean at the last consensus."""
        return {"disagreement": self._distance}
