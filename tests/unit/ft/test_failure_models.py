"""Random fault plans: the same from a seed, and with the statistics of their model."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ft
from ft.failure_models import FailureModel, in_steps, sample

HOUR = 3600.0


@given(
    seed=st.integers(0, 2**31),
    ranks=st.integers(2, 40),
    nodes=st.integers(1, 8),
    shape=st.floats(0.4, 2),
    node_share=st.floats(0, 1),
    cascade=st.floats(0, 0.9),
)
def test_a_plan_is_in_order_reproducible_and_leaves_somebody(
    seed: int, ranks: int, nodes: int, shape: float, node_share: float, cascade: float
) -> None:
    model = FailureModel(
        mtbf_s=HOUR, ranks=ranks, nodes=min(nodes, ranks), shape=shape, node_share=node_share,
        cascade=cascade, kinds=("kill", "stop", "nan"), phases=("compute", "in-exchange"),
    )  # fmt: skip
    faults = sample(model, duration_s=5 * HOUR, seed=seed)
    assert faults == sample(model, duration_s=5 * HOUR, seed=seed)
    ft.check_faults(faults, ranks=ranks)
    times = [fault.time_s for fault in faults]
    assert times == sorted(times)
    assert not times or times[-1] <= 5 * HOUR
    dead: set[int] = set()
    for fault in faults:
        assert not dead & set(fault.ranks), "the dead cannot be struck again"
        dead |= set(fault.ranks) if fault.lethal else set()
    assert list(ft.read_plan(ft.write_plan(faults).splitlines(), name="p")) == list(faults)


def first_times(shape: float, *, ranks: int = 200, plans: int = 600) -> np.ndarray:
    model = FailureModel(mtbf_s=HOUR, ranks=ranks, shape=shape)
    found = [sample(model, duration_s=16 * HOUR, seed=seed)[0].time_s for seed in range(plans)]
    return np.array(found, float)


@pytest.mark.parametrize("shape", [0.6, 1.0, 1.5])
def test_the_first_failure_of_many_units_comes_after_the_mean_time(shape: float) -> None:
    # Of many stationary processes together failures are nearly Poisson, whatever the shape;
    # fresh ones of shape 0.6 would have their first after some 100 s in place of 3600.
    times = first_times(shape)
    assert abs(times.mean() / HOUR - 1) < 5 / math.sqrt(len(times))
    assert abs(np.median(times) / (HOUR * math.log(2)) - 1) < 7 / math.sqrt(len(times))


def test_a_unit_that_survives_is_renewed_with_its_mean_interval() -> None:
    model = FailureModel(mtbf_s=HOUR, ranks=2, shape=0.7, kinds=("nan",))
    count = len(sample(model, duration_s=4000 * HOUR, seed=3))
    assert abs(count - 4000) < 5 * 1.5 * math.sqrt(4000)


def test_the_share_of_node_failures_and_what_they_take() -> None:
    model = FailureModel(mtbf_s=1.0, ranks=4096, nodes=1024, node_share=0.25)
    faults = sample(model, duration_s=400.0, seed=1)
    whole = [fault for fault in faults if len(fault.ranks) > 1]
    assert abs(len(whole) / len(faults) - 0.25) < 0.1
    for fault in whole:
        assert len({rank // 4 for rank in fault.ranks}) == 1


def test_cascades_strike_in_the_recovery_of_what_they_follow() -> None:
    model = FailureModel(mtbf_s=1.0, ranks=4096, cascade=0.5)
    faults = sample(model, duration_s=300.0, seed=2)
    followers = [n for n, fault in enumerate(faults) if fault.at == "recovery"]
    assert abs(len(followers) / len(faults) - 0.5) < 0.1
    for n in followers:
        assert faults[n].time_s == faults[n - 1].time_s


def test_times_become_steps() -> None:
    model = FailureModel(mtbf_s=10.0, ranks=50)
    faults = sample(model, duration_s=100.0, seed=0)
    steps = in_steps(faults, step_s=0.5)
    assert [fault.step for fault in steps] == [int(fault.time_s / 0.5) for fault in faults]
    assert {fault.time_s for fault in steps} == {None}
    assert [ft.parse_fault(fault.text) for fault in steps] == list(steps)


BAD = {
    "mtbf_s": 0.0, "shape": 0.0, "ranks": 1, "nodes": 5, "node_share": 1.5, "cascade": 1.0,
    "kinds": ("node",), "phases": ("lunch",),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_model_out_of_range_is_refused(name: str) -> None:
    given = {"mtbf_s": HOUR, "ranks": 4, name: BAD[name]}
    with pytest.raises(ft.UsageError, match=f"{name} must be .* Received: {name}="):
        FailureModel(**given)  # type: ignore[arg-type]
