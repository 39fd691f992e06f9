"""Header of this rank's contribution: requests and facts that the ranks' sum makes agreements."""

from __future__ import annotations

from typing import Any

import numpy as np

from matex import keras_hooks
from matex.exchange import Header
from matex.steps.services import StepServices

__all__ = ["ContributionHeader"]


class ContributionHeader:
    """Fields of this rank's headers that are not about samples. Local.

    ``stop_wanted`` and ``found_inseparable`` are what this rank tells the others; ``rate_factor``
    is the factor of the learning rate, of which the leader's is used.

    Args:
        services: ranks and requests of the run.
        model: model whose optimizer has the learning rate.
    """

    def __init__(self, services: StepServices, model: Any) -> None:
        self._services = services
        self._model = model
        self.stop_wanted = False
        self.rate_factor = 1.0
        self.found_inseparable = False

    def of(self, *, samples: int, fingerprint: int, speaks: bool) -> Header:
        """Header of a contribution, in which the graph is to put the learning rate.

        Args:
            samples, fingerprint: number and fingerprint of its samples.
            speaks: whether it is this rank's only contribution or its first, whose header also
                holds the fields that are not about samples.
        """
        header = Header(samples=float(samples), fingerprint=float(fingerprint), ranks=float(speaks))
        if not speaks:
            return header
        return header._replace(learning_rate=float(self._leads), **self._agreed_fields())

    def put(self, auxiliary: np.ndarray, header: Header) -> None:
        """Set the header of *auxiliary*, a sum of contributions, to that of one contribution.

        Args:
            auxiliary: auxiliary part of the vector.
            header: header with the fields about samples.
        """
        rate = keras_hooks.learning_rate_variable(self._model.optimizer)
        auxiliary[-len(Header._fields) :] = header._replace(
            learning_rate=float(rate.numpy()) if self._leads and rate is not None else 0.0,
            ranks=1.0,
            **self._agreed_fields(),
        )

    @property
    def _leads(self) -> bool:
        return self._services.communicator.world.is_leader

    def _agreed_fields(self) -> dict[str, float]:
        """Fields by which ranks agree on the learning rate and on the actions after the step."""
        requests = self._services.requests()
        return {
            "rate_factor": self.rate_factor if self._leads else 0.0,
            "stop": float(self.stop_wanted),
            "inseparable": float(self.found_inseparable),
            "leave": float(requests.leave),
            "save": float(requests.word) if self._leads else 0.0,
        }
