"""Functions of the script's own that train: plain Keras's numbers, on ranks that share their rows.

One launch runs all kinds, because starting TensorFlow takes longer than any of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from matex.errors import NotShareable
from matex.fitting.loops.script_arguments import ScriptArguments
from matex.fitting.loops.script_trainer import one_update
from matex.keras_hooks import script_model
from tests import slow
from tests.train.runs import Outcome, faults, matex_run
from tests.train.steps.test_several_updates import STEPS, assert_same, run, whole
from tests.train.whole_runs.test_script_kinds import Outcomes, in_plain_keras, outcomes

pytestmark = pytest.mark.timeout(400)

SHARED = [
    "returned-rows", "gan-loop", "constant-noise", "built-by-the-first-call", "sums-over-rows",
    "decorated", "follower", "batch-moments", "one-function-for-all",
    "policy", "bound-by-fewer-points",
]  # fmt: skip
ACROSS = {
    "contrast": "does not add up over rows",
    "branch-by-rows": "takes a branch by the values of rows",
    "learned-to-learn": "takes gradients of weights within another tape",
    "bound-by-other-points": "they have 16 and 5 rows, without a common divisor",
    "shape-when-traced": "it cannot be traced",
}
KINDS = [*SHARED, *ACROSS]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    return in_plain_keras(tmp_path_factory.mktemp("alone"), KINDS)


class Trained:
    """A model whose output a variable of TensorFlow scales, and its optimizer."""

    def __init__(self) -> None:
        self.model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        self.optimizer, self.scale = keras.optimizers.SGD(0.1), tf.Variable(1.0)

    def loss(self, x: Any) -> Any:
        return tf.reduce_mean((self.model(x) * self.scale - x) ** 2)

    def update(self, x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = self.loss(x)
        weights = [*self.model.trainable_variables, self.scale]
        self.optimizer.apply(tape.gradient(loss, weights), weights)
        return loss


ONE_EXCHANGE: dict[str, Callable[[Trained, Any], Any]] = {
    "returned loss": lambda trained, x: trained.update(x),
    "returned rows": lambda trained, x: (trained.update(x), 2 * x, 1),
}
SEVERAL_EXCHANGES: dict[str, Callable[[Trained, Any], Any]] = {
    "two updates": lambda trained, x: [trained.update(x), trained.update(x)],
    "weights read later": lambda trained, x: [trained.update(x), trained.loss(x)],
    "a variable read later": lambda trained, x: [trained.update(x), 2 * trained.scale],
}


@pytest.mark.usefixtures("optimizers_that_can_be_replaced")
@pytest.mark.parametrize("kind", [*ONE_EXCHANGE, *SEVERAL_EXCHANGES])
def test_a_single_update_is_made_by_one_exchange(kind: str) -> None:
    def as_data(batch: Any) -> Any:
        return tuple(batch), {}

    function, trained = (ONE_EXCHANGE | SEVERAL_EXCHANGES)[kind], Trained()
    signature = (tf.TensorSpec((None, 3)),)
    model = script_model("step", lambda x: function(trained, x), signature, as_data)
    step = one_update(model, signature, as_data=as_data, rows=16)
    assert (step is not None) == (kind in ONE_EXCHANGE)


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        ([(30,), (10,)], "30 and 10 rows, in vectors only"),
        ([(30, 2), (2000,)], "30 and 2000 rows"),
        ([(16, 2), (5, 2)], "16 and 5 rows, without a common divisor"),
        ([(16, 2), (0, 2)], "16 and 0 rows"),
        ([()], "no argument of it is a batch"),
    ],
)
def test_arguments_that_are_no_batch(shapes: list[tuple[int, ...]], reason: str) -> None:
    with pytest.raises(NotShareable, match=reason):
        ScriptArguments(tuple(map(tf.ones, shapes)), {}, known={})


def test_rows_of_two_numbers_are_pieces_of_common_rows() -> None:
    points, bounds = tf.reshape(tf.range(36), (12, 3)), tf.range(8)
    given = ScriptArguments((points, bounds, tf.zeros((8, 1)), 2, tf.range(5)), {}, known={})
    assert [tensor.shape for tensor in given.tensors] == [(4, 3, 3), (4, 2), (4, 2, 1), (4, 5)]
    (back, ends, _, two, five), _ = given.form.as_data([tensor[1:] for tensor in given.tensors])
    assert two == 2
    np.testing.assert_array_equal(five, range(5))
    np.testing.assert_array_equal(back, points[3:])
    np.testing.assert_array_equal(ends, bounds[2:])


def shared(outcome: Outcome) -> int:
    """The number of functions that were shared."""
    found = [event for event in outcome.events if event["event"] == "loop"]
    return len({event["step"] for event in found if "whole" not in event})


@pytest.mark.parametrize("ranks", slow.all_but([2], [2, 3]))
def test_ranks_share_the_rows(ranks: int, alone: Outcomes, tmp_path: Path) -> None:
    outcome, mine = run(tmp_path, KINDS, ranks=ranks)
    assert_same(mine, alone, KINDS)
    assert shared(outcome) == len(SHARED)
    reasons = whole(outcome)
    assert len(reasons) == len(ACROSS)
    for text in ACROSS.values():
        assert any(text in reason for reason in reasons), (text, reasons)


def test_a_step_is_made_again_from_its_begin(alone: Outcomes, tmp_path: Path) -> None:
    plan = faults(
        "kill:rank=2,step=3,at=in-exchange",
        f"nan:rank=1,step={STEPS + 2}",
        f"kill:rank=0,step={STEPS + 9},at=after-exchange",
    )
    kinds = ["returned-rows", "batch-moments"]
    outcome, mine = run(tmp_path, kinds, "--nonfinite", "recompute", *plan, ranks=4)
    assert_same(mine, alone, kinds)
    assert whole(outcome) == set()
    assert shared(outcome) == len(kinds)
    assert outcome.summary["world_size_end"] == 2


def test_nothing_is_shared_where_nothing_shall_be(alone: Outcomes, tmp_path: Path) -> None:
    arguments = [tmp_path, "gan-loop"]
    outcome = matex_run(
        tmp_path,
        "train_kinds.py",
        *arguments,
        ranks=2,
        options=["--share-loops", "never"],
        timeout_s=300,
    )
    assert_same(outcomes(tmp_path), alone, ["gan-loop"])
    assert shared(outcome) == 0
    assert "whole on every rank" in outcome.stdout
