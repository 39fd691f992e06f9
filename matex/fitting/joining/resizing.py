"""Ranks that leave a training on request, or are added to it, between two steps."""

from __future__ import annotations

import ft
from matex.fitting.listeners import Cursor, FitListener
from matex.records.launcher_protocol.resize_request import LeftOnRequest, Request
from matex.records.step_report import StepReport
from matex.run.context import RunContext
from matex.run.resize_requests import decide

__all__ = ["Resizing"]


class Resizing(FitListener):
    """Carries out the requests of ``matex resize`` and ``matex drain``.

    A rank that leaves ends between two steps, and the others wait for its end before they begin
    the next one, which so counts on none of its rows.

    Args:
        run: ranks of the run.
    """

    def __init__(self, run: RunContext) -> None:
        self._run = run

    def step_done(self, report: StepReport, cursor: Cursor) -> None:
        """Carry out a request, if all ranks have learned of one; then collective."""
        if not report.agreed.resize:
            return
        run, world = self._run, self._run.communicator.world
        request, coming = self._hear()
        if request is None:  # it was withdrawn
            return
        decision = decide(
            request,
            world.members,
            spares=world.spares,
            shares=run.communicator.initial_size > 1,
            survives=run.communicator.ulfm,
            coming=coming,
        )
        if run.communicator.world.is_leader:
            self._say(request, decision.refused, decision.leaving, decision.size)
        if decision.refused:
            return
        run.elastic.replacements.want(decision.size + run.config.spares, without=request.host)
        # In the next fit this many ranks train; the others are spares.
        run.ranks.active = (
            decision.size if run.config.spares else max(run.ranks.active, decision.size)
        )
        run.elastic.never_regrow()
        if decision.leaving:
            self._part(decision.leaving, request)
        run.communicator.set_places(decision.size)

    def _part(self, ranks: tuple[int, ...], request: Request) -> None:
        """End the *ranks*, and go on without them; collective."""
        run = self._run
        run.records.recoveries.part_with(ranks)
        run.communicator.barrier()  # all have the request, which may be of the leader's own end
        if run.communicator.world.rank in ranks:
            run.records.trace.flush()
            left = LeftOnRequest(request.text)
            ft.fail_stop(f"left on purpose: {request.text}", error=left)
        run.communicator.barrier()  # complete only once all of them have ended

    def _hear(self) -> tuple[Request | None, int]:
        """Request that the leader has found, and how many processes can come; collective."""
        run = self._run
        elastic = run.elastic

        def look() -> bytes:
            request = elastic.resize_requests.current()
            if request is None:
                return b""
            return b"%d " % elastic.replacements.count() + request.to_bytes()

        coming, _, text = ft.one_answer(run.communicator, look).partition(b" ")
        if run.communicator.world.is_leader:
            elastic.resize_requests.remove()
        return (Request.from_bytes(text), int(coming)) if text else (None, 0)

    def _say(self, request: Request, refused: str, asked: tuple[int, ...], size: int) -> None:
        run = self._run
        run.records.note(
            "resize", number=request.number, request=request.text,
            host=request.host or None, leaving=list(asked), world_size=size,
            refused=refused or None,
        )  # fmt: skip
        if refused:
            run.terminal.say(f"{request.text} is refused: {refused}")
            return
        names = ", ".join(map(str, asked))
        who = f": rank {names} leaves" if len(asked) == 1 else f": ranks {names} leave"
        run.terminal.say(f"{request.text}{who if asked else ''}")
