"""Services of a run on this rank: communicator, records, watchdog, checkpoints."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import checkpoints
import ft
from matex.checkpointing.saver import FILES, MakeState, Saver
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
from matex.run.nonfinite_notes import note_nonfinite
from matex.run.outcome import RunOutcome
from matex.run.processor import Threads
from matex.run.progress_notes import ProgressNotes
from matex.run.recovery_log import RecoveryLog
from matex.run.replacements import Replacements
from matex.run.resize_requests import ResizeRequests
from matex.run.step_watch import StepWatch
from matex.run.terminal import Terminal
from matex.steps.makers.nonfinite import Nonfinite

__all__ = ["RunContext"]


class RunContext:
    """The communicator of a run, and the services that watch, record and count.

    It is the :class:`matex.steps.services.StepServices` of all steps of the run. ``ledger`` has the
    counts, ``outcome`` the way in which the run ends; :mod:`matex.run.life_cycle` begins and ends
    it.

    Args:
        config: options of the run.
        communicator: ranks of the run.
        events: event log of this rank.
        stop_request: stop requests by signals and by the wall time.
        threads: threads and cores of this rank.
        joining: state of this process on its way into a running run; None on ranks of the start.
        cold: cold spares of the run; None by default.
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
        """Secret text, equal on all ranks, from the begin of the run."""
        self.active = joining.welcome.active if joining else at_start
        """Largest number of ranks that train; the others are spares."""
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
        self.progress = ProgressNotes(*parts, self.recoveries, size_of=self.size_of)
        self._saved: checkpoints.Snapshot | None = None
        self._balances = config.balance
        self.script_checkpoints = False
        """Whether the script saves a custom loop, and leaves between its steps."""
        self._may_regrow = config.grow_to > 0
        self._hook(launcher)

    def _hook(self, launcher: LauncherClient | None) -> None:
        """Connect the communicator and the event log with the objects that they call."""
        self.events.complain = self.say
        self.events.listener = EventHearing(
            self.config.report, self.trace, self.faults,
            leads=lambda: self.leads, complain=self.warn,
        ).heard  # fmt: skip
        hooks = RunHooks(self.watchdog, self.faults, launcher, record=self.recoveries.heard)
        self.communicator.attach(hooks)

    # Facts about the run.

    @property
    def step(self) -> int:
        """Number of the next training step of the whole script."""
        return self.ledger.step

    @property
    def leads(self) -> bool:
        """Whether this rank prints and writes for all ranks."""
        return self.communicator.world.is_leader

    @property
    def saved(self) -> checkpoints.Snapshot | None:
        """Checkpoint from which the run continues; None if it starts anew."""
        return self._saved

    def continue_from(self, saved: checkpoints.Snapshot | None) -> None:
        """Continue the run from *saved*; before any training, equally on all ranks."""
        self._saved = saved
        if saved is not None:
            self.ledger.go_to_step(saved.step)

    @property
    def virtual_workers(self) -> int:
        """Number of virtual workers that share each batch; 0 if ranks share it.

        The number in the checkpoint from which the run continues is used, else the option's, else
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
        """Go on without the missing ranks; equally on all ranks."""
        self._may_regrow = False

    @property
    def balances(self) -> bool:
        """Whether batches are divided by the speed of ranks; equal on all ranks."""
        return self._balances

    def balance_from_now(self) -> None:
        """Divide batches by speed from now on; equally on all ranks."""
        self._balances = True

    def size_of(self, world: ft.World) -> int:
        """Number of ranks of *world* that train.

        The others are spares, even if they are members now.
        """
        return min(world.size, self.active)

    # Services for steps.

    def make_exchange(self, layout: Layout, check_finite: bool) -> HostExchange:
        """Make the exchange of steps with *layout*; local."""
        return self.exchange_choice.make(
            self.communicator, layout, faults=self.faults, watchdog=self.watchdog,
            check_finite=check_finite,
        )  # fmt: skip

    def requests(self) -> StepRequests:
        """Requests of this rank that travel with the next step; local."""
        save = self.saver.due() if self.leads else 0
        if save & FILES and self.is_short:
            self.stop_request.ask_for_missing()
        return StepRequests(
            leave=self.stop_request.code != 0, save=save,
            admit=self.leads and self.replacements.is_one_ready(),
            resize=self.leads and self.resize_requests.is_one_there(),
        )  # fmt: skip

    def around_step(self) -> AbstractContextManager[None]:
        """Context of the making of a step, which must not take too long without progress."""
        return self.watch.around_step()

    def step_done(self, report: StepReport, *, model: Any = None) -> None:
        """Count and record a finished step; local.

        Args:
            model: model whose state is hashed after a recovery.
        """
        self.ledger.count_step(report)
        self.recoveries.step_done(report, model)
        self.trace.step(self.step, report)
        self.progress.step_done(report)
        self.ledger.next_step()
        self.watch.step_done()

    def save_for_all(self, make_state: MakeState) -> bool:
        """Save to a file and wait until it is written; collective.

        Returns:
            True if the file was written.
        """
        return self.saver.save_for_all(make_state, point=lambda: self.faults.at("checkpoint"))

    # Services for spares.

    def idle(self) -> None:
        """Strike with injected faults on a waiting spare; called repeatedly."""
        self.faults.at("compute")

    def call_spares_back(self, *, closing: bool = False) -> None:
        """Make all spares members, and record those that have died; collective.

        Args:
            closing: whether all ranks leave together next; False by default.
        """
        communicator = self.communicator
        waiting = {member.rank for member in communicator.world.reserve}
        communicator.call_back(closing=closing)
        self.recoveries.spares_lost(waiting - set(communicator.world.ranks))

    def record_reserve(self) -> None:
        """Record that the other ranks are in reserve from now on."""
        waiting = [member.rank for member in self.communicator.world.reserve]
        if waiting and self.leads:
            self.events.write("reserve", step=self.step, ranks=waiting)

    def passes_over(self, fit: int) -> bool:
        """Whether fit number *fit*, from 0, was complete before this start or this rank began."""
        if self.joining is not None:
            return self.joining.passes_over(fit)
        return self._saved is not None and self._saved.cursor["fit"] > fit

    def go_on_from(self, counts: dict[str, Any]) -> None:
        """Continue from the counts of another rank; see :meth:`RunLedger.counts`."""
        self.recoveries.joined()
        self.ledger.go_on_from(counts)

    # Lines on the terminal.

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
        policy, events = self.config.nonfinite, self.events if self.leads else None
        note_nonfinite(events, self.terminal, ranks, step=self.step, policy=policy)
