"""Settings to change if a measured network is slower than it could be. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from matex.network.figures import HostCard, Installation, Interface, PairFigures
from matex.network.placement import Placement
from matex.network.predictions import Forecast
from matex.network.units import rate_text, time_text

__all__ = ["FLAGS", "INCLUDE", "LINKS", "advice"]

#: The variables of Open MPI's that are looked at.
FLAGS = "OMPI_MCA_btl_tcp_flags"
INCLUDE = "OMPI_MCA_btl_tcp_if_include"
LINKS = "OMPI_MCA_btl_tcp_links"

_TAKES_TURNS = 0.7  # both ways at once over one way
_LATE_S = 0.2e-3
_BEHIND = 0.5  # of the median of all pairs
_LONG_S = 0.05
_VERY_LONG_S = 1.0
_FAST_MBIT_S = 10_000  # from here on one TCP connection may be the limit
_PART_OF_SPEED = 0.5
# The interface that leads over the quick network, by how its name begins; the best first.
_QUICK = {"hsn": "Slingshot", "ib": "InfiniBand or Omni-Path", "opa": "Omni-Path"}
_VIRTUAL = ("docker", "virbr", "veth", "br-", "cni", "flannel")


def advice(
    figures: Sequence[PairFigures],
    placement: Placement,
    costs: Sequence[Forecast],
    installation: Installation,
) -> list[str]:
    """Sentences about problems and remedies, most important first; empty if there are none.

    Args:
        figures: figures of each measured pair.
        placement: ranks of the launch.
        costs: cost of an exchange by each plan.
        installation: library, settings and interfaces.
    """
    return [
        *_turns(figures, installation),
        *_interfaces(installation),
        *_below_speed(figures, installation),
        *_late(figures),
        *_behind(figures),
        *_dealt(placement),
        *_long(costs),
    ]


def _turns(figures: Sequence[PairFigures], installation: Installation) -> Iterator[str]:
    slow = [pair for pair in figures if pair.both < _TAKES_TURNS * pair.one_way]
    if not slow:
        return
    worst = min(slow, key=lambda pair: pair.both / pair.one_way)
    found = (
        f"{_names(slow)}: the two directions take turns. Alone one has {rate_text(worst.one_way)}, "
        f"beside the other {rate_text(worst.both)}"
    )
    flags = installation.settings.get(FLAGS, "send")
    if not installation.is_open_mpi:
        yield f"{found}. {installation.library} decides how large messages travel: see its manual"
    elif flags != "send":
        yield f"{found}. {FLAGS}={flags} does that: unset it, and matex sets it to send"
    else:
        yield (
            f"{found}. {FLAGS} is send, as it should be: look for a half-duplex link, for other "
            "traffic, and for hosts whose cores are all busy"
        )


def _interfaces(installation: Installation) -> Iterator[str]:
    """Sentence if TCP may use a wrong interface."""
    if not installation.is_open_mpi or INCLUDE in installation.settings:
        return
    several = [card for card in installation.cards if len(card.interfaces) > 1]
    if not several:
        return
    card = several[0]
    names = ", ".join(interface.name for interface in card.interfaces)
    best = _best(card)
    kind = next((kind for start, kind in _QUICK.items() if best.startswith(start)), "")
    yield (
        f"{card.host} has the interfaces {names}, and Open MPI's TCP uses all of them: name the "
        f"quick one: export {INCLUDE}={best}" + (f" ({kind})" if kind else "")
    )


def _best(card: HostCard) -> str:
    """Name of the interface that is likely to be fastest."""

    def rank(interface: Interface) -> tuple[int, int]:
        starts = list(_QUICK)
        known = [place for place, start in enumerate(starts) if interface.name.startswith(start)]
        virtual = interface.name.startswith(_VIRTUAL)
        return (known[0] if known else len(starts) + virtual, -interface.mbit_s)

    return min(card.interfaces, key=rank).name


def _below_speed(figures: Sequence[PairFigures], installation: Installation) -> Iterator[str]:
    """Sentence if the one interface that TCP uses could be more than twice as fast."""
    if not installation.is_open_mpi or LINKS in installation.settings:
        return
    named = installation.settings.get(INCLUDE)
    for card in installation.cards:
        used = [i for i in card.interfaces if named is None or i.name == named]
        if len(used) != 1 or used[0].mbit_s < _FAST_MBIT_S:
            continue
        stated = 1e6 / 8 * used[0].mbit_s
        best = max((p.one_way for p in figures if card.host in (p.first, p.second)), default=stated)
        if best < _PART_OF_SPEED * stated:
            yield (
                f"{card.host}: {rate_text(best)} at the most, where the driver of {used[0].name} "
                f"states {rate_text(stated)}: where that is true, try several connections, export "
                f"{LINKS}=4, and larger TCP buffers (net.core.rmem_max, net.core.wmem_max)"
            )
            return


def _late(figures: Sequence[PairFigures]) -> Iterator[str]:
    late = [pair for pair in figures if pair.latency_s > _LATE_S]
    if late:
        most = max(pair.latency_s for pair in late)
        yield (
            f"{_names(late)}: a latency of up to {time_text(most)}, where TCP in one machine room "
            f"has less than {time_text(_LATE_S)}: see whether messages take the right network and "
            "whether the hosts have idle cores, and prefer few large steps to many small ones"
        )


def _behind(figures: Sequence[PairFigures]) -> Iterator[str]:
    """Sentence about pairs, or their common host, that are slower than the others."""
    if len(figures) < 3:
        return
    usual = statistics.median(pair.both for pair in figures)
    slow = [pair for pair in figures if pair.both < _BEHIND * usual]
    if not slow:
        return
    shared = set.intersection(*({pair.first, pair.second} for pair in slow))
    who = sorted(shared)[0] if len(slow) > 1 and len(shared) == 1 else _names(slow)
    least = min(pair.both for pair in slow)
    yield (
        f"{who}: {rate_text(least)}, where the median of all pairs is {rate_text(usual)}, and "
        "every step waits for the slowest: look at the link, or leave that host out"
    )


def _dealt(placement: Placement) -> Iterator[str]:
    if placement.ring_exits > 1:
        yield (
            "ranks are dealt out to the hosts one by one, so one MPI_Allreduce sends up to "
            f"{placement.ring_exits} times the bytes between hosts: give each host ranks in a row "
            "(--map-by slot of mpiexec, --distribution=block of srun)"
        )


def _long(costs: Sequence[Forecast]) -> Iterator[str]:
    best = min(cost.time_s for cost in costs if cost.format == "float32")
    if best > _LONG_S:
        more = (
            "; and let ranks meet less often, by a --strategy such as daso"
            if best > _VERY_LONG_S
            else ""
        )
        yield (
            f"an exchange in float32 takes {time_text(best)} at the least: where a step computes "
            f"for less than that, send less: --compression bf16 has half the bytes{more}"
        )


def _names(pairs: Sequence[PairFigures]) -> str:
    more = f" and {len(pairs) - 2} more" if len(pairs) > 2 else ""
    return ", ".join(pair.name for pair in pairs[:2]) + more
