"""DASO: nodes average gradients in every step, and models every few steps, without waiting.

Coquelin et al., arXiv:2104.05588; the schedule of averages: :mod:`matex.strategies.rules.daso`.
Corrections of the published code: the epochs that average everything average gradients before the
optimizer gets them, and not weights after it, so that they are exact with every optimizer; momenta
are averaged with the weights if the ranks of a node have diverged, and at the end of an epoch;
nodes may have different numbers of ranks, are weighted by them, and may lose some.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import ft
from matex.exchange.rounding import FORMATS
from matex.exchange.traffic import Traffic
from matex.strategies.interface import ReplicaLike, Strategy
from matex.strategies.mean import average_replicas, mean
from matex.strategies.nodes import nodes_by
from matex.strategies.ring import ring_mean, ring_traffic
from matex.strategies.rules.daso import Plateau, active, blocking, merge

__all__ = ["Daso"]

_FORMAT = FORMATS["bf16"]
_PLATEAU = "plateau"  # name in the saved state


class _Flight(NamedTuple):
    """An average between nodes whose messages are under way."""

    swaps: list[tuple[ft.Swap, int]]
    """Message with each other node, and the number of ranks of that node."""
    ranks: int
    """Number of ranks of this node."""
    sent: np.ndarray
    """Weights when they were sent, not rounded as in the message."""
    waited: int
    """Number of steps between sending and merging."""
    due: int
    """Step after which the average is merged."""


class Daso(Strategy):
    """DASO for one rank: one rank of each node in turn sends one message to each other node.

    The message holds the distance of the weights from the last consensus, in 16 bits; only these
    messages arrive late. Inside a node gradients are averaged around a ring in each step, weighted
    by rows, before the optimizer gets them: all ranks of a node make the same update, so their
    weights and momenta stay equal. An average that one rank receives from other nodes goes around
    the ring with the weights. In the first and last epochs all ranks average gradients, in one
    collective, and no other message is sent: replicas are equal as they begin, and stay so.

    Ranks of a node diverge if they update by their own gradients: in a step with a repair, in the
    next step, and when the pace skips gradients. Then weights and momenta are averaged around the
    ring, after the next step in which an average is due, and from then on gradients again. A step
    in which a rank dies, and messages that are under way then, are skipped: nodes and pairs are
    formed anew.

    Args:
        replica: replica of this rank; equal on all ranks when training starts.
        epochs: number of epochs of the training; the first and last of them average all.
        ranks_per_node: number of original ranks in a node; default 0, the ranks of a host.
    """

    name = "daso"
    averages_gradients = True
    moves_weights_alone = True  # by an average between nodes

    def __init__(
        self,
        communicator: ft.Communicator,
        replica: ReplicaLike,
        *,
        epochs: int,
        ranks_per_node: int = 0,
    ) -> None:
        self._communicator = communicator
        self._replica = replica
        self._epochs = epochs
        self._by_node = nodes_by(communicator, ranks_per_node)
        self._plateau = Plateau()
        self._blocking = False
        self._count = 0
        self._reference: np.ndarray | None = None
        self._flight: _Flight | None = None
        self._distance = 0.0
        # Equal on the ranks of a node, except in a step in which a message is lost.
        self._have_diverged = False
        self._repairs = communicator.pending.repairs
        self._is_cut_off = False  # a member may have skipped the rest of this step's messages
        self.traffic = Traffic()

    def epoch_begins(self, epoch: int) -> None:
        """Select whether *epoch* averages everything, as the first and last epochs do."""
        self._blocking = blocking(epoch, self._epochs)
        self._count = 0

    def before_step(self, step: int) -> None:
        self.traffic = Traffic()
        if self._reference is None:
            self._reference = self._replica.read()[: self._replica.weights]

    def average_gradients(self, step: int, gradients: np.ndarray) -> np.ndarray:
        """Mean over all ranks in an epoch that averages everything, in others over this node.

        Over this node only while its members are equal; else this rank's own gradients.
        """
        if self._blocking:
            self._add(1, gradients.nbytes)
            return mean(self._communicator, gradients)[0]
        pending, self._is_cut_off = self._communicator.pending, False
        if pending.repairs != self._repairs:  # messages of the step before may have been lost
            self._repairs, self._have_diverged = pending.repairs, True
        if (self._count + 1) % self._plateau.pace.local:
            self._have_diverged = True
        if self._have_diverged or pending.p2p_unsafe:
            return gradients
        node = self._node()
        middle = ring_mean(self._communicator, node, gradients, number=2 * step)
        self._add(*ring_traffic(len(node), gradients))
        self._is_cut_off = middle is None
        return gradients if middle is None else middle

    def after_step(self, step: int) -> None:
        self._count += 1
        if self._blocking:
            return
        vector = self._replica.read()
        pace, count = self._plateau.pace, self._count
        arrived = self._arrived(vector[: self._replica.weights])
        merging = count > pace.wait and (count - pace.wait) % pace.skip == 0
        # A rank that notices a failure one operation later waits for partners that have been there.
        if not self._communicator.pending.p2p_unsafe:
            if (merging or count % pace.local == 0) and not self._is_cut_off:
                self._average_node(step, vector, arrived, merging=merging)
            if count % pace.skip == 0:
                self._send(step)

    def _average_node(
        self, step: int, vector: np.ndarray, arrived: np.ndarray | None, *, merging: bool
    ) -> None:
        """Average *vector* over this node; an update that *arrived* on one rank moves all of them.

        If the members of the node are equal, only the weights are averaged, and only for an
        arrival.
        """
        if not self._have_diverged and (not merging or len(self._nodes()) == 1):
            return
        node, size = self._node(), vector.size if self._have_diverged else self._replica.weights
        own = vector[:size].copy()
        if arrived is not None:
            own[: arrived.size] += arrived * own.dtype.type(len(node))
        middle = ring_mean(self._communicator, node, own, number=2 * step + 1)
        self._add(*ring_traffic(len(node), own))
        if middle is not None:
            vector[:size] = middle
            self._replica.write(vector)
            self._have_diverged = False

    def _send(self, step: int) -> None:
        """Start an average between nodes, if this rank is the active rank of its node."""
        rank, pace = self._communicator.world.rank, self._plateau.pace
        nodes = self._nodes()
        group = active(nodes, self._count // pace.skip)
        if rank not in group or len(group) == 1:
            return
        assert self._reference is not None
        sent = self._replica.read()[: self._replica.weights]
        message = _FORMAT.encode(sent.astype(np.float32) - self._reference.astype(np.float32))
        place, count = group.index(rank), len(group)
        swaps = []
        for shift in range(1, count):
            to, source = group[(place + shift) % count], group[place - shift]
            swap = ft.Swap(self._communicator, message, to=to, source=source, number=step)
            swaps.append((swap, len(nodes[place - shift])))
        self._add(len(swaps), len(swaps) * message.nbytes)
        due = self._count + pace.wait
        self._flight = _Flight(swaps, len(nodes[place]), sent, pace.wait, due)

    def _arrived(self, weights: np.ndarray) -> np.ndarray | None:
        """Change of *weights* by the average that is due; None if none is due or has arrived."""
        flight = self._flight
        if flight is None or flight.due > self._count:
            return None
        self._flight = None
        assert self._reference is not None
        models, ranks = [flight.sent], [flight.ranks]
        for swap, size in flight.swaps:
            if (got := swap.wait()) is not None:
                models.append(self._reference + _FORMAT.decode(got))
                ranks.append(size)
        # A node is weighted by its ranks, so that the mean over all ranks is kept.
        total = len(ranks) * np.average(models, axis=0, weights=ranks)
        merged = merge(weights, total, waited=flight.waited, members=len(ranks))
        return np.asarray(merged - weights, weights.dtype)

    def consensus(self) -> None:
        """Set every replica to the mean of all; averages under way are dropped."""
        if self._reference is None:  # no step was made
            return
        if self._flight is not None:
            for swap, _ in self._flight.swaps:
                swap.wait()
            self._flight = None
        self._distance = average_replicas(self._communicator, self._replica)
        self._have_diverged = False
        self._reference = None  # a callback may change the model before the next step
        self._count = 0

    def saved_state(self) -> dict[str, np.ndarray]:
        """The pace, and the losses that it follows from."""
        return {_PLATEAU: self._plateau.packed()}

    def restore_state(self, state: Mapping[str, np.ndarray]) -> None:
        if _PLATEAU in state:
            self._plateau = Plateau.unpacked(state[_PLATEAU])

    def epoch_ended(self, loss: float | None) -> None:
        """Let nodes average more often if *loss* no longer falls."""
        if loss is not None and not self._blocking:
            self._plateau.epoch_ended(loss)

    def report(self) -> dict[str, Any]:
        """Distance of this replica from the mean at the last consensus, and the next pace.

        Returns:
            ``disagreement``, the distance; ``skip``, the number of steps between averages over
            nodes in the next epoch that does not average everything.
        """
        return {"disagreement": self._distance, "skip": self._plateau.pace.skip}

    def replicas(self, ranks: Sequence[int]) -> int:
        return 1 if self._blocking else len(self._by_node(ranks))

    def _node(self) -> list[int]:
        """Living ranks of this rank's node."""
        return next(node for node in self._nodes() if self._communicator.world.rank in node)

    def _nodes(self) -> list[list[int]]:
        return self._by_node(self._communicator.world.ranks)

    def _add(self, messages: int, size: int) -> None:
        self.traffic = Traffic(self.traffic.messages + messages, self.traffic.bytes + size)
