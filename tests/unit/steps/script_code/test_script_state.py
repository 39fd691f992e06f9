"""State of the script's Python that a trial puts back."""

from __future__ import annotations

import functools
import importlib
import random
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from matex.steps.script_code.script_state import ScriptState, are_same, is_scripts

tally = [0]


class Layer:
    """Stands for what is made when it is first used."""


class Model:
    managed = 0

    def __init__(self) -> None:
        self.calls = 0
        self.kept: list[Any] = []
        self.named = {"a": 1}
        self.seen = {1}
        self.last: deque[int] = deque([0], maxlen=2)
        self.mean = np.zeros(3)
        self.parts = (SimpleNamespace(), [[]])
        self.draws = random.Random(1)
        self.rng = np.random.default_rng(1)
        self.managed = 0

        def function() -> None:
            nonlocal count
            count += 1

        count = 0
        self.count = lambda: count
        self.function = functools.partial(function)

    def step(self) -> None:
        tally[0] += 1
        self.calls += 1
        self.kept.append(self.calls)
        self.named["b"] = 2
        self.seen.add(2)
        self.last.append(1)
        self.mean += 1
        self.parts[1][0].append(1)
        self.new = 1
        self.layer = Layer()
        self.managed += 1
        self.function()


def noted(model: Model) -> ScriptState:
    return ScriptState(
        model, lambda _: frozenset({"managed"}), lambda value: isinstance(value, Layer)
    )


def test_all_that_a_step_keeps_is_put_back_but_layers_and_what_keras_manages() -> None:
    model = Model()
    state = noted(model)
    model.step()
    first = state.put_back()
    assert first
    assert (model.calls, model.kept, model.named, model.seen) == (0, [], {"a": 1}, {1})
    assert (list(model.last), model.mean.tolist(), model.parts[1]) == ([0], [0, 0, 0], [[]])
    assert (tally, model.count()) == ([0], 0)
    assert not hasattr(model, "new")
    assert isinstance(model.layer, Layer)
    assert model.managed == 1
    model.step()
    assert are_same(first, state.put_back())  # in the same order
    assert state.put_back() == []


def test_what_a_step_deletes_or_first_names_is_put_back() -> None:
    model = Model()

    def named() -> int:
        return late

    model.function = named
    state = noted(model)
    late = 1
    del model.calls
    assert state.put_back()
    assert model.calls == 0
    with pytest.raises(NameError):
        named()


def test_what_is_kept_of_other_rows_is_told_apart() -> None:
    model = Model()
    state = noted(model)
    model.kept.append(np.ones(2))
    first = state.put_back()
    model.kept.append(np.zeros(2))
    assert not are_same(first, state.put_back())


def test_generators_are_put_back_by_themselves() -> None:
    model = Model()
    state = noted(model)
    drawn = model.draws.random(), model.rng.random()
    assert state.put_back() == []
    assert model.draws.random() != drawn[0]
    state.put_back_generators()
    assert (model.draws.random(), model.rng.random()) == drawn


def test_a_renewed_object_keeps_what_it_has_got_since() -> None:
    model = Model()
    state = noted(model)
    model.calls = 7
    model.kept.append(1)
    state.renew(model)
    model.step()
    state.put_back()
    assert (model.calls, model.kept) == (7, [1])


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ([1, 2.0], [1, 2.0], True),
        ([1], [1, 2], False),
        ({"a": np.arange(3)}, {"a": np.arange(3)}, True),
        ({"a": 1}, {"b": 1}, False),
        (None, 0, False),
        ("a", "a", True),
    ],
)
def test_values_are_compared_by_what_they_hold(one: Any, other: Any, same: bool) -> None:
    assert are_same([one], [other]) is same


@pytest.mark.parametrize(("folder", "is_own"), [("other/site-packages", False), ("beside", True)])
def test_packages_of_another_environment_are_not_of_the_script(
    folder: str, is_own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ``.pth`` file, or PYTHONPATH as module systems set it, adds such a folder."""
    place = tmp_path / folder
    place.mkdir(parents=True)
    name = f"found_{place.name.replace('-', '_')}"
    (place / f"{name}.py").write_text("def counting():\n    return 1\n")
    monkeypatch.syspath_prepend(place)
    assert is_scripts(importlib.import_module(name).counting) is is_own
