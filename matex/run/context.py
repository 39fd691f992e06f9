"""The services of a run on this rank: communicator, records, watch, checkpoints."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import checkpoints
import ft
from matex.checkpointing.saver import FILES, Saver, Take
from matex.checkpointing.stop_requests import StopRequest
from matex.config import Config, arbiter_setting
from matex.config.virtual import VIRTUAL, workers_for
from matex.exchange import Choice, HostExchange, Layout
from matex.records.events import EventLog
from matex.records.fault_events import record_fault
from matex.records.step_report import StepReport, StepRequests
from matex.records.summary import Totals
from matex.records.trace_part import TracePart, part_name
from matex.run.call_order import CallOrder
from matex.run.candidates import ColdCandidates, NewProcesses
from matex.run.event_hearing import EventHearing
from matex.run.hooks import RunHooks
from matex.run.joining import Joining
from matex.run.launcher_client import LauncherClient
from matex.run.ledger import RunLedger
from matex.run.outcome import RunOutcome
from matex.run.processor import Threads
from matex.run.progress_notes import ProgressNotes
from matex.run.recovery_log import RecoveryLog
from matex.run.replacements import Replacements
from matex.run.resize_requests import ResizeRequests
from matex.run.step_watch import StepWatch
from matex.run.terminal import Terminal
from matex.steps.nonfinite import Nonfinite

__all__ = ["RunContext"]


class RunContext:
    """The communicator and everything that watches, records and counts around it.

    It is the :class:`matex.steps.services.StepServices` of all steps of the run. What is counted
    stands in ``ledger``, how the run ends in ``outcome``; :mod:`matex.run.life_cycle` begins and
    ends it.

    Args:
        config: options of the run.
        communicator: ranks of the run.
        events: event log of this rank.
        stop_request: hears of signals and of the wall time.
        threads: threads and cores of this rank.
        joining: the way of this process into a run that has begun; None from the start on.
        cold: processes that wait to take the places of the dead; None by default.
    """

    def __init__(
        self,
        config: Config,
        communicator: ft.Communicator,
        events: EventLog,
        stop_request: StopRequest,
        threads: Threads,
        joining: Joining | None = None,
        cold: ft.ColdSpares | None = None,
    ) -> None:
        me = communicator.world.me
        self.config = config
        self.communicator = communicator
        self.events = events
        self.stop_request = stop_request
        self.threads = threads
        self.joining = joining
        at_start = communicator.initial_size - config.spares
        self.key = joining.welcome.key if joining else ""
        """Text that nobody can guess, equal on all ranks, from the begin of the run."""
        self.active = joining.welcome.active if joining else at_start
        """The largest number of ranks that train; the others are spares."""
        self.terminal = Terminal(communicator)
        self.faults = ft.Injector(
            config.faults,
            rank=me.rank,
            host=me.host,
            before=lambda fault: record_fault(events, fault, step=self.step),
        )
        totals = Totals(
            world_size_start=self.active, spares=config.spares, strategy=config.strategy
        )
        self.ledger = RunLedger(totals, self.faults)
        self.outcome = RunOutcome()
        parts = communicator, events, self.ledger
        self.recoveries = RecoveryLog(*parts, self.terminal, size_of=self.size_of)
        self.watch = StepWatch(config, communicator, events, self.ledger, self.terminal)
        self.watchdog = self.watch.watchdog
        self.calls = CallOrder(communicator)
        self.exchange_choice = Choice(
            config.exchange,
            config.cache_directory,
            plan=config.exchange_plan if joining is None else joining.welcome.plan,
            compression=config.compression if config.strategy == "sync" else "none",
            impossible="" if ft.has_mpi() else "no MPI was found, so this is one rank",
        )
        self.saver = Saver(config, communicator, events, stop_request, self.warn)
        setting = arbiter_setting()
        launcher = LauncherClient(setting) if setting else None
        self.replacements = Replacements(
            config, communicator,
            ColdCandidates(communicator, cold) if cold else NewProcesses(communicator),
            events, self.terminal, stop_request, launcher, threads=threads.own,
            agreed=self._agreed,
        )  # fmt: skip
        self.resize_requests = ResizeRequests(config.report, self.warn)
        self.nonfinite = Nonfinite(config.nonfinite, communicator, tell=self._say_nonfinite)
        part = config.report and config.report / part_name(me.rank)
        self.trace = TracePart(part, self.warn)
        self._progress = ProgressNotes(*parts, self.recoveries, size_of=self.size_of)
        self._saved: checkpoints.Snapshot | None = None
        self._balances = config.balance
        self.script_checkpoints = False
        """Whether the script saves a loop of its own, and leaves between its own steps."""
        self._may_regrow = config.grow_to > 0
        self._hook(launcher)

    def _hook(self, launcher: LauncherClient | None) -> None:
        """Let communicator and event log call what is to hear of them."""
        self.events.complain = self.say
        self.events.listener = EventHearing(
            self.config.report, self.trace, self.faults,
            leads=lambda: self.leads, complain=self.warn,
        ).heard  # fmt: skip
        hooks = RunHooks(self.watchdog, self.faults, launcher, record=self.recoveries.heard)
        self.communicator.attach(hooks)

    # What is known.

    @property
    def step(self) -> int:
        """The number of the next training step of the whole script."""
        return self.ledger.step

    @property
    def leads(self) -> bool:
        """Whether this rank prints and writes for all."""
        return self.communicator.world.is_leader

    @property
    def saved(self) -> checkpoints.Snapshot | None:
        """The checkpoint that the run continues from."""
        return self._saved

    def continue_from(self, saved: checkpoints.Snapshot | None) -> None:
        """Let the run continue from *saved*; before anything is trained, alike on all ranks."""
        self._saved = saved
        if saved is not None:
            self.ledger.go_to_step(saved.step)

    @property
    def virtual_workers(self) -> int:
        """The number of virtual workers that share each batch; 0 where ranks do.

        That of the checkpoint that the run continues from counts, then that of the options, then
        the smallest power of two that is at least the number of ranks.
        """
        if not self.config.deterministic:
            return 0
        if self.joining is not None:
            return self.joining.welcome.virtual
        saved = 0 if self._saved is None else self._saved.cursor.get(VIRTUAL, 0)
        return saved or self.config.virtual or workers_for(self.active)

    def _agreed(self) -> dict[str, Any]:
        plan, virtual = self.exchange_choice.plan, self.virtual_workers
        return {"active": self.active, "key": self.key, "virtual": virtual, "plan": plan}

    @property
    def is_short(self) -> bool:
        """Whether ranks are missing that could be started again. Local."""
        missing = self.communicator.world.size < self.config.grow_to
        return self._may_regrow and missing and not self.replacements.is_open

    def never_regrow(self) -> None:
        """Go on without the ranks that are missing; alike on all ranks."""
        self._may_regrow = False

    @property
    def balances(self) -> bool:
        """Whether batches are shared out by the speed of ranks, equal on all ranks."""
        return self._balances

    def balance_from_now(self) -> None:
        """Share batches out by speed from here on; alike on all ranks."""
        self._balances = True

    def size_of(self, world: ft.World) -> int:
        """The number of ranks of *world* that train.

        The others are spares, also where these are members for now.
        """
        return min(world.size, self.active)

    # What a step asks for.

    def make_exchange(self, layout: Layout, check_finite: bool) -> HostExchange:
        """Make the exchange of steps with *layout*; local."""
        return self.exchange_choice.make(
            self.communicator, layout, faults=self.faults, watchdog=self.watchdog,
            check_finite=check_finite,
        )  # fmt: skip

    def requests(self) -> StepRequests:
        """The requests of this rank that go with the next step; local."""
        save = self.saver.due() if self.leads else 0
        if save & FILES and self.is_short:
            self.stop_request.ask_for_missing()
        return StepRequests(
            leave=self.stop_request.code != 0, save=save,
            admit=self.leads and self.replacements.is_one_ready(),
            resize=self.leads and self.resize_requests.is_one_there(),
        )  # fmt: skip

    def around_step(self) -> AbstractContextManager[None]:
        """Surround the making of a step: it may not take too long without progress."""
        return self.watch.around_step()

    def step_done(self, report: StepReport, *, model: Any = None) -> None:
        """Count a finished step, and record what is new of it; local.

        Args:
            model: model whose state is hashed after a recovery.
        """
        self.ledger.count_step(report)
        self.recoveries.step_done(report, model)
        self.trace.step(self.step, report)
        self._progress.step_done(report)
        self.ledger.next_step()
        self.watch.step_done()

    def save_for_all(self, take: Take) -> bool:
        """Save into a file and wait for it; collective.

        Returns:
            Whether it is there.
        """
        return self.saver.save_for_all(take, point=lambda: self.faults.at("checkpoint"))

    # What a spare asks for.

    def idle(self) -> None:
        """Strike a spare that waits, where that is planned; called now and then."""
        self.faults.at("compute")

    def call_spares_back(self, *, closing: bool = False) -> None:
        """Make members of all who wait, and record who died meanwhile; collective.

        Args:
            closing: whether all leave together next; False by default.
        """
        communicator = self.communicator
        waiting = {member.rank for member in communicator.world.reserve}
        communicator.call_back(closing=closing)
        self.recoveries.spares_lost(waiting - set(communicator.world.ranks))

    def record_reserve(self) -> None:
        """Record that the others are in reserve from here on."""
        waiting = [member.rank for member in self.communicator.world.reserve]
        if waiting and self.leads:
            self.events.write("reserve", step=self.step, ranks=waiting)

    def passes_over(self, fit: int) -> bool:
        """Whether *fit*, a number from 0, was complete before this start, or this rank, began."""
        if self.joining is not None:
            return self.joining.passes_over(fit)
        return self._saved is not None and self._saved.cursor["fit"] > fit

    def go_on_from(self, counts: dict[str, Any]) -> None:
        """Stand where another rank does, whose counts these are; see :meth:`RunLedger.counts`."""
        self.recoveries.joined()
        self.ledger.go_on_from(counts)

    # Lines for the user.

    def say(self, line: str) -> None:
        """Print a line from the run as a whole; the leader prints it."""
        self.terminal.say(line)

    def say_once(self, line: str) -> None:
        """Print *line* from the run once; the leader prints it."""
        self.terminal.say_once(line)

    def warn(self, line: str) -> None:
        """Print a line from this rank."""
        self.terminal.warn(line)

    def _say_nonfinite(self, ranks: tuple[int, ...]) -> None:
        policy = self.config.nonfinite
        if self.leads:
            self.events.write("nonfinite", step=self.step, ranks=list(ranks), policy=policy)
        names = ", ".join(map(str, ranks))
        what = "made again" if policy == "recompute" else "made without its samples"
        self.say(f"rank {names} computed what is not finite: step {self.step} is {what}")
