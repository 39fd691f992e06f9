"""Further fits of a model begin anew; the same fit goes on from its notes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import matex
from matex.apoptosis.cut import rebuild
from matex.checkpointing import model_state
from tests.train.apoptosis.test_callback import fit, make

GOAL: dict[str, Any] = {"criterion": "magnitude", "delta": None, "every": 1, "first_epoch": 1}
GONE = "its goal is met"


@pytest.mark.parametrize("is_same", [False, True])
def test_a_second_fit_counts_from_its_own_size(
    is_same: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    model, x, y = make()
    first = matex.Apoptosis("aggressive", pruning_ratio=0.3, **GOAL)
    fit(model, x, y, first, epochs=5)
    held, left = len(first.events), model.count_params()
    assert held and capsys.readouterr().out.count(GONE) == 1
    second = first if is_same else matex.Apoptosis("aggressive", pruning_ratio=0.2, **GOAL)
    fit(model, x, y, second, epochs=5)
    assert len(second.events) > held * is_same
    assert model.count_params() <= (0.72 if is_same else 0.82) * left


def test_a_second_fit_has_thresholds_and_a_schedule_of_its_own() -> None:
    model, x, y = make()
    first = matex.Apoptosis(first_epoch=1, verbose=0, delta=0.05)
    fit(model, x, y, first, epochs=3)
    assert rebuild.notes_of(model)["taus"] and rebuild.notes_of(model)["due"]
    for callback in (matex.Apoptosis("conservative", delta=None, verbose=0), first):
        fit(model, x, y, callback, epochs=1)
        notes = rebuild.notes_of(model)
        assert (notes["taus"], notes["wait"], notes["due"]) == ({}, 0, 0)


def test_a_loss_of_another_fit_is_no_measure_of_what_an_event_may_cost() -> None:
    model, x, y = make()
    model.compile("adam", "mse")
    first = matex.Apoptosis(first_epoch=1, verbose=0)
    fit(model, x, 100 * y, first, epochs=3)
    model.compile("adam", "binary_crossentropy")
    for callback in (matex.Apoptosis(verbose=0), first):
        wanted = model.evaluate(x, y, verbose=0, return_dict=True)["loss"]
        fit(model, x, y, callback, epochs=1)
        assert rebuild.notes_of(model)["progress"]["at_start"] == pytest.approx(wanted, rel=1e-4)


def continued(model: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    """A model and data as a run has them that continues the last fit of *model*."""
    history = rebuild.history_of(model, model_state.weights_of(model))
    again, x, y = make()
    rebuild.begin_fit(again, continues=True)
    rebuild.replay(again, model_state.weights_of(again), history)
    return again, x, y


def test_a_fit_that_is_continued_takes_over_its_state(capsys: pytest.CaptureFixture[str]) -> None:
    model, x, y = make()
    fit(model, x, y, matex.Apoptosis(first_epoch=1, last_epoch=1), epochs=2)
    notes = rebuild.notes_of(model)
    again, x, y = continued(model)
    options = {"first_epoch": 1, "last_epoch": 1}
    fit(again, x, y, matex.Apoptosis(**options), epochs=3, initial_epoch=2)
    assert rebuild.notes_of(again) == notes and notes["taus"]
    assert "no event in this fit" not in capsys.readouterr().out, "there has been one"
    rebuild.begin_fit(again, continues=False)
    fit(again, x, y, matex.Apoptosis(**options), epochs=3, initial_epoch=2)
    assert "no event in this fit" in capsys.readouterr().out
    assert not rebuild.notes_of(again)["taus"]


def test_a_layer_that_was_refused_stays_so_in_a_continued_fit() -> None:
    model, x, y = make()
    fit(model, x, y, matex.Apoptosis(first_epoch=1, verbose=0), epochs=1)
    name = model.layers[-2].name
    rebuild.note(model, rebuild.notes_of(model) | {"refused": [name, "of_another_model"]})
    again, x, y = continued(model)
    apoptosis = matex.Apoptosis("aggressive", pruning_ratio=0.9, verbose=0, **GOAL)
    fit(again, x, y, apoptosis, epochs=5, initial_epoch=1)
    units = again.get_layer(name).units
    assert apoptosis.events
    assert units == model.get_layer(name).units
    assert rebuild.notes_of(again)["refused"] == (name,)


def test_a_continued_fit_whose_goal_is_met_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    model, x, y = make()
    fit(model, x, y, matex.Apoptosis("aggressive", pruning_ratio=0.3, **GOAL), epochs=4)
    capsys.readouterr()
    again, x, y = continued(model)
    assert again.count_params() == model.count_params()
    apoptosis = matex.Apoptosis("aggressive", pruning_ratio=0.3, **GOAL)
    fit(again, x, y, apoptosis, epochs=8, initial_epoch=4)
    assert not apoptosis.events
    assert capsys.readouterr().out.count(f"apoptosis holds no more events in this fit: {GONE}") == 1
