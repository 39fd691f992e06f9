"""``matex.Apoptosis`` in one process, without MPI."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import matex
from matex.apoptosis.allowance import LossProgress
from matex.apoptosis.graph.trace import trace
from matex.apoptosis.schedule import MODES
from matex.apoptosis.targets import MEASURES, size_of
from matex.errors import InputError, Unsupported


def make(seed: int = 0) -> tuple[Any, np.ndarray, np.ndarray]:
    """A model with many units that do the same, and data for it."""
    keras.utils.set_random_seed(seed)
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(600, 6)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] > 0).astype(np.float32)
    model = keras.Sequential(
        [
            keras.Input((6,)),
            layers.Dense(64, "relu", name="a"),
            layers.Dense(40, "relu", name="b"),
            layers.Dense(1, "sigmoid", name="out"),
        ]
    )
    for name in "ab":
        kernel, bias = model.get_layer(name).get_weights()
        half = kernel.shape[1] // 2
        kernel[:, half:] = kernel[:, :half]
        model.get_layer(name).set_weights([kernel, bias])
    model.compile(keras.optimizers.Adam(1e-3), "binary_crossentropy", metrics=["accuracy"])
    return model, x, y


def fit(model: Any, x: Any, y: Any, callback: Any, *, epochs: int = 1, **more: Any) -> Any:
    callbacks = callback if isinstance(callback, list) else [callback]
    given = {"batch_size": 100, "verbose": 0, "callbacks": callbacks, **more}
    return model.fit(x, y, epochs=epochs, **given)


def once(mode: str = "natural", **options: Any) -> Any:
    """An event after the first epoch."""
    return matex.Apoptosis(mode, first_epoch=1, last_epoch=1, verbose=0, **options)


def test_training_goes_on_in_a_smaller_model_that_is_the_same_object(
    capsys: pytest.CaptureFixture[str],
) -> None:
    model, x, y = make()
    apoptosis = matex.Apoptosis(first_epoch=1)
    history = fit(model, x, y, apoptosis, epochs=5, validation_data=(x[:99], y[:99]))
    assert len(history.history["val_loss"]) == 5
    assert model.optimizer.iterations.numpy() == 30
    # Half of each layer were copies, which training keeps equal.
    assert model.get_layer("a").units <= 34 and model.get_layer("b").units <= 22
    event = apoptosis.events[0]
    assert event["epoch"] == 1
    assert event["parameters"] < 0.5 * event["parameters_before"]
    assert event["loss_after"] <= event["loss_allowed"]
    assert event["loss_allowed"] == pytest.approx(event["loss_before"] + 0.005 * 0.7, abs=1e-3)
    assert 0 <= event["at_risk"] <= 1
    assert event["seconds"] > 0 < event["epoch_s"]
    assert apoptosis.events[-1]["parameters"] == model.count_params()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("matex:")]
    told = next(line for line in lines if "apoptosis after epoch 1: " in line)
    assert "of 104 units gone, in 2 of 2 groups; parameters " in told and "held-out loss" in told
    assert len(told) < 240 and "a 64" not in "".join(lines)


def test_a_fit_without_an_event_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    model, x, y = make()
    fit(model, x, y, matex.Apoptosis(), epochs=3)
    assert capsys.readouterr().out.count("apoptosis holds no event in this fit") == 1


@pytest.mark.parametrize("mode", MODES)
def test_each_mode_removes_what_it_may(mode: str) -> None:
    model, x, y = make()
    fit(model, x, y, once(mode))
    kept = {
        "conservative": range(57, 64),
        "natural": range(20, 33),
        "aggressive": range(32, 33),
        "adaptive": range(8, 33),  # which takes more where the held-out loss hardly rises
    }
    assert model.get_layer("a").units in kept[mode]


@pytest.mark.parametrize("criterion", ["projection", "random"])
def test_each_criterion_reaches_a_target(criterion: str) -> None:
    model, x, y = make()
    before = model.count_params()
    options = {"criterion": criterion, "pruning_ratio": 0.3, "delta": None}
    apoptosis = matex.Apoptosis("aggressive", first_epoch=1, every=1, verbose=0, **options)
    fit(model, x, y, apoptosis, epochs=7)
    assert model.count_params() >= 0.6 * before
    if criterion == "projection":  # which finds the copies
        assert model.count_params() <= 0.72 * before


@pytest.mark.parametrize("ratio", [0.3, 0.36, 0.4])
@pytest.mark.parametrize("target", MEASURES)
def test_a_goal_is_reached_and_hardly_passed(target: str, ratio: float) -> None:
    """Also where the rest of the way is less of each group than is worth an event."""
    model, x, y = make()
    before = size_of(trace(model), target)
    options = {"pruning_ratio": ratio, "target": target, "delta": None}
    apoptosis = matex.Apoptosis("conservative", first_epoch=1, every=1, verbose=0, **options)
    fit(model, x, y, apoptosis, epochs=8)
    assert 1 - ratio - 0.06 <= size_of(trace(model), target) / before <= 1 - ratio
    assert len(apoptosis.events) > 1


def test_a_small_network_is_left_when_little_goes_any_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    model, x, y = make()
    apoptosis = matex.Apoptosis("natural", first_epoch=1, delta=None)
    fit(model, x, y, apoptosis, epochs=9)
    gone = [1 - event["parameters"] / event["parameters_before"] for event in apoptosis.events]
    assert [event["epoch"] for event in apoptosis.events] == list(range(1, len(gone) + 1))
    assert min(gone[:-1]) >= 0.3 > gone[-1]
    assert f"apoptosis is over after epoch {len(gone)}" in capsys.readouterr().out

    model, x, y = make()
    apoptosis = matex.Apoptosis("natural", first_epoch=1, every=3, delta=None)
    fit(model, x, y, apoptosis, epochs=9)
    assert [event["epoch"] for event in apoptosis.events] == [1, 4, 7]
    assert "is over" not in capsys.readouterr().out


def test_a_bad_event_is_rolled_back() -> None:
    model, x, y = make()
    fit(model, x, y, keras.callbacks.Callback(), epochs=20)
    weights = model.get_weights()
    apoptosis = once("aggressive", criterion="random", delta=1e-6, pruning_ratio=0.8)
    apoptosis._mode = MODES["natural"]._replace(tau=9.0)
    model.optimizer.learning_rate = 0.0
    fit(model, x, y, apoptosis)
    (event,) = apoptosis.events
    assert event["changes"] and not any(change["kept"] for change in event["changes"])
    for now, before in zip(model.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(now, before)


def test_what_an_epoch_gained_is_told_by_the_rows_of_the_last_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A network that an event has cut is judged by more rows than before."""
    told: list[tuple[int, float]] = []

    def gained(self: LossProgress, epoch: int, held_out: float, training: float | None) -> float:
        told.append((self.rows, held_out))
        return 0.0

    class Loss(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if epoch == 1:
                rows = self.model.matex_notes["progress"]["rows"]
                chosen = (np.arange(rows) * (len(x) / rows)).astype(int)
                outputs = self.model(x[chosen], training=False)
                losses.append(float(self.model.compute_loss(None, y[chosen, None], outputs)))

    losses: list[float] = []
    monkeypatch.setattr(LossProgress, "gained", gained)
    model, x, y = make()
    x, y = np.tile(x, (16, 1)), np.tile(y, 16)
    apoptosis = matex.Apoptosis(first_epoch=1, last_epoch=2, delta=0.5, verbose=0)
    fit(model, x, y, [Loss(), apoptosis], epochs=2, validation_data=(x, y))
    assert [event["epoch"] for event in apoptosis.events] == [1, 2]
    (none, _), (rows, loss) = told
    assert none == 0 < rows < 2048, "so many judged the first event"
    assert model.matex_notes["progress"]["rows"] > rows, "and so many the second"
    assert [loss] == pytest.approx(losses, rel=1e-5)


def test_what_is_left_alone_is_told_once_with_its_share(
    capsys: pytest.CaptureFixture[str],
) -> None:
    model, x, y = make()
    share = model.get_layer("a").count_params() / model.count_params()
    apoptosis = matex.Apoptosis("aggressive", first_epoch=1, last_epoch=2, exclude=["a"])
    fit(model, x, y, apoptosis, epochs=2)
    assert len(apoptosis.events) == 2
    said = [line for line in capsys.readouterr().out.splitlines() if "leaves alone" in line]
    told = f"leaves alone: a ({share:.1%} of the parameters), Dense: excluded"
    assert sum(told in line for line in said) == 1
    assert len(set(said)) == len(said)


class Subclassed(keras.Model):
    """A model whose class gives its layers their sizes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.inner, self.outer = keras.layers.Dense(32, "relu"), keras.layers.Dense(1)

    def call(self, x: Any) -> Any:
        return self.outer(self.inner(x))


def test_how_a_smaller_subclassed_model_is_saved_is_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(0).normal(size=(64, 6)).astype(np.float32)
    model = Subclassed()
    model.compile("adam", "mse")
    model.fit(x, x[:, :1], verbose=0)
    apoptosis = matex.Apoptosis("aggressive", first_epoch=1, last_epoch=2, every=1, delta=None)
    model.fit(x, x[:, :1], epochs=2, callbacks=[apoptosis], verbose=0)
    assert [event["changes"][0]["kept"] for event in apoptosis.events] == [True, True]
    assert capsys.readouterr().out.count("Subclassed.save writes from now on cannot") == 1
    inputs = keras.Input((6,))
    keras.Model(inputs, model.call(inputs)).save(tmp_path / "m.keras")  # as that line says
    loaded = keras.models.load_model(tmp_path / "m.keras")
    assert loaded.count_params() == model.count_params() < 32 * 8 + 1
    wanted = model.predict(x, verbose=0)
    np.testing.assert_allclose(loaded.predict(x, verbose=0), wanted, atol=1e-6)


def test_a_table_of_the_groups_is_printed_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    model, x, y = make()
    fit(model, x, y, matex.Apoptosis("natural", first_epoch=1, last_epoch=1, verbose=2))
    lines = capsys.readouterr().out.splitlines()
    header = next(n for n, line in enumerate(lines) if line.startswith("matex:   group "))
    for name, before, line in zip("ab", (64, 40), lines[header + 1 :], strict=False):
        left = model.get_layer(name).units
        assert line.split()[1:5] == [name, str(before), "->", str(left)]


def test_excluded_layers_keep_their_units() -> None:
    model, x, y = make()
    apoptosis = once(exclude=["a"])
    fit(model, x, y, apoptosis)
    assert model.get_layer("a").units == 64 > 40 > model.get_layer("b").units
    assert "excluded" in apoptosis.events[0]["left_alone"]["a"]


def test_data_of_every_kind() -> None:
    model, x, y = make()
    fit(model, tf.data.Dataset.from_tensor_slices((x, y)).batch(50), None, once(), batch_size=None)
    assert model.get_layer("a").units <= 34

    def generate() -> Iterator[Any]:
        while True:
            yield x[:100], y[:100]

    model, x, y = make()
    options = {"steps_per_epoch": 3, "batch_size": None}
    with pytest.raises(InputError, match="Received: generator"):
        fit(model, generate(), None, once(), **options)
    model, x, y = make()
    fit(model, generate(), None, once(data=(x, y)), **options)
    assert model.get_layer("a").units <= 34


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"mode": "wild"}, "mode must be one of"),
        ({"criterion": "luck"}, "criterion must be one of"),
        ({"pruning_ratio": 1.5}, "pruning_ratio must be between 0 and 1"),
        ({"target": "watts"}, "target must be one of"),
        ({"samples": 0}, "samples must be at least 1"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told) as caught:
        matex.Apoptosis(**wrong)
    assert "Received: " in str(caught.value) and "\n" not in str(caught.value)


class Generating(keras.Model):
    """A model that is called with noise, and trained with what it is to make."""

    def __init__(self) -> None:
        super().__init__()
        self.net = keras.Sequential([layers.Input((3,)), layers.Dense(24), layers.Dense(6)])

    def call(self, noise: Any) -> Any:
        return self.net(noise)

    def train_step(self, data: Any) -> dict[str, Any]:
        return {"loss": tf.reduce_mean(data)}


def test_a_model_that_cannot_be_called_with_the_data_is_refused_in_one_line() -> None:
    model = Generating()
    model(np.zeros((1, 3)))
    model.compile("adam", "mse")
    with pytest.raises(Unsupported, match="calls a model with the x of its data") as caught:
        model.fit(np.zeros((60, 6)), callbacks=[once()], verbose=0)
    said = str(caught.value)
    assert "Received: Generating" in said and "value 3" in said and "\n" not in said
    assert "\x1b" not in said
    model.compile()  # its train step alone knows losses
    callback = once("aggressive", data=(np.ones((60, 3)), np.zeros((60, 6))))
    model.fit(np.zeros((60, 6)), callbacks=[callback], verbose=0)
    assert callback.events[0]["parameters"] < callback.events[0]["parameters_before"]


@pytest.mark.parametrize("is_subclassed", [False, True])
def test_a_model_without_a_shape_is_built_from_the_data_of_its_fit(is_subclassed: bool) -> None:
    x = np.random.default_rng(0).normal(size=(64, 6)).astype(np.float32)
    losses, sizes = [], []
    for callbacks in ([], [matex.Apoptosis("aggressive", delta=None, first_epoch=1, every=1)]):
        keras.utils.set_random_seed(0)
        dense = keras.layers.Dense
        model = Subclassed() if is_subclassed else keras.Sequential([dense(32, "relu"), dense(1)])
        model.compile("adam", "mse")
        history = model.fit(x, x[:, :1], epochs=3, verbose=0, callbacks=callbacks)
        losses.append(history.history["loss"][0])
        sizes.append(model.count_params())
    assert losses[0] == losses[1]
    assert sizes[0] == 257 > sizes[1]
