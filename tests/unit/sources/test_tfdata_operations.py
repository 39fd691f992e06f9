"""Operations of tf.data are named in messages as the methods that make them."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from matex.sources.tfdata_operations import name_of

NUMBERS = tf.data.Dataset.range(9)


@pytest.mark.parametrize(
    ("dataset", "name"),
    [
        (NUMBERS.padded_batch(2), "padded_batch"),
        (NUMBERS.map(abs, num_parallel_calls=2), "map"),
        (NUMBERS.flat_map(tf.data.Dataset.from_tensors), "flat_map"),
    ],
)
def test_an_operation_is_named_as_its_method(dataset: Any, name: str) -> None:
    assert name_of(dataset) == f"tf.data's {name!r}"
