"""The value in an epoch's logs by which the best checkpoints are kept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from matex.config import Config
from matex.config.monitored import Monitored, monitored
from matex.fitting.fit_state.checkpoint_listener import CheckpointListener
from matex.fitting.listeners import EpochReport


@pytest.mark.parametrize(
    ("text", "name", "sign"),
    [("loss", "loss", 1), ("max:acc", "acc", -1), ("min:loss", "loss", 1), ("a:b", "a:b", 1)],
)
def test_a_name_with_its_sense(text: str, name: str, sign: float) -> None:
    assert monitored(text) == Monitored(name, sign)


@pytest.mark.parametrize("text", ["", "max:", "min:"])
def test_a_name_is_wanted(text: str) -> None:
    with pytest.raises(ValueError):
        monitored(text)


class Told:
    """A run that keeps lines and saves nothing."""

    def __init__(self, **options: Any) -> None:
        self.config = Config(checkpoint="saved", **options)
        self.lines: list[str] = []
        self.terminal = self
        self.steps = SimpleNamespace(faults=SimpleNamespace(at=lambda where: None))
        saver = SimpleNamespace(save=lambda bits, take, patient: None)
        self.saver = saver

    def say_once(self, line: str) -> None:
        if line not in self.lines:
            self.lines.append(line)


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ({"keep_best": 2}, ["val_loss"]),
        ({"keep_best": 2, "monitor": "max:val_acc"}, ["val_acc"]),
        ({"keep_best": 2, "monitor": "max:acc"}, []),
        ({}, []),
    ],
)
def test_epochs_without_it_are_told_of_once(options: dict[str, Any], lines: list[str]) -> None:
    run: Any = Told(**options)
    snapshots: Any = SimpleNamespace(measure=lambda: None)
    unused: Any = None
    listener = CheckpointListener(run, snapshots, restoration=unused, engine=unused)
    logs = {"loss": 0.5, "acc": 0.75}
    for epoch in range(2):
        report = EpochReport(
            epoch=epoch, logs=logs, metrics=logs, digest=0, is_complete=True, is_last=False,
            is_stopped=False, is_short=False,
        )  # fmt: skip
        listener.epoch_done(report)
    assert len(run.lines) == len(lines)
    for line, name in zip(run.lines, lines, strict=True):
        assert f"no epoch without {name} in its logs" in line
        assert "Received: acc, loss; name one of these as monitor" in line
