"""``ci.pruning.applications``, on the smallest network that shows each of its two ways."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest

from ci.pruning import applications, networks
from ci.pruning.applications import prune_application, prune_own


@pytest.mark.parametrize("name", ["bidirectional LSTM", "text transformer"])
def test_a_network_without_superfluous_units(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(networks, "_LENGTH", 6)  # each word costs a step of each LSTM
    outcome = prune_own(name, 0.4, tmp_path)
    assert outcome.problem == "" and 0.35 <= outcome.gone < 0.5
    assert outcome.difference > 1e-3


def test_an_application_loses_what_is_superfluous_and_nothing_else(tmp_path: Path) -> None:
    outcome = prune_application("MobileNetV3Small", 0.4, tmp_path)
    assert outcome.problem == "" and 0.4 <= outcome.gone < 0.5
    assert outcome.difference < 1e-9


def test_what_is_not_superfluous_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def small(_: str) -> networks.Built:
        keras.utils.set_random_seed(3)
        layers = [keras.layers.Dense(32, "relu") for _ in range(2)]
        model = keras.Sequential([keras.Input((8,)), *layers, keras.layers.Dense(4)])
        return networks.Built(model, np.random.default_rng(1).normal(size=(16, 8)))

    monkeypatch.setattr(applications, "application", small)
    assert prune_application("superfluous", 0.4, tmp_path).problem == ""
    monkeypatch.setattr(applications, "with_superfluous_units", lambda built, _: built)
    assert "not those of before" in prune_application("at work", 0.4, tmp_path).problem
