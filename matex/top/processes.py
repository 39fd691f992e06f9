"""The processes of ranks that run on this host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import psutil

from matex.top.rank_view import RankView

__all__ = ["Processes", "look", "none_left"]

# Clocks of a system are read in ticks.
_TICK_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Processes:
    """Processes of ranks, as seen on this host.

    Args:
        memory: memory of each rank, bytes.
        gone: ranks whose process has ended, whether events tell of it or not.
    """

    memory: Mapping[int, int] = field(default_factory=dict)
    gone: frozenset[int] = frozenset()


def look(ranks: Iterable[RankView], host: str) -> Processes:
    """The processes of the *ranks* on this host, which is *host*."""
    memory: dict[int, int] = {}
    gone: set[int] = set()
    for view in ranks:
        if view.host != host or not view.state.lives:
            continue
        try:
            process = psutil.Process(view.pid)
            # A later process may have the number of one that has ended.
            is_it = process.create_time() <= view.started_s + _TICK_S
            if is_it and process.status() != psutil.STATUS_ZOMBIE:
                memory[view.rank] = int(process.memory_info().rss)
            else:
                gone.add(view.rank)
        except psutil.NoSuchProcess:
            gone.add(view.rank)
        except psutil.AccessDenied:  # another user's: the value that its rank reports has to do
            continue
    return Processes(memory=memory, gone=frozenset(gone))


def none_left(ranks: Iterable[RankView], processes: Processes) -> bool:
    """Whether all *ranks* that should live are on this host, and have ended."""
    living = {view.rank for view in ranks if view.state.lives}
    return bool(living) and living <= processes.gone
