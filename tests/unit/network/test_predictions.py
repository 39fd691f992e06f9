"""The cost of an exchange, against what was measured between emulated hosts."""

from __future__ import annotations

import pytest

from matex.network.placement import Placement
from matex.network.predictions import Forecast, forecasts


def costs(hosts: str, parameters: int = 1_000_000, **network: float) -> dict[str, Forecast]:
    given = {"bandwidth": 10e6, "latency_s": 0.0, **network}
    found = forecasts(parameters, Placement(tuple(hosts)), **given)
    return {f"{cost.plan} {cost.format}": cost for cost in found}


def test_one_rank_a_host_sends_one_vector_either_way() -> None:
    found = costs("ab")
    assert found["flat float32"].bytes_out == 4e6
    assert found["slices float32"].bytes_out == 4e6
    assert found["slices float32"].time_s == pytest.approx(0.4)


def test_slices_do_not_depend_on_the_ranks_of_a_host() -> None:
    few, many = costs("abc"), costs("aaaabbbbcccc")
    assert few["slices float32"] == many["slices float32"]
    assert few["slices float32"].bytes_out == pytest.approx(4e6 * 4 / 3)
    assert many["flat float32"].bytes_out == pytest.approx(4e6 * 2 * 11 / 12)


def test_ranks_that_are_dealt_out_send_as_many_times_the_bytes() -> None:
    in_rows, dealt = costs("aaabbb"), costs("ababab")
    assert dealt["flat float32"].bytes_out == pytest.approx(3 * in_rows["flat float32"].bytes_out)
    assert dealt["slices float32"] == in_rows["slices float32"]


def test_formats_send_their_part_of_the_bytes() -> None:
    found = costs("aabb")
    whole = found["slices float32"].bytes_out
    assert found["slices bf16, fp16"].bytes_out == whole / 2
    # A float32 scale for each 256 numbers.
    assert found["slices int8"].bytes_out == pytest.approx(whole * (256 + 4) / 1024)


def test_latency_counts_once_a_turn() -> None:
    quick, late = costs("aabb"), costs("aabb", latency_s=1e-3)
    assert late["flat float32"].time_s - quick["flat float32"].time_s == pytest.approx(6e-3)
    assert late["slices int8"].time_s - quick["slices int8"].time_s == pytest.approx(2e-3)


# 4.1 MB between two hosts of two ranks, large messages sent both ways at once: one call took 498 ms
# at 100 Mbit/s and 1 ms, and 74 ms at 1 Gbit/s; a reduction on each host, an exchange of the
# leaders and a broadcast took 379 to 385 ms and 90 to 93 ms.
@pytest.mark.parametrize(
    ("plan", "mbit_s", "measured_s"),
    [("flat", 100, 0.498), ("flat", 1000, 0.074), ("slices", 100, 0.382)],
)
def test_predictions_are_near_what_was_measured(
    plan: str, mbit_s: float, measured_s: float
) -> None:
    found = costs("aabb", 1_025_000, bandwidth=1e6 / 8 * mbit_s, latency_s=1e-3)
    assert 0.7 * measured_s < found[f"{plan} float32"].time_s < 1.05 * measured_s
