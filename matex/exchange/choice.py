"""Choice of a rank's exchange: the native one if it is available."""

from __future__ import annotations

import os
import tempfile
import weakref
from pathlib import Path
from typing import Any

import ft
from matex.exchange.graph_exchange import GraphExchange
from matex.exchange.mpi4py_exchange import Mpi4pyExchange
from matex.exchange.layout import Layout
from matex.exchange.library import Library, NotBuilt, find, recipe
from matex.exchange.native import RECORD_BYTES, NativeExchange
from matex.exchange.plan import MOST_HOSTS, is_sliced
from matex.exchange.trial import PlanTimes, try_out

__all__ = ["Choice", "caches", "library"]


def caches(own: Path) -> list[Path]:
    """Directories for the native library: the user's cache, then one on this node."""
    return [own, Path(tempfile.gettempdir()) / f"matex-{os.getuid()}"]


def library(own: Path) -> Library:
    """Load the native exchange for this process, building it if necessary; local.

    Raises:
        NotBuilt: there is no native exchange; the message gives the reason.
    """
    return find(recipe(), caches(own), record_bytes=RECORD_BYTES)


class Choice:
    """The exchange chosen on this rank, and the reason. Local.

    Ranks may choose differently: both exchanges make the same MPI calls.

    Args:
        kind: auto, native or host.
        cache: directory of the user's cache.
        plan: one of :data:`matex.exchange.plan.PLANS`.
        compression: a key of :data:`matex.exchange.reductions.REDUCTIONS`; ``powersgd:R`` with the
            rank R of factors.
        by_numpy: whether NumPy computes sums in *compression*, so that the native exchange cannot.
        impossible: reason for which the native exchange cannot be used here; empty if it can.
    """

    def __init__(
        self,
        kind: str,
        cache: Path,
        *,
        plan: str = "auto",
        compression: str = "none",
        by_numpy: bool = False,
        impossible: str = "",
    ) -> None:
        self._sum_options = {"plan": plan, "compression": compression}
        if not impossible and by_numpy:
            impossible = f"{compression} is computed by NumPy"
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
        return self._sum_options["plan"]

    def try_out(self, communicator: ft.Communicator) -> None:
        """Determine which plan is faster, if that is not known; collective.

        The result is equal on all ranks; ranks that join later need not know of the trial.
        """
        is_open = self._sum_options == {"plan": "auto", "compression": "none"}
        if is_open and 1 < communicator.world.host_count <= MOST_HOSTS:
            self._trial = try_out(communicator)
            if self._trial is not None and self._trial.prefers_flat:
                self._sum_options["plan"] = "flat"

    def described(self, world: ft.World) -> dict[str, Any]:
        """The kind of exchange, the reason for it, and how the members of *world* make the sums."""
        plan, compression = self._sum_options["plan"], self._sum_options["compression"]
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
        options |= self._sum_options
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
