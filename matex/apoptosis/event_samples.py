"""Rows on which the events of one fit score units and evaluate removals."""

from __future__ import annotations

from typing import Any

from matex import keras_hooks
from matex.apoptosis.criteria.derivatives import must_have_derivatives
from matex.apoptosis.criteria.measure import samples_needed
from matex.apoptosis.criteria.table import CRITERIA
from matex.apoptosis.cut import rebuild
from matex.apoptosis.graph.forward import Traced
from matex.apoptosis.graph.network import Network
from matex.apoptosis.graph.trace import groups_of
from matex.apoptosis.held_out_loss import HeldOutLoss
from matex.apoptosis.samples import Sample, held_out_of, sample_of
from matex.apoptosis.schedule import held_out_rows

__all__ = ["EventSamples"]


class EventSamples:
    """The sample to score units on, and the held-out loss on other rows. Local.

    Args:
        forward: calls of the fit's model.
        training: arrays by name, to measure activations; None for fit's own.
        validation: arrays by name, for the held-out loss; None for fit's validation data, or else
            its training data.
        most: largest number of rows of either.

    Attributes:
        scoring: rows to measure activations on.
    """

    def __init__(
        self,
        forward: Traced,
        training: dict[str, Any] | None,
        validation: dict[str, Any] | None,
        *,
        limit: int,
    ) -> None:
        fed = keras_hooks.fit_data(forward.model)[0]
        training = training or fed
        assert training is not None, "fit makes its iterator before it calls callbacks"
        self._class_weight = (fed or {}).get("class_weight")
        self.scoring = sample_of(training, limit, class_weight=self._class_weight)
        self._forward = forward
        self._training = training
        self._validation = validation
        self._limit = limit
        self._held_out: Sample | None = None

    def must_serve(self, criterion: str, net: Network) -> None:
        """Raise where *criterion* asks what the rows to score units on do not tell of *net*."""
        row, model = CRITERIA[criterion], self._forward.model
        if row.derivatives is not None:
            must_have_derivatives(row, model, net, groups_of(net), self.scoring)

    def before_training(self) -> HeldOutLoss:
        """Held-out loss of the untrained network, before fit has made its validation data."""
        return HeldOutLoss(self._held_out_of(self._validation, self._limit), self._forward)

    def of_network(self, net: Network) -> HeldOutLoss:
        """Held-out loss on as many rows as events of *net* want.

        The rows are the same until :meth:`choose_anew`.

        Args:
            net: network of the current model.
        """
        if self._held_out is None:
            groups = groups_of(net)
            rows = held_out_rows(
                self.scoring.of,
                scored=samples_needed(net, groups, self.scoring.size),
                widths=[group.width for group in groups],
                flops=rebuild.flops(net),
                limit=self._limit,
            )
            self._held_out = self._rows(rows)
        return HeldOutLoss(self._held_out, self._forward)

    def on_rows(self, count: int) -> HeldOutLoss:
        """Held-out loss on *count* rows."""
        return HeldOutLoss(self._rows(count), self._forward)

    def choose_anew(self) -> None:
        """Choose other held-out rows for the next event: the model is another."""
        self._held_out = None

    def _rows(self, count: int) -> Sample:
        validation = self._validation or keras_hooks.fit_data(self._forward.model)[1]
        return self._held_out_of(validation, count)

    def _held_out_of(self, validation: dict[str, Any] | None, count: int) -> Sample:
        return held_out_of(self._training, validation, count, class_weight=self._class_weight)
