"""The check that a step adds up is repeated: what shows during training ends the sharing."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from matex.sources.stream_batch import StreamBatch
from matex.steps.check_record import CheckRecord
from matex.steps.repeated_check import find_again, is_due
from matex.steps.separability import Value
from tests.train.runs import SCRIPTS, execute, faults, matex_run


def value(name: str, size: float, *, off: float = 0.0, is_gradient: bool = True) -> Value:
    whole = np.array([size])
    return Value(name, whole, whole + off, 2 * abs(size), 1e-12, False, is_gradient)


def test_it_is_repeated_often_at_first() -> None:
    assert [n for n in range(1000) if is_due(n)] == [3, 10, 30, 100, 300, 600, 900]


@pytest.mark.parametrize(("rows", "taken"), [(2, 2), (5, 2), (16, 8), (200, 32)])
@pytest.mark.parametrize("fraction", [0.0, 0.5, 0.9])
def test_two_sets_of_rows_must_agree(rows: int, taken: int, fraction: float) -> None:
    batch = StreamBatch([tf.range(100, 100 + rows)], (100, 100 + rows), digest=1, last=False)
    seen: list[list[int]] = []

    def find(given: list[tf.Tensor]) -> str:
        seen.append(given[0].numpy().tolist())
        return "found" if len(seen) % 3 else ""

    assert find_again(batch, fraction, find) == "found"
    assert [len(one) for one in seen] == [taken, taken]
    assert len({*seen[0], *seen[1]}) == min(rows, 2 * taken)
    assert seen[0][0] == 100 + int(fraction * rows) or rows < 16
    assert find_again(batch, fraction, find) == ""  # the third set is fine, and ends it


def test_a_single_row_is_not_divided() -> None:
    batch = StreamBatch([tf.range(1)], (0, 1), digest=1, last=False)
    assert find_again(batch, 0.0, lambda _: "found") == ""


def test_rounding_of_values_that_were_larger_at_first_decides_nothing() -> None:
    record = CheckRecord()
    record.note([value("kernel", 1.0), value("bias", 0.0)])
    small = [value("kernel", 1e-6, off=1e-7), value("bias", 1e-6, off=1e-7)]
    assert all(one.differs(1e-3) for one in small)
    assert not any(one.differs(1e-3) for one in record.precise(small))
    assert record.precise([value("kernel", 1.0, off=0.1)])[0].differs(1e-3)
    assert record.precise([value("another", 1.0, off=0.1)]) == []
    assert record.precise(small, exchange=1) == []


def test_a_sum_behind_a_threshold_is_found_when_it_is_reached(tmp_path: Path) -> None:
    """Ranks die in the steps whose exchanges carry the findings of the two fits."""
    script = "crosses_later.py"
    kills = faults("kill:rank=0,step=10,at=in-exchange", "kill:rank=1,step=50,at=in-exchange")
    outcome = matex_run(tmp_path, script, ranks=4, options=kills)
    assert outcome.status == 0, outcome.stderr
    assert outcome.summary["samples_lost"] == 0
    found = [event for event in outcome.events if event["event"] == "fit" and "whole" in event]
    assert {(event["fit"], event["step"]) for event in found} == {(0, 11), (1, 51)}
    for event in found:
        assert "does not add up over rows: the gradient of dense" in event["whole"]
        assert "it was found after 10 steps" in event["whole"]
    plain = execute([sys.executable, SCRIPTS / script], directory=tmp_path)
    sums = [
        [float(line.split()[1]) for line in ran.stdout.splitlines() if line.startswith("sum")]
        for ran in (outcome, plain)
    ]
    assert len(sums[0]) == 2
    assert sums[0] == pytest.approx(sums[1], rel=1e-3)
