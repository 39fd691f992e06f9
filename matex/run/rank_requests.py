"""Requests of a rank that travel with its next step."""

from __future__ import annotations

import ft
from matex.checkpointing.saver import FILES, Saver
from matex.preemption.stop_request import StopRequest
from matex.records.step_report import StepRequests
from matex.run.elastic_ranks import ElasticRanks

__all__ = ["RankRequests"]


class RankRequests:
    """Collects what this rank asks of all ranks after a step. Local.

    Args:
        communicator: ranks of the run.
        saver: saver of the run, whose saves are due by the leader's clock.
        elastic: ranks that can come, and requests for others.
        stop_request: stop requests by signals and by the wall time.
    """

    def __init__(
        self,
        communicator: ft.Communicator,
        saver: Saver,
        elastic: ElasticRanks,
        stop_request: StopRequest,
    ) -> None:
        self._communicator = communicator
        self._saver = saver
        self._elastic = elastic
        self._stop_request = stop_request

    def collect(self) -> StepRequests:
        """Requests of this rank now."""
        elastic, leads = self._elastic, self._communicator.world.is_leader
        save = self._saver.due() if leads else 0
        if save & FILES and elastic.is_short:
            self._stop_request.ask_for_missing()
        return StepRequests(
            leave=self._stop_request.code != 0, save=save,
            admit=leads and elastic.replacements.is_one_ready(),
            resize=leads and elastic.resize_requests.is_one_there(),
        )  # fmt: skip
