"""The log of epochs that Keras's CSVLogger writes goes on where the training does."""

from __future__ import annotations

from pathlib import Path

import keras
import pytest

from matex.process.leader_writes import keeping_rows, lines_written

EARLIER = "epoch,loss\n0,0.9\n1,0.8\n2,0.7\n"


@pytest.mark.parametrize(
    ("known", "epoch", "kept"),
    [
        ("0,0.6\n1,0.5\n2,0.4\n", 1, "0,0.6\n"),
        ("0,0.6\n1,0.5\n2,0.4\n", 0, ""),
        ("0,0.6\n1,0.5\n", 2, "0,0.6\n1,0.5\n"),
        ("0,0.6\n1,0.", 1, "0,0.6\n"),
    ],
)
def test_rows_of_repeated_epochs_go_and_those_of_an_earlier_fit_stay(
    known: str, epoch: int, kept: str, tmp_path: Path
) -> None:
    path = tmp_path / "log.csv"
    path.write_text(EARLIER + known)
    log = keras.callbacks.CSVLogger(path)
    with keeping_rows(log, before=epoch):
        log.on_train_begin()
    log.on_epoch_end(epoch, {"loss": 0.1})
    log.on_train_end()
    assert path.read_text().splitlines() == f"{EARLIER}{kept}{epoch},0.1,NA\n".splitlines()
    assert not log.append  # a further fit overwrites the file, as in plain Keras


@pytest.mark.parametrize(("known", "kept"), [("", ""), ("0,0.6\n1,0.5\n", "")])
def test_rows_before_a_fit_stay_that_wrote_none_before_its_checkpoint(
    known: str, kept: str, tmp_path: Path
) -> None:
    path = tmp_path / "log.csv"
    path.write_text(EARLIER)
    log = keras.callbacks.CSVLogger(path)
    (lines,) = lines_written([keras.callbacks.History(), log])
    path.write_text(EARLIER + known)
    with keeping_rows(log, before=0, lines=lines):
        log.on_train_begin()
    log.on_train_end()
    assert path.read_text() == EARLIER + kept


def test_a_log_that_is_not_there_begins(tmp_path: Path) -> None:
    log = keras.callbacks.CSVLogger(tmp_path / "log.csv", separator=";")
    with keeping_rows(log, before=3):
        log.on_train_begin()
    log.on_epoch_end(3, {"loss": 0.1})
    log.on_train_end()
    assert (tmp_path / "log.csv").read_text().split() == ["epoch;loss;val_loss", "3;0.1;NA"]
