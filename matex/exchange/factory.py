"""Factory of a rank's exchanges: native ones if they are available."""

from __future__ import annotations

import os
import tempfile
import weakref
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import ft
from matex.exchange.graph_exchange import GraphExchange
from matex.exchange.layout import Layout
from matex.exchange.library import Library, NotBuilt, find, recipe
from matex.exchange.mpi4py_exchange import Mpi4pyExchange
from matex.exchange.native import RECORD_BYTES, NativeExchange
from matex.exchange.plan import MOST_HOSTS, is_sliced
from matex.exchange.trial import PlanTimes, try_out

__all__ = ["ExchangeFactory", "SumOptions", "caches", "library"]


def caches(own: Path) -> list[Path]:
    """Directories for the native library: the user's cache, then one on this node."""
    return [own, Path(tempfile.gettempdir()) / f"matex-{os.getuid()}"]


def library(own: Path) -> Library:
    """Load the native exchange for this process, building it if necessary; local.

    Raises:
        NotBuilt: there is no native exchange; the message gives the reason.
    """
    return find(recipe(), caches(own), record_bytes=RECORD_BYTES)


@dataclass(frozen=True)
class SumOptions:
    """Options of how a step's sum is made, equal on all ranks.

    Attributes:
        plan: one of :data:`matex.exchange.plan.PLANS`.
        compression: a key of :data:`matex.exchange.reductions.REDUCTIONS`; ``powersgd:R`` with the
            rank R of factors.
    """

    plan: str = "auto"
    compression: str = "none"


class ExchangeFactory:
    """Maker of the exchanges of this rank, of one kind. Local.

    Ranks may have different kinds: both exchanges make the same MPI calls.

    Args:
        kind: auto, native or host.
        cache: directory of the user's cache.
        sums: options of the sums; by default the trial of them may choose the plan.
        by_numpy: whether NumPy computes compressed sums, so that the native exchange cannot.
        impossible: reason for which the native exchange cannot be used here; empty if it can.
    """

    def __init__(
        self,
        kind: str,
        cache: Path,
        *,
        sums: SumOptions = SumOptions(),
        by_numpy: bool = False,
        impossible: str = "",
    ) -> None:
        self._sums = sums
        if not impossible and by_numpy:
            impossible = f"{sums.compression} is computed by NumPy"
        self._trial: PlanTimes | None = None
        self._made: weakref.WeakSet[NativeExchange] = weakref.WeakSet()
        self.library: Library | None = None
        self.why = impossible or "asked for"
        if kind != "host" and not impossible:
            try:
                self.library = library(cache)
                self.why = self.library.how
            except NotBuilt as error:
                self.why = str(error)

    @property
    def kind(self) -> str:
        return "host" if self.library is None else "native"

    @property
    def plan(self) -> str:
        """Plan of the sums, which newcomers must have, too."""
        return self._sums.plan

    def try_out(self, communicator: ft.Communicator) -> None:
        """Determine which plan is faster, if that is not known; collective.

        The result is equal on all ranks; ranks that join later need not know of the trial.
        """
        is_open = self._sums == SumOptions()
        if is_open and 1 < communicator.world.host_count <= MOST_HOSTS:
            self._trial = try_out(communicator)
            if self._trial is not None and self._trial.prefers_flat:
                self._sums = replace(self._sums, plan="flat")

    def described(self, world: ft.World) -> dict[str, Any]:
        """The kind of exchange, the reason for it, and how the members of *world* make the sums."""
        plan, compression = self._sums.plan, self._sums.compression
        sliced = is_sliced(
            plan, size=world.size, hosts=world.host_count, compressed=compression != "none"
        )
        return {
            "kind": self.kind,
            "why": self.why,
            "plan": "slices" if sliced else "flat",
            "compression": compression,
            "trial_s": None if self._trial is None else self._trial._asdict(),
        }

    def make(
        self,
        communicator: ft.Communicator,
        layout: Layout,
        *,
        faults: ft.Injector,
        watchdog: ft.Watchdog,
        **options: Any,
    ) -> GraphExchange:
        """Exchange for one layout; *options* are those of :class:`GraphExchange`."""
        options |= asdict(self._sums)
        if self.library is None:
            return Mpi4pyExchange(communicator, layout, faults=faults, **options)
        native = NativeExchange(
            communicator, layout, library=self.library, faults=faults, **options
        )
        self._made.add(native)
        watchdog.waiting_since = self._waiting_since
        return native

    def _waiting_since(self) -> float:
        """Time since which an exchange has been waiting inside MPI; 0 if none is."""
        return max((exchange.waiting_since() for exchange in tuple(self._made)), default=0.0)
