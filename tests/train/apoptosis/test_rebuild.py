"""Everything that knew the model knows the smaller one after a cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import checkpoints
from matex import keras_hooks
from matex.apoptosis.cut import rebuild
from matex.apoptosis.graph.trace import groups_of, trace, traces
from matex.checkpointing import model_state

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {"momentum": 0.9, "use_ema": True},
    "RMSprop": {"momentum": 0.5, "centered": True},
    "Adam": {"amsgrad": True},
    "AdamW": {"gradient_accumulation_steps": 2},
    "Adadelta": {}, "Adagrad": {}, "Adamax": {}, "Adafactor": {}, "Nadam": {}, "Ftrl": {},
    "Lion": {}, "Lamb": {}, "Muon": {}, "ScheduleFreeAdamW": {},
}  # fmt: skip


def make(optimizer: Any, *, eager: bool = True) -> tuple[Any, np.ndarray, np.ndarray]:
    keras.utils.set_random_seed(2)
    generator = np.random.default_rng(0)
    x = generator.normal(size=(64, 6, 6, 2)).astype(np.float32)
    y = generator.normal(size=(64, 3)).astype(np.float32)
    model = keras.Sequential(
        [
            keras.Input((6, 6, 2)),
            layers.Conv2D(12, 3, use_bias=False, name="c"),
            layers.BatchNormalization(name="n"),
            layers.ReLU(),
            layers.Flatten(),
            layers.Dense(16, "relu", name="a"),
            layers.Dense(3, name="b"),
        ]
    )
    model.compile(optimizer, "mse", metrics=["mae"], run_eagerly=eager)
    model.fit(x, y, batch_size=32, verbose=0)
    return model, x, y


def cut_every_third(model: Any) -> dict[str, np.ndarray]:
    """Remove units 0, 3, 6, ... of each group; variable's path -> what should be left of it."""
    net = trace(model)
    dead = {int(root) for group in groups_of(net) for root in group.members[::3]}
    wanted = {v.path: v.numpy() for v in model.weights}
    for binding in net.bindings.values():
        stays = ~np.isin(net.units.roots(binding.units), list(dead))
        path = binding.variable.path
        wanted[path] = np.compress(stays, wanted[path], binding.axis)
    rebuild.cut(model, net, dead)
    return wanted


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_slots_of_every_optimizer_are_carried_over(name: str) -> None:
    if not hasattr(keras.optimizers, name):
        pytest.skip(f"Keras {keras.__version__} has no {name}")
    model, x, y = make(getattr(keras.optimizers, name)(1e-3, **OPTIMIZERS[name]))
    optimizer = model.optimizer
    objects = [id(v) for v in (*model.variables, *optimizer.variables)]
    slots = {id(s.variable): (s, s.variable.numpy()) for s in keras_hooks.slots(optimizer)}
    assert slots
    assert keras_hooks.WeightUsers(model, model.variables).unknown_slot() == ""
    made = int(optimizer.iterations.numpy())
    wanted = cut_every_third(model)
    for path, value in ((v.path, v.numpy()) for v in model.weights):
        np.testing.assert_array_equal(value, wanted[path])
    for slot, before in slots.values():
        kept = getattr(slot.weight, "matex_kept", {})
        cuts = [kept.get(axis, np.arange(before.shape[i])) for i, axis in enumerate(slot.axes)]
        np.testing.assert_array_equal(slot.variable.numpy(), before[np.ix_(*cuts)])
    assert int(optimizer.iterations.numpy()) == made > 0
    assert objects == [id(v) for v in (*model.variables, *optimizer.variables)]
    before = model.get_weights()
    model.fit(x, y, batch_size=32, verbose=0)
    assert optimizer._iterations.numpy() >= made + 2
    assert all((a != b).any() for a, b in zip(before, model.get_weights(), strict=True))


def test_optimizers_made_of_others_and_weight_decay_that_leaves_some_out() -> None:
    inner = keras.optimizers.AdamW(1e-2, weight_decay=0.5)
    model, x, y = make("sgd")
    inner.exclude_from_weight_decay(var_list=[model.get_layer("a").kernel])
    model.compile(keras.mixed_precision.LossScaleOptimizer(inner), "mse", run_eagerly=True)
    model.fit(x, y, verbose=0)
    cut_every_third(model)
    assert not inner._use_weight_decay(model.get_layer("a").kernel)
    assert inner._use_weight_decay(model.get_layer("b").kernel)
    model.fit(x, y, verbose=0)


def test_the_smaller_model_is_saved_exported_and_summarised(tmp_path: Path) -> None:
    model, x, _ = make("adam")
    cut_every_third(model)
    predicted = model.predict(x, verbose=0)
    assert (model.get_layer("c").filters, model.get_layer("a").units) == (8, 10)
    model.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    np.testing.assert_allclose(loaded.predict(x, verbose=0), predicted, atol=1e-6)
    assert loaded.optimizer.variables[2].shape == model.optimizer.variables[2].shape
    model.save_weights(tmp_path / "m.weights.h5")
    loaded.load_weights(tmp_path / "m.weights.h5")
    model.export(tmp_path / "exported", verbose=False)
    layer = layers.TFSMLayer(tmp_path / "exported", call_endpoint="serve")
    np.testing.assert_allclose(layer(x), predicted, atol=1e-5)
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    lines: list[str] = []
    model.summary(print_fn=lines.append)
    assert "(None, 4, 4, 8)" in "".join(lines)


def test_a_history_brings_a_wide_model_to_the_same_shapes() -> None:
    model, _, _ = make("adam")
    cut_every_third(model)
    cut_every_third(model)
    rebuild.note(model, {"due": 3})
    history = rebuild.history_of(model, model_state.weights_of(model))
    assert history
    other, x, y = make("adam")
    assert rebuild.replay(other, model_state.weights_of(other), history)
    assert [v.shape for v in other.variables] == [v.shape for v in model.variables]
    assert [v.shape for v in other.optimizer.variables] == [
        v.shape for v in model.optimizer.variables
    ]
    assert not rebuild.replay(other, model_state.weights_of(other), history)
    assert rebuild.history_of(other, model_state.weights_of(other)).keys() == history.keys()
    assert rebuild.notes_of(other) == {"due": 3}
    other.fit(x, y, verbose=0)


def heads_or_dimensions() -> tuple[Any, np.ndarray]:
    """A layer whose units are four heads or 12 of each; another has heads alone."""
    keras.utils.set_random_seed(7)
    inputs = keras.Input((16,))
    one = layers.Reshape((4, 12))(layers.Dense(48, "relu", name="one")(inputs))
    other = layers.Softmax()(layers.Reshape((4, 12))(layers.Dense(48, name="other")(inputs)))
    x = layers.Concatenate()([layers.Flatten()(one), layers.Flatten()(other)])
    model = keras.Model(inputs, layers.Dense(3, name="end")(x))
    model.compile("sgd", "mse")
    return model, np.random.default_rng(0).normal(size=(64, 16)).astype(np.float32)


def test_a_checkpoint_from_before_heads_could_be_units_is_cut_as_it_was() -> None:
    """Written by the code before 371edcc, to which the units of ``one`` were 12 of four heads."""
    saved = checkpoints.read_snapshot(Path(__file__).parent / "fixtures" / "before-heads.h5")
    model, x = heads_or_dimensions()
    assert [group.width for group in groups_of(trace(model))] == [4, 4]  # as it is now
    weights = model_state.weights_of(model)
    assert rebuild.replay(model, weights, saved.extra)
    assert model.get_layer("one").units == 44 and model.get_layer("other").units == 48
    assert rebuild.history_of(model, weights).keys() == {
        name for name in saved.extra if name.startswith("apoptosis")
    }
    for variable, value in zip(model.weights, saved.weights.values(), strict=True):
        variable.assign(value)
    wanted = [  # what that code gave for the first rows
        [-0.02026093751192093, 0.2692399024963379, 0.2580214142799377],
        [-0.03651656210422516, -0.04766948521137238, -0.11249739676713943],
    ]
    np.testing.assert_allclose(model(x[:2]), wanted, atol=1e-5)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_cuts_along_one_axis_and_then_the_other_are_replayed(order: tuple[int, int]) -> None:
    model, x = heads_or_dimensions()
    for number in order:
        net = traces(model)[number]
        (group,) = (g for g in groups_of(net) if g.name == "one")
        rebuild.cut(model, net, {int(group.members[1])})
    assert model.get_layer("one").units == 3 * 11
    history = rebuild.history_of(model, model_state.weights_of(model))
    other, _ = heads_or_dimensions()
    assert rebuild.replay(other, model_state.weights_of(other), history)
    other.set_weights(model.get_weights())
    np.testing.assert_allclose(other(x), model(x), atol=1e-6)
    again = rebuild.history_of(other, model_state.weights_of(other))
    assert again.keys() == history.keys()
    assert all(np.array_equal(again[name], history[name]) for name in history)


def test_cutting_inside_a_fit_and_going_on() -> None:
    """Steps, epochs, metrics and validation go on in the same call."""

    class Cut(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if epoch == 1:
                cut_every_third(self.model)
                keras_hooks.renew_validation(self.model)

    schedule = keras.optimizers.schedules.CosineDecay(1e-3, 50)
    model, x, y = make(keras.optimizers.Adam(schedule), eager=False)
    made = int(model.optimizer.iterations.numpy())
    history = model.fit(
        x, y, validation_data=(x[:20], y[:20]), epochs=4, batch_size=16, verbose=0,
        callbacks=[Cut(), keras.callbacks.EarlyStopping("val_loss", patience=9)],
    )  # fmt: skip
    assert int(model.optimizer.iterations.numpy()) == made + 16
    assert len(history.history["val_mae"]) == 4
    assert model.get_layer("c").filters == 8
    wanted = model.evaluate(x[:20], y[:20], verbose=0, return_dict=True)
    assert history.history["val_loss"][-1] == pytest.approx(wanted["loss"], rel=1e-5)
