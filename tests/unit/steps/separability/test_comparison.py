"""Checks of values that overflow: neither a warning nor a verdict."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from matex.exchange import Header, Layout
from matex.exchange.layout import Segment
from matex.steps.separability.comparison import find_forgetting, values_of

LAYOUT = Layout(
    gradients=(Segment("kernel", (2,), "float32"),),
    means=(),
    sums=(Segment("count", (1,), "float32"),),
)


@pytest.fixture(autouse=True)
def strictly() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def contribution(*gradient: float, count: float = 1.0) -> list[np.ndarray]:
    header = np.zeros(len(Header._fields))
    return [np.array(gradient), np.concatenate([[count], header])]


@pytest.mark.parametrize(
    ("whole", "parts", "differs"),
    [
        ((2.0, 2.0), ((1.0, 1.0), (1.0, 1.0)), False),
        ((3.0, 2.0), ((1.0, 1.0), (1.0, 1.0)), True),
        ((np.inf, 2.0), ((1.0, 1.0), (1.0, 1.0)), False),
        ((3.0, 2.0), ((np.inf, 1.0), (-np.inf, 1.0)), False),
        ((3.0, 2.0), ((np.nan, 1.0), (1.0, 1.0)), False),
        ((1e300, 2.0), ((1.0, 1.0), (1.0, 1.0)), False),  # its square overflows
    ],
)
def test_values_that_are_not_finite_decide_nothing(whole: Any, parts: Any, differs: bool) -> None:
    """The step itself reports them; the other values decide."""
    found = [contribution(*part, count=0.5) for part in parts]
    kernel, count = values_of(LAYOUT, contribution(*whole), found)
    assert kernel.differs(1e-3) is differs
    assert not count.differs(1e-3)
    assert kernel.figures


@pytest.mark.parametrize(("count", "again", "is_found"), [(1, 1, False), (1, 2, True)])
@pytest.mark.parametrize("gradient", [1.0, np.inf, np.nan, 1e300])
def test_gradients_that_overflow_say_nothing_of_counts(
    gradient: float, count: float, again: float, is_found: bool
) -> None:
    state = keras_variable()
    found = find_forgetting(
        [state],
        LAYOUT,
        contribution(gradient, 1.0, count=count),
        lambda: contribution(gradient, -1.0, count=again),
        1e-3,
    )
    assert bool(found) is is_found
    assert state.numpy() == 0


@pytest.mark.parametrize("count", [np.inf, -np.inf, np.nan, 3e300])
def test_counts_that_overflow_are_left_to_the_step(count: float) -> None:
    from_zero = contribution(1.0, 1.0, count=count)
    assert find_forgetting([keras_variable()], LAYOUT, from_zero, lambda: from_zero, 1e-3) == ""


def keras_variable() -> Any:
    state = tf.Variable([0.0])
    state.path = "metric/total"
    return state
