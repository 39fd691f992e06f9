"""Advice on measured networks, and none on good ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from matex.network.advice import FLAGS, INCLUDE, LINKS, advice
from matex.network.figures import HostCard, Installation, Interface, PairFigures
from matex.network.placement import Placement
from matex.network.predictions import forecasts

FAST = 1.1e9


def pair(names: str = "ab", *, there: float = FAST, **figures: float) -> PairFigures:
    given = {"latency_s": 30e-6, "there": there, "back": there, "both": there, **figures}
    return PairFigures(first=names[0], second=names[1], **given)


def cards(*names: str, mbit_s: int = 0) -> tuple[HostCard, ...]:
    interfaces = tuple(Interface(name=name, mbit_s=mbit_s) for name in names)
    return tuple(HostCard(host=host, interfaces=interfaces) for host in "ab")


def said(
    pairs: Sequence[PairFigures],
    *,
    hosts: str = "aabb",
    library: str = "Open MPI 5.0.9",
    settings: Mapping[str, str] | None = None,
    of_hosts: tuple[HostCard, ...] = (),
    parameters: int = 1_000_000,
) -> list[str]:
    placement = Placement(tuple(hosts))
    least = min(pair.both for pair in pairs)
    costs = forecasts(parameters, placement, bandwidth=least, latency_s=pairs[0].latency_s)
    installation = Installation(
        library=library, ulfm=True, settings=settings or {}, cards=of_hosts or cards("eth0")
    )
    return advice(pairs, placement, costs, installation)


def test_of_a_good_network_nothing_is_said() -> None:
    assert said([pair()]) == []


def test_a_setting_that_lets_directions_take_turns_is_named() -> None:
    (line,) = said([pair(both=0.5 * FAST)], settings={FLAGS: "send,put"})
    assert f"{FLAGS}=send,put does that: unset it" in line
    assert "a - b: the two directions take turns. Alone one has 1.10 GB/s" in line
    assert "beside the other 550 MB/s" in line


def test_directions_that_take_turns_for_another_reason() -> None:
    (line,) = said([pair(both=0.5 * FAST)])
    assert "half-duplex" in line
    (line,) = said([pair(both=0.5 * FAST)], library="MPICH 4.3.0")
    assert "MPICH 4.3.0 decides" in line
    assert "OMPI" not in line


def test_the_slower_direction_is_what_both_are_compared_with() -> None:
    assert said([pair(back=0.6 * FAST, both=0.5 * FAST)]) == []


def test_a_high_latency_is_named() -> None:
    (line,) = said([pair(latency_s=1e-3), pair("ac")])
    assert line.startswith("a - b: a latency of up to 1.00 ms")
    assert said([pair(latency_s=0.19e-3)]) == []


@pytest.mark.parametrize(
    ("names", "named"),
    [
        (("eth0", "hsn0", "ib0"), "hsn0 (Slingshot)"),
        (("docker0", "eno1", "ib0"), "ib0 (InfiniBand or Omni-Path)"),
        (("docker0", "eno1"), "eno1"),
    ],
)
def test_of_several_interfaces_the_quick_one_is_named(names: tuple[str, ...], named: str) -> None:
    (line,) = said([pair()], of_hosts=cards(*names))
    assert line.endswith(f"export {INCLUDE}={named}")
    assert ", ".join(names) in line


def test_of_unknown_interfaces_the_one_with_the_highest_speed_is_named() -> None:
    interfaces = (Interface(name="eno1", mbit_s=1000), Interface(name="enp5", mbit_s=10_000))
    (line,) = said([pair()], of_hosts=(HostCard(host="a", interfaces=interfaces),))
    assert line.endswith("=enp5")


def test_interfaces_that_the_user_has_named_are_left_alone() -> None:
    assert said([pair()], of_hosts=cards("eth0", "hsn0"), settings={INCLUDE: "hsn0"}) == []
    assert said([pair()], of_hosts=cards("eth0", "hsn0"), library="MPICH 4.3.0") == []


def test_an_interface_that_could_do_more_is_named() -> None:
    (line,) = said([pair()], of_hosts=cards("eth0", mbit_s=25_000))
    assert f"export {LINKS}=4" in line
    assert "1.10 GB/s at the most" in line
    assert "states 3.12 GB/s" in line
    assert said([pair()], of_hosts=cards("eth0", mbit_s=25_000), settings={LINKS: "2"}) == []
    assert said([pair()], of_hosts=cards("eth0", mbit_s=10_000)) == []
    named = {INCLUDE: "ib0"}
    (line,) = said([pair()], of_hosts=cards("eth0", "ib0", mbit_s=25_000), settings=named)
    assert "driver of ib0" in line


def test_a_host_that_all_slow_pairs_share_is_named() -> None:
    slow = 0.2 * FAST
    pairs = [pair("ab"), pair("bd"), pair("ad"), pair("ac", there=slow), pair("cd", there=slow)]
    pairs += [pair("bc", there=slow)]
    (line,) = said([pair("de"), pair("be"), *pairs], hosts="abcde")
    assert line.startswith("c: 220 MB/s, where the median of all pairs is 1.10 GB/s")


def test_one_slow_pair_is_named_as_a_pair() -> None:
    (line,) = said([pair("ab"), pair("ac", there=0.2 * FAST), pair("bc")], hosts="abc")
    assert line.startswith("a - c: 220 MB/s")


def test_ranks_that_are_dealt_out_are_named() -> None:
    (line,) = said([pair()], hosts="ababab")
    assert "up to 3 times the bytes" in line


@pytest.mark.parametrize(
    ("parameters", "compress", "less_often"),
    [(1_000_000, False, False), (25_000_000, True, False), (500_000_000, True, True)],
)
def test_a_long_exchange_is_to_be_made_shorter(
    parameters: int, compress: bool, less_often: bool
) -> None:
    text = "".join(said([pair()], parameters=parameters))
    assert ("--compression bf16" in text) == compress
    assert ("--strategy" in text) == less_often
