"""Layers that normalize over units: a trial computes what the cut will, and is judged by that."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from matex.apoptosis.cut.masking import Masks
from matex.apoptosis.graph.trace import groups_of, trace
from matex.apoptosis.one_shot import prune

NORMS: dict[str, Any] = {
    "layer": layers.LayerNormalization,
    "rms": layers.RMSNormalization,
    "group": lambda: layers.GroupNormalization(2),
}


def make(norm: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    """A residual network of width 48, trained a little, and rows that it has learnt from."""
    keras.utils.set_random_seed(3)
    inputs = keras.Input((5, 6))
    x = layers.Dense(48, name="stem")(inputs)
    for name in ("first", "second"):
        hidden = layers.Dense(64, "relu", name=name)(norm()(x))
        x = layers.Add()([x, layers.Dense(48)(hidden)])
    x = layers.GlobalAveragePooling1D()(norm()(x))
    model = keras.Model(inputs, layers.Dense(3, "softmax")(x))
    generator = np.random.default_rng(0)
    x = generator.normal(size=(256, 5, 6)).astype(np.float32)
    y = np.argmax(x.mean(1)[:, :3], 1)
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(x, y, epochs=4, batch_size=64, verbose=0)
    return model, x, y


@pytest.mark.parametrize("kind", NORMS)
def test_what_is_judged_is_what_the_smaller_model_computes(kind: str) -> None:
    model, x, y = make(NORMS[kind])
    outcome = prune(model, x, y, ratio=0.4, exclude=("first", "second"))
    assert not outcome.refused
    left = {change.layer.split("+")[0]: change.units_to for change in outcome.changes}
    together = 2 if kind == "group" else 1  # a unit of each group
    assert together * left["stem"] == model.get_layer("stem").units < 48
    assert model.evaluate(x[1::2], y[1::2], verbose=0) == pytest.approx(
        outcome.loss_after, rel=1e-4
    )
    assert not any("call" in vars(layer) for layer in model.layers)
    model.fit(x, y, epochs=1, verbose=0)


@pytest.mark.parametrize("kind", NORMS)
def test_weights_are_fitted_to_what_the_layer_made_before(kind: str) -> None:
    model, x, _ = make(NORMS[kind])
    net = trace(model)
    stem = next(group for group in groups_of(net) if group.name.startswith("stem"))
    first = next(iter(net.norms.values())).layer
    look = keras.Model(model.input, first.output)
    before = np.asarray(look(x))
    values = model.get_weights()
    # The units that vary most die: without them the statistics are others.
    roots = net.units.roots(net.norms[id(first)].units)
    spread = np.array([before.std((0, 1))[roots == root].sum() for root in stem.members])
    dead = set(stem.members[np.argsort(spread)[stem.width // 2 :]].tolist())
    lives = ~np.isin(roots, list(dead))

    def distance() -> float:
        return float(np.linalg.norm((np.asarray(look(x)) - before)[..., lives]))

    with Masks(net, lambda: None) as masks:
        masks.remember(model, x)
        masks.leave_out(dead)
        assert (off := distance()) > 0
        assigned = masks.refit(model, x)
        assert distance() < 0.95 * off
        for variable, value in assigned:
            variable.assign(value)
        masks.leave_out([])
        assert distance() == 0
    for value, wanted in zip(model.get_weights(), values, strict=True):
        np.testing.assert_array_equal(value, wanted)


@pytest.mark.parametrize("frozen", ["gamma", "beta"])
def test_frozen_weights_are_not_fitted(frozen: str) -> None:
    model, x, _ = make(layers.LayerNormalization)
    net = trace(model)
    for norm in net.norms.values():
        getattr(norm.layer, frozen).trainable = False
    stem = next(group for group in groups_of(net) if group.name.startswith("stem"))
    with Masks(net, lambda: None) as masks:
        masks.remember(model, x)
        masks.leave_out(set(stem.members[: stem.width // 2].tolist()))
        names = {variable.name for variable, _ in masks.refit(model, x)}
    assert names == {"gamma", "beta"} - {frozen}


def test_layers_are_what_they_were_after_an_error() -> None:
    model, _, _ = make(layers.LayerNormalization)
    told: list[int] = []
    net = trace(model)
    with pytest.raises(KeyError), Masks(net, lambda: told.append(1)):
        raise KeyError
    assert len(told) == 2
    assert not any("call" in vars(layer) for layer in model.layers)
