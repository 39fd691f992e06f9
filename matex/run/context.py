"""Services of a run on this rank, composed."""

from __future__ import annotations

from collections.abc import Callable

import ft
from matex.checkpointing.saver import Saver
from matex.config import Config, arbiter_setting
from matex.config.compressions import compression_of
from matex.exchange import ExchangeFactory, SumOptions
from matex.preemption.stop_request import StopRequest
from matex.records.events import EventLog
from matex.records.fault_events import record_fault
from matex.run.call_order import CallOrder
from matex.run.candidates import ColdCandidates, NewProcesses
from matex.run.elastic_ranks import ElasticRanks
from matex.run.hooks import RunHooks
from matex.run.joining import Joining
from matex.run.launcher_client import LauncherClient
from matex.run.nonfinite_notes import note_nonfinite
from matex.run.outcome import RunOutcome
from matex.run.processor import Threads
from matex.run.rank_requests import RankRequests
from matex.run.ranks import RunRanks
from matex.run.records import RunRecords
from matex.run.replacements import Replacements
from matex.run.resize_requests import ResizeRequests
from matex.run.run_checkpoints import RunCheckpoints
from matex.run.run_steps import RunSteps
from matex.run.step_watch import StepWatch
from matex.run.terminal import Terminal
from matex.run.waiting_newcomers import WaitingNewcomers
from matex.run.welcome import Welcome
from matex.steps.nonfinite import NonfinitePolicy

__all__ = ["RunContext"]


class RunContext:
    """The parts of a run; :mod:`matex.run.life_cycle` begins and ends it.

    ``ranks`` are the facts on which all ranks agree, ``records`` what this rank writes down,
    ``steps`` the services of its steps, ``checkpoints`` what it saves and continues from,
    ``elastic`` the ranks that come and go, ``calls`` the order of the script's calls, and
    ``outcome`` the way in which the run ends.

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
        welcome = None if joining is None else joining.welcome
        setting = arbiter_setting()
        launcher = LauncherClient(setting) if setting else None
        faults = _faults(config, communicator, events, step=lambda: self.step)
        self.config = config
        self.communicator = communicator
        self.outcome = RunOutcome(stop_request)
        self.terminal = Terminal(communicator)
        self.calls = CallOrder(communicator)
        self.ranks = RunRanks(config, communicator.initial_size, threads, welcome)
        self.records = RunRecords(config, communicator, self.ranks, events, self.terminal, faults)
        ledger = self.records.ledger
        watch = StepWatch(config, communicator, events, ledger, self.terminal)
        self.watchdog = watch.watchdog
        saver = Saver(
            config, communicator, events, self.terminal.warn,
            before_attempt=lambda: faults.at("checkpoint"), on_saved=stop_request.note_save,
        )  # fmt: skip
        self.checkpoints = RunCheckpoints(saver, ledger, self.ranks, joining)
        compression = config.compression if config.strategy == "sync" else "none"
        plan = config.exchange_plan if welcome is None else welcome.plan
        exchanges = ExchangeFactory(
            config.exchange,
            config.cache_directory,
            sums=SumOptions(plan, compression),
            by_numpy=compression_of(compression).by_numpy,
            impossible="" if ft.has_mpi() else "no MPI was found, so this is one rank",
        )
        waiting_newcomers = WaitingNewcomers()
        replacements = Replacements(
            communicator, waiting_newcomers,
            ColdCandidates(communicator, cold) if cold else NewProcesses(communicator),
            events, self.terminal, launcher,
            welcome=lambda: self._welcome(exchanges, waiting_newcomers), limit=config.respawn,
        )  # fmt: skip
        self.elastic = ElasticRanks(
            communicator, self.records, waiting_newcomers, replacements,
            ResizeRequests(config.report, self.terminal.warn), joining, grow_to=config.grow_to,
        )  # fmt: skip
        requests = RankRequests(communicator, saver, self.elastic, stop_request)
        self.steps = RunSteps(
            communicator, self.ranks, self.records, watch,
            faults=faults,
            nonfinite=NonfinitePolicy(config.nonfinite, communicator, tell=self._note_nonfinite),
            exchange_factory=exchanges, requests=requests.collect,
        )  # fmt: skip
        hooks = RunHooks(watch.watchdog, faults, launcher, record=self.records.recoveries.record)
        communicator.attach(hooks)

    @property
    def step(self) -> int:
        """Number of the next training step of the whole script."""
        return self.records.ledger.step

    @property
    def saver(self) -> Saver:
        """Saver of the run's checkpoints."""
        return self.checkpoints.saver

    @property
    def stop_request(self) -> StopRequest:
        """Stop requests that this rank has received."""
        return self.outcome.stop_request

    def _note_nonfinite(self, ranks: tuple[int, ...]) -> None:
        leads = self.communicator.world.is_leader
        note_nonfinite(
            self.records.events if leads else None,
            self.terminal,
            ranks,
            step=self.step,
            policy=self.config.nonfinite,
        )

    def _welcome(self, exchanges: ExchangeFactory, waiting_newcomers: WaitingNewcomers) -> Welcome:
        """First message to the next newcomer. Local; sent by the leader."""
        hosts = self.communicator.hosts
        return Welcome(
            ranks=self.communicator.initial_size,
            active=self.ranks.active,
            threads=self.ranks.threads.own,
            hosts=len(set(hosts.values())),
            virtual=self.ranks.virtual_workers,
            key=self.ranks.key,
            plan=exchanges.plan,
            elapsed_s=self.stop_request.elapsed_s,
            histories=waiting_newcomers.histories,
        )


def _faults(
    config: Config, communicator: ft.Communicator, events: EventLog, *, step: Callable[[], int]
) -> ft.Injector:
    """Fault injector of this rank, which records each fault before it strikes."""

    def record(fault: ft.Fault) -> None:
        record_fault(events, fault, step=step())

    me = communicator.world.me
    return ft.Injector(config.faults, rank=me.rank, host=me.host, before=record, step=step)
