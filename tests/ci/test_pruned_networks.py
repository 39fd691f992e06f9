"""``ci.pruning.applications``, on the smallest network that shows each of its two ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.pruning import applications
from ci.pruning.applications import prune_application, prune_own


@pytest.mark.parametrize("name", ["bidirectional LSTM", "text transformer"])
def test_a_network_without_superfluous_units(name: str, tmp_path: Path) -> None:
    outcome = prune_own(name, 0.4, tmp_path)
    assert outcome.problem == "" and 0.35 <= outcome.gone < 0.5
    assert outcome.difference > 1e-3


def test_an_application_loses_what_is_superfluous_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = prune_application("MobileNetV3Small", 0.4, tmp_path)
    assert outcome.problem == "" and 0.4 <= outcome.gone < 0.5
    assert outcome.difference < 1e-9
    monkeypatch.setattr(applications, "with_superfluous_units", lambda built, _: built)
    outcome = prune_application("MobileNetV3Small", 0.4, tmp_path)
    assert "not those of before" in outcome.problem
