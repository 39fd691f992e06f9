"""The check that a step adds up is repeated: what shows during training ends the sharing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from matex.sources.stream_batch import StreamBatch
from matex.steps.separability.check_record import CheckRecord
from matex.steps.separability.comparison import Value
from matex.steps.separability.repeated_check import find_again, is_due
from tests.train.runs import PLAIN, SCRIPTS, execute, faults, matex_run


def value(name: str, size: float, *, off: float = 0.0, is_gradient: bool = True) -> Value:
    whole = np.array([size])
    return Value(name, whole, whole + off, 2 * abs(size), 1e-12, False, is_gradient)


def test_it_is_repeated_often_at_first() -> None:
    assert [n for n in range(1000) if is_due(n)] == [3, 10, 30, 100, 300, 600, 900]


@pytest.mark.parametrize(
    ("own", "taken"),
    [
        ([(100, 104)], [(100, 102), (102, 104)]),
        ([(100, 103), (110, 113)], [(100, 103), (110, 113)]),
        ([(110, 190)], [(110, 142), (142, 174)]),
        ([(190, 193)], [(100, 132), (132, 164)]),  # too few: those of the whole batch
        ([], [(100, 132), (132, 164)]),
    ],
)
def test_two_sets_of_rows_must_agree(
    own: list[tuple[int, int]], taken: list[tuple[int, int]]
) -> None:
    batch = StreamBatch([tf.range(100, 300)], (100, 300), digest=1, last=False)
    seen: list[list[int]] = []

    def find(given: list[tf.Tensor]) -> str:
        seen.append(given[0].numpy().tolist())
        return "found" if len(seen) % 3 else ""

    assert find_again(batch, own, find) == "found"
    assert seen == [list(range(*span)) for span in taken]
    assert find_again(batch, own, find) == ""  # the third set is fine, and ends it


@pytest.mark.parametrize(("rows", "sets"), [(2, [[0, 1], [0, 1]]), (3, [[0, 1], [1, 2]])])
def test_sets_of_few_rows_overlap(rows: int, sets: list[list[int]]) -> None:
    batch = StreamBatch([tf.range(rows)], (0, rows), digest=1, last=False)
    seen: list[list[int]] = []
    find_again(batch, [], lambda given: str(seen.append(given[0].numpy().tolist())))
    assert seen == sets


def test_a_single_row_is_not_divided() -> None:
    batch = StreamBatch([tf.range(1)], (0, 1), digest=1, last=False)
    assert find_again(batch, [(0, 1)], lambda _: "found") == ""


def test_rounding_of_values_that_were_larger_at_first_decides_nothing() -> None:
    record = CheckRecord()
    record.note([value("kernel", 1.0), value("bias", 0.0)])
    small = [value("kernel", 1e-6, off=1e-7), value("bias", 1e-6, off=1e-7)]
    assert all(one.differs(1e-3) for one in small)
    assert not any(one.differs(1e-3) for one in record.with_floors(small))
    assert record.with_floors([value("kernel", 1.0, off=0.1)])[0].differs(1e-3)
    assert record.with_floors([value("another", 1.0, off=0.1)]) == []
    assert record.with_floors(small, exchange=1) == []


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
        assert "train_step does not add up over rows: the " in event["whole"]
        assert "it was found after 10 steps" in event["whole"]
    plain = execute([*PLAIN, SCRIPTS / script], directory=tmp_path)
    sums = [
        [float(line.split()[1]) for line in ran.stdout.splitlines() if line.startswith("sum")]
        for ran in (outcome, plain)
    ]
    assert len(sums[0]) == 2
    assert sums[0] == pytest.approx(sums[1], rel=1e-3)
