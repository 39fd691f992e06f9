"""Sparse, ragged and nested batches are cut by rows, with the numbers of plain Keras.

One launch runs all kinds, because starting TensorFlow takes longer than any of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from matex import keras_hooks
from tests import slow
from tests.train.runs import faults
from tests.train.steps.test_several_updates import assert_same, run, whole
from tests.train.whole_runs.test_script_kinds import Outcomes, in_plain_keras

pytestmark = pytest.mark.timeout(400)

KINDS = [
    "sparse-data", "sparse-array", "sparse-generator", "sparse-batches", "ragged-data",
    "ragged-array", "ragged-masks", "nested",
]  # fmt: skip
DENSE = np.array([[0, 1, 0], [2, 0, 3], [0, 0, 0], [4, 5, 6], [0, 0, 7]], np.float32)
TENSORS = {
    "dense": tf.constant(DENSE),
    "sparse": tf.sparse.from_dense(DENSE),
    "ragged": tf.ragged.constant([[1], [2, 3], [], [4, 5, 6], [7]], dtype=tf.float32),
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    return in_plain_keras(tmp_path_factory.mktemp("alone"), KINDS)


@pytest.mark.parametrize("ranks", slow.all_but([], [2, 3]))
def test_ranks_share_the_rows_of_all_kinds(ranks: int, alone: Outcomes, tmp_path: Path) -> None:
    outcome, mine = run(tmp_path, KINDS, ranks=ranks)
    assert_same(mine, alone, KINDS)
    assert whole(outcome) == set()


def test_they_do_when_ranks_die(alone: Outcomes, tmp_path: Path) -> None:
    plan = faults(
        "kill:rank=1,step=4,at=in-exchange",
        "kill:rank=0,step=40",
        "kill:rank=2,step=70,at=after-exchange",
    )
    outcome, mine = run(tmp_path, KINDS, *plan, ranks=4)
    assert_same(mine, alone, KINDS)
    assert whole(outcome) == set()
    assert outcome.summary["world_size_end"] == 1


def dense(tensor: Any) -> np.ndarray:
    """The values of *tensor*, three to a row."""
    if isinstance(tensor, tf.SparseTensor):
        return np.asarray(tf.sparse.to_dense(tensor))
    values = tensor.to_tensor() if isinstance(tensor, tf.RaggedTensor) else tensor
    return np.pad(values, [(0, 0), (0, 3 - values.shape[1])])


def test_the_zeros_of_sparse_rows_need_no_order_and_no_memory() -> None:
    places = [[1, 10**9], [0, 3], [1, 2]]
    tensor = tf.SparseTensor(places, [1.0, 2.0, 3.0], [3, 10**10])
    assert keras_hooks.zeros_by_row(tensor).argsort().tolist() == [1, 0, 2]


@pytest.mark.parametrize("kind", TENSORS)
def test_rows_are_cut_chosen_and_joined(kind: str) -> None:
    tensor = TENSORS[kind]
    spec = tf.type_spec_from_value(tensor)
    whole = dense(tensor)
    assert keras_hooks.are_rows(spec)
    assert keras_hooks.row_count(tensor) == 5

    for lo, hi in ((0, 5), (1, 3), (2, 3), (4, 4), (3, 5)):
        cut = keras_hooks.cut_rows(tensor, lo, hi)
        assert keras_hooks.row_count(cut) == hi - lo
        np.testing.assert_array_equal(dense(cut), whole[lo:hi])
    halves = [keras_hooks.cut_rows(tensor, *span) for span in ((3, 5), (0, 2))]
    np.testing.assert_array_equal(dense(keras_hooks.joined(halves)), whole[[3, 4, 0, 1]])
    chosen = keras_hooks.chosen_rows(tensor, [4, 1, 1])
    np.testing.assert_array_equal(dense(chosen), whole[[4, 1, 1]])
    np.testing.assert_allclose(keras_hooks.zeros_by_row(tensor), (whole == 0).mean(1))
    free = keras_hooks.with_rows(spec, None)
    assert free.is_compatible_with(cut)
    counted = tf.function(keras_hooks.rows_traced, input_signature=[free])
    assert int(counted(cut)) == 2
