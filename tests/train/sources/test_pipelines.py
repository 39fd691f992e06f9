"""Pipelines of tf.data in a run: no autotuning, whose threads let every epoch end late."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from matex.keras_hooks import data


@pytest.fixture(autouse=True)
def left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        tf.data.Dataset, "__iter__", tf.data.Dataset.__iter__
    )  # put back at the end
    data.leave_autotuning()


def numbers() -> Any:
    return tf.data.Dataset.range(7).map(lambda number: number * number)


def tuned(dataset: Any, enabled: bool) -> Any:
    options = tf.data.Options()
    options.autotune.enabled = enabled
    return dataset.with_options(options)


def stages(dataset: Any) -> list[str]:
    """Names of the last stages of the pipeline, without options, the last one first."""
    found = []
    while dataset._inputs():
        found.append(type(dataset).__name__)
        (dataset,) = dataset._inputs()
    return [name for name in found if name != "_OptionsDataset"]


def test_elements_and_their_order_stay() -> None:
    assert [int(number) for number in numbers()] == [n * n for n in range(7)]


@pytest.mark.parametrize("last", [lambda d: d, lambda d: d.prefetch(1), lambda d: tuned(d, False)])
def test_no_pipeline_is_tuned(last: Any) -> None:
    assert iter(last(numbers()))._dataset.options().autotune.enabled is False


def test_what_a_script_asks_for_is_kept() -> None:
    used = iter(tuned(numbers(), True))._dataset
    assert used.options().autotune.enabled is True
    assert stages(used)[0] == "_MapDataset"


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (numbers, ["_PrefetchDataset", "_MapDataset"]),
        (lambda: numbers().prefetch(5), ["_PrefetchDataset", "_MapDataset"]),
    ],
)
def test_a_pipeline_is_read_ahead_once(made: Any, wanted: list[str]) -> None:
    assert stages(iter(made())._dataset) == wanted


def test_a_pipeline_within_a_function_is_left_alone() -> None:
    @tf.function
    def total() -> Any:
        found = tf.zeros((), tf.int64)
        for number in numbers():
            found += number
        return found

    assert int(total()) == sum(n * n for n in range(7))
