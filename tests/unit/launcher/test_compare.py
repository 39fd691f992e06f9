"""The lines on a run beside plain Keras."""

from __future__ import annotations

import math

from matex.launcher.compare import largest_differences


def test_the_largest_relative_difference_of_each_value_is_told_with_its_epoch() -> None:
    ours = [{"epoch": 0, "loss": 2.0, "accuracy": 0.5}, {"epoch": 1, "loss": 1.0, "accuracy": 0.5}]
    theirs = [{"loss": 2.0, "accuracy": 0.5}, {"loss": 1.25, "accuracy": 0.5}]
    assert largest_differences(ours, theirs) == [
        "loss: largest relative difference 2.0e-01 (epoch 2 of 2: 1 here, 1.25 by plain Keras)",
        "accuracy: largest relative difference 0.0e+00 "
        "(epoch 2 of 2: 0.5 here, 0.5 by plain Keras)",
    ]


def test_what_only_one_of_them_has_is_told_or_left_out() -> None:
    ours, theirs = [{"loss": 1.0, "lr": 0.1}], [{"loss": 1.0}, {"loss": 0.5}]
    first, second = largest_differences(ours, theirs)
    assert first == "1 epochs were logged here and 2 by plain Keras"
    assert second.startswith("loss: largest relative difference 0.0e+00")
    assert largest_differences([], theirs) == ["no epoch of fit was logged, so nothing is compared"]


def test_a_nan_on_one_side_alone_is_the_largest_difference() -> None:
    nan = math.nan
    assert "0.0e+00" in largest_differences([{"loss": nan}], [{"loss": nan}])[0]
    assert " inf " in largest_differences([{"loss": 1.0}, {"loss": nan}], [{"loss": 1.0}] * 2)[0]
