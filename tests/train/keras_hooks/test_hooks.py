"""The hooks into Keras check themselves, and say by which release they were put off."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from matex import keras_hooks
from matex.errors import NotShareable
from matex.keras_hooks.batch_moments import wandering_biases
from matex.keras_hooks.models import drawing_from
from matex.keras_hooks.optimizers import setting_when_built
from matex.keras_hooks.versions import TESTED
from matex.sources.tfdata_operations import resources_in
from matex.steps.building import build
from tests.train.runs import execute

BATCH = (tf.TensorSpec((None, 4)), tf.TensorSpec((None, 1)))
FAKED = "import keras, matex\nkeras.__version__ = '3.99.1'\n"
GONE = (
    "from keras.src.backend.tensorflow.trainer import TensorFlowTrainer\n"
    "del TensorFlowTrainer.make_train_function\n"
)


@pytest.mark.parametrize(
    ("what", "status", "said"),
    [
        ("", 0, f"matex: Keras 3.99.1 is outside of what matex is tested with: {TESTED}"),
        (GONE, 1, "Keras 3.99.1 has no TensorFlowTrainer.make_train_function; tested with"),
    ],
)
def test_a_release_out_of_range_is_named(what: str, status: int, said: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"{FAKED}{what}matex.init()\nprint('trained')\n")
    done = execute([sys.executable, script], directory=tmp_path, TMPDIR=str(tmp_path))
    assert done.returncode == status
    assert (done.stdout + done.stderr).count(said) == 1
    assert ("trained" in done.stdout) == (status == 0)


REPLACED = """
import matex
matex.init()
import keras, numpy as np
keras.utils.set_random_seed(1)
rows = np.ones((8, 2), "float32")
for eager in (True, False):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("adam", "mse", run_eagerly=eager)
    model.fit(rows, rows[:, :1], verbose=0)
    model.optimizer = keras.optimizers.SGD(0.1)
    model.fit(rows, rows[:, :1], verbose=0)
    print("went on", eager, int(model.optimizer.iterations))
"""


def test_an_optimizer_that_plain_keras_would_not_use_is_refused(tmp_path: Path) -> None:
    """Keras's step is traced with the one before; where it is not traced, the new one counts."""
    script = tmp_path / "script.py"
    script.write_text(REPLACED)
    done = execute([sys.executable, script], directory=tmp_path, TMPDIR=str(tmp_path))
    assert done.returncode == 1
    assert [line for line in done.stdout.splitlines() if "went on" in line] == ["went on True 1"]
    assert "an optimizer set after a fit wants compile()" in done.stderr


def of_parts(*parts: keras.Layer) -> keras.Model:
    """A model that holds *parts*, and cannot be called itself."""
    model = keras.Model()
    for number, part in enumerate(parts):
        setattr(model, f"part_{number}", part)
    model.compile("adam")
    return model


def test_a_model_that_cannot_be_called_is_ready_when_all_its_parts_are() -> None:
    rows = (tf.TensorSpec((None, 4)),)
    built, unbuilt = keras.layers.Dense(2), keras.layers.Dense(2)
    built.build((None, 4))
    model = of_parts(built)
    keras_hooks.build(model, rows)
    assert len(model.optimizer.variables) == 2 + 2 * 2  # two counters; two moments of each weight
    assert keras_hooks.parameters(model) == 4 * 2 + 2
    with pytest.raises(NotShareable, match="cannot be built from its data"):
        keras_hooks.build(of_parts(built, unbuilt), rows)


class BuildsAnOptimizer(keras.Model):
    """Model whose ``build`` is the script's own, and does more than to build layers."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.second = keras.layers.Dense(1), keras.optimizers.Adam()

    def build(self, shape: Any) -> None:
        self.hidden.build(shape)
        self.second.build(self.hidden.trainable_variables)
        self.built = True

    def call(self, x: Any) -> Any:
        return self.hidden(x)


def test_a_build_of_the_script_s_own_runs_as_in_plain_keras() -> None:
    model = BuildsAnOptimizer()
    model.compile("sgd", "mse", metrics=["mae"])
    build(model, BATCH)
    assert model.hidden.built and model._compile_metrics.built
    assert len(model.second.variables) == 2 + 2 * 2  # two counters; two moments of each weight


def test_a_layer_that_draws_in_the_data_and_in_the_model_is_found() -> None:
    shared, mapped, inner = (keras.layers.GaussianNoise(0.5, seed=n) for n in range(3))
    model = keras.Sequential([keras.Input((4,)), shared, keras.Sequential([inner])])
    rows = tf.data.Dataset.from_tensor_slices(np.zeros((8, 4), np.float32))
    rows = rows.map(lambda x: mapped(x, training=True))
    assert drawing_from(model, resources_in(rows.batch(2))) == []
    data = rows.map(lambda x: inner(x, training=True)).batch(2)
    data = data.map(lambda x: shared(x, training=True)).prefetch(1)
    assert drawing_from(model, resources_in(data)) == [shared.name, inner.name]


def test_biases_that_a_normalisation_subtracts_again_are_found() -> None:
    layers = keras.layers
    first = keras.Input((8, 8, 3))
    convolved = layers.Conv2D(4, 3, name="found")(first)
    hidden = layers.BatchNormalization()(convolved)
    hidden = layers.Conv2D(4, 3, activation="relu", name="bent")(hidden)
    hidden = layers.BatchNormalization()(hidden)
    hidden = layers.Conv2D(4, 3, use_bias=False, name="without")(hidden)
    hidden = layers.Flatten()(layers.BatchNormalization()(hidden))
    twice = layers.Dense(3, name="read twice")(hidden)
    inner = keras.Sequential([layers.Dense(4, name="inner"), layers.BatchNormalization()])
    outputs = [layers.BatchNormalization()(twice), twice, inner(hidden)]
    model = keras.Model(first, outputs)
    every = keras_hooks.normalizations(model)
    for optimizer, wanted in (("adam", {"found", "inner"}), ("sgd", set())):
        model.compile(optimizer, "mse")
        assert set(wandering_biases(model, every)) == wanted
    model.compile("adam", "mse")
    assert wandering_biases(model, every[1:]) == ["inner"] and not wandering_biases(model, [])


def small_model(**options: Any) -> keras.Model:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(**{"optimizer": "sgd", "loss": "mse", **options})
    return model


class FromOne(keras.metrics.Metric):
    """A metric that begins with one, and is reset to zero as Keras does by default."""

    def __init__(self) -> None:
        super().__init__(name="from_one")
        self.least = self.add_variable(shape=(), initializer="ones", name="least")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.least.assign(tf.minimum(self.least, tf.reduce_min(y_pred)))

    def result(self) -> Any:
        return self.least + 0.0


def test_metrics_made_for_a_fit_begin_as_those_that_its_first_step_makes() -> None:
    metric = FromOne()
    model = small_model(metrics=[metric])
    keras_hooks.build(model, BATCH, for_fit=True)
    model.reset_metrics()
    assert float(metric.least) == 1
    model.reset_metrics()
    assert float(metric.least) == 0


def test_metrics_of_a_fit_that_began_elsewhere_are_reset() -> None:
    metric = FromOne()
    model = small_model(metrics=[metric])
    keras_hooks.build(model, BATCH, for_fit=True)
    keras_hooks.start_at(model, 1)
    model.reset_metrics()
    assert float(metric.least) == 0


class Copying(keras.optimizers.SGD):
    """An optimizer that keeps slow copies of the weights."""

    def build(self, variables: Any) -> None:
        super().build(variables)
        for variable in variables:
            self.add_variable_from_reference(variable, name="slow").assign(variable)


@pytest.mark.parametrize(
    ("optimizer", "names"),
    [(Copying, ["Copying"]), (lambda: keras.optimizers.Adam(use_ema=True), [])],
)
def test_an_optimizer_is_named_that_sets_variables_when_it_is_built(
    optimizer: Callable[[], Any], names: list[str]
) -> None:
    model = small_model(optimizer=optimizer())
    keras_hooks.build(model, BATCH)
    assert setting_when_built(model) == names


class Late(keras.Model):
    """Makes one-hot labels for its metrics, and then asks for a number of rows."""

    def __init__(self, first: str = "metrics") -> None:
        super().__init__()
        self.out = keras.layers.Dense(3)
        self.first = first

    def call(self, inputs: Any) -> Any:
        return self.out(inputs)

    def train_step(self, data: Any) -> Any:
        x, y = data
        if self.first == "rows":
            range(x.shape[0])
        logs = self.compute_metrics(x, tf.one_hot(tf.cast(y[:, 0], tf.int32), 3), self(x))
        range(x.shape[0])
        return logs


def test_metrics_of_a_step_that_fails_after_it_made_them_have_values() -> None:
    model = Late()
    model.compile("sgd", "mse", metrics=["accuracy", keras.metrics.AUC(multi_label=True)])
    build(model, BATCH)
    assert type(model._compile_metrics.metrics[0]) is keras.metrics.CategoricalAccuracy
    assert all((variable.numpy() == 0).all() for variable in model._compile_metrics.variables)


@pytest.mark.parametrize("names", [["accuracy"], ["mae", "acc"]])
def test_metrics_that_only_the_first_step_can_choose_are_left_to_it(names: list[str]) -> None:
    model = Late(first="rows")
    model.compile("sgd", "mse", metrics=names)
    with pytest.raises(NotShareable, match="train_step cannot be traced: TypeError"):
        build(model, BATCH)
    assert not model._compile_metrics.built


def test_metrics_that_nothing_chooses_are_made_though_the_step_fails() -> None:
    model = Late(first="rows")
    model.compile("sgd", "mse", metrics=["mae"])
    build(model, BATCH)
    assert model._compile_metrics.built


def test_an_eager_step_that_is_run_for_its_metrics_changes_nothing() -> None:
    model = Late()
    model.compile("sgd", "mse", metrics=["accuracy"], run_eagerly=True)
    build(model, BATCH)
    assert type(model._compile_metrics.metrics[0]) is keras.metrics.CategoricalAccuracy
    assert all((variable.numpy() == 0).all() for variable in model._compile_metrics.variables)
