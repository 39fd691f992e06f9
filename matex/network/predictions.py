"""The time that the exchange of a step takes by each plan, from a measured network. Pure.

With S the bytes of the vector in float32, H hosts, P ranks, f the part of float32's bytes that a
format has, B the bandwidth of each direction while both are in use, and L the latency:

- *flat*, one MPI_Allreduce of all ranks, which passes parts of the vector around a ring: each
  rank sends 2 (P - 1) / P S bytes to the next, in 2 (P - 1) turns. What leaves a host is that
  times the number E of its ranks whose next is on another host:
  E 2 (P - 1) / P S / B + 2 (P - 1) L. MPI libraries have other algorithms, too, and choose by
  size: Open MPI 5.0.9 sent 1.0 S out of each of two hosts of two ranks, where a ring sends 1.5 S.
- *slices*: each rank of a host exchanges a slice of the vector with the ranks of the same place on
  the other hosts, which sum a piece each: 2 (H - 1) / H f S / B + 2 L, whatever the number of
  ranks per host.

The sums inside a host, and the work of making a format, come on top.
"""

from __future__ import annotations

from typing import NamedTuple

from matex.network.placement import Placement

__all__ = ["FLOAT_BYTES", "FORMATS", "Forecast", "forecasts"]

#: Bytes of one parameter in float32.
FLOAT_BYTES = 4

#: Bytes of a format over those of float32; int8 has a float32 scale for each 256 numbers.
FORMATS = {"float32": 1.0, "bf16, fp16": 0.5, "int8": (1 + 4 / 256) / 4}


class Forecast(NamedTuple):
    """Cost of one exchange by one plan.

    Attributes:
        plan: name of the plan.
        format: format of the numbers between hosts.
        bytes_out: bytes that leave a host.
        time_s: time between hosts, seconds.
    """

    plan: str
    format: str
    bytes_out: float
    time_s: float


def forecasts(
    parameters: int, placement: Placement, *, bandwidth: float, latency_s: float
) -> list[Forecast]:
    """Cost of the exchange of *parameters* parameters, by plan and format.

    Args:
        parameters: number of float32 parameters.
        placement: ranks, on two hosts or more.
        bandwidth: bytes a second of each direction while both are in use.
        latency_s: seconds.
    """
    vector = FLOAT_BYTES * parameters
    turns = 2 * (placement.size - 1)
    flat = placement.ring_exits * turns / placement.size * vector
    found = [Forecast("flat", "float32", flat, flat / bandwidth + turns * latency_s)]
    hosts = len(placement.hosts)
    for name, part in FORMATS.items():
        out = 2 * (hosts - 1) / hosts * part * vector
        found.append(Forecast("slices", name, out, out / bandwidth + 2 * latency_s))
    return found
