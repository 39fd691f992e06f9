"""The report as people see it."""

from __future__ import annotations

import pytest

from matex.network.figures import HostCard, Installation, Interface, PairFigures
from matex.network.placement import Placement
from matex.network.table import WHAT_TO_SET, text
from matex.network.units import bytes_text, rate_text, time_text

SLOW = PairFigures(first="a", second="b", latency_s=1.05e-3, there=12.1e6, back=12e6, both=11.9e6)
QUICK = PairFigures(first="a", second="c", latency_s=0.04e-3, there=120e6, back=120e6, both=119e6)
CARDS = tuple(HostCard(host=host, interfaces=(Interface(name="eth0"),)) for host in "abc")

EXPECTED = """\
4 ranks on 3 hosts (a:2, b:1, c:1), Open MPI 5.0.9 with ULFM

each pair of hosts, by one rank of each
hosts  latency   there      back       both at once, each way
a - b  1.05 ms   12.1 MB/s  12.0 MB/s  11.9 MB/s
a - c  0.040 ms  120 MB/s   120 MB/s   119 MB/s

one exchange of 25,000,000 parameters (100 MB in float32), at the speed of a - b
plan    format      out of a host  time between hosts
flat    float32     150 MB         12.6 s
slices  float32     133 MB         11.2 s
slices  bf16, fp16  66.7 MB        5.60 s
slices  int8        33.9 MB        2.85 s
"""


def test_the_report_has_tables_and_what_to_set() -> None:
    found = text(
        [SLOW, QUICK],
        Placement(("a", "a", "b", "c")),
        Installation(library="Open MPI 5.0.9", ulfm=True, cards=CARDS),
        parameters=25_000_000,
    )
    tables, heading, lines = found.partition(f"\n{WHAT_TO_SET}\n")
    assert tables == EXPECTED
    assert heading
    begun = [line[:7] for line in lines.splitlines() if not line.startswith("  ")]
    assert begun == ["- a - b", "- an ex"]
    assert max(map(len, found.splitlines())) <= 100
    assert not any(line.strip().startswith(("MB/s", "ms", "s ")) for line in lines.splitlines())
    assert "\N{NO-BREAK SPACE}" not in found


def test_a_fast_network_needs_no_setting() -> None:
    figures = [PairFigures(first="a", second="b", latency_s=1e-5, there=3e9, back=3e9, both=3e9)]
    installation = Installation(library="MPICH 4.3.0", ulfm=False)
    found = text(figures, Placement(("a", "b")), installation, parameters=1000)
    assert found.splitlines()[0].endswith("MPICH 4.3.0 without ULFM")
    assert found.splitlines()[-2:] == [WHAT_TO_SET, "- nothing"]


def test_many_hosts_are_measured_in_a_ring() -> None:
    hosts = tuple(f"h{n}" for n in range(9))
    installation = Installation(library="Open MPI 5.0.9", ulfm=True)
    found = text([QUICK], Placement(hosts), installation, parameters=1000)
    assert "each host and the next, in a ring, by one rank of each" in found


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (bytes_text(0), "0 B"),
        (bytes_text(999), "999 B"),
        (bytes_text(1e3), "1.00 kB"),
        (rate_text(12.5e9), "12.5 GB/s"),
        (time_text(8e-6), "0.008 ms"),
        (time_text(0.0123), "12.3 ms"),
        (time_text(123.4), "123 s"),
    ],
)
def test_numbers_have_three_digits_and_a_unit(said: str, wanted: str) -> None:
    assert said == wanted
