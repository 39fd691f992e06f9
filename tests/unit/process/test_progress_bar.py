"""Keras's progress bar on the rank that shows it, with and without words beside it."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout

import keras
import pytest

from matex.process.callback_placement import LeaderProgressBar
from matex.process.progress_bar import BesideBar

BAR = "\x1b[32m"  # colour of its filled part


def printed(bar: keras.callbacks.ProgbarLogger, *, loss: float = 0.25, verbose: int = 1) -> str:
    """The output of *bar* in an epoch of two steps, whose logs stay as they are."""
    logs = {"loss": loss}
    out = io.StringIO()
    with redirect_stdout(out):
        bar.set_params({"verbose": verbose, "epochs": 2, "steps": 2})
        bar.on_train_begin()
        bar.on_epoch_begin(0)
        for batch in range(2):
            bar.on_train_batch_end(batch, logs)
            assert bar.progbar is not None
            bar.progbar._last_update = 0  # however quick the next is
        bar.on_epoch_end(0, logs)
    assert logs == {"loss": loss}
    return out.getvalue()


def without_times(text: str) -> str:
    """*text* without what follows from times: steps back, and spaces where a bar was longer."""
    return re.sub(r" +(?=[\x08\r\n]|$)|\x08+|\d+[mu]?s\b", "", text)


@pytest.mark.parametrize("verbose", [1, 2])
def test_a_bar_that_is_not_on_a_terminal_is_keras_own(verbose: int) -> None:
    plain = printed(keras.callbacks.ProgbarLogger(), verbose=verbose)
    assert without_times(
        printed(LeaderProgressBar(lambda: True), verbose=verbose)
    ) == without_times(plain)


def test_words_stand_behind_the_metrics_of_each_bar() -> None:
    living = iter(["ranks: 3/3", "ranks: 2/3", "ranks: 2/3"])
    beside = BesideBar(lambda: next(living))
    text = printed(LeaderProgressBar(lambda: True, beside=beside))
    first, second, last = text.split("\r\x1b[K")[1:]
    assert first.rstrip("\b").endswith(" - loss: 0.2500 - ranks: 3/3")
    assert second.rstrip("\b").endswith(" - loss: 0.2500 - ranks: 2/3")
    assert last.endswith(" - loss: 0.2500 - ranks: 2/3\n")
    assert text.startswith("Epoch 1/2\n")  # which is no bar


def test_a_bar_that_is_overwritten_stays_within_its_line() -> None:
    """Terminals do not go back to the line above, so a longer one would be left for good."""
    beside = BesideBar(lambda: "ranks: 2/2", columns=60)
    *bars, last = printed(LeaderProgressBar(lambda: True, beside=beside)).split("\r")[1:]
    assert BAR in bars[0]
    assert not any("ranks" in bar for bar in bars)
    assert last.endswith(" - ranks: 2/2\n")


def test_a_rank_that_does_not_lead_shows_nothing() -> None:
    assert printed(LeaderProgressBar(lambda: False, beside=BesideBar(lambda: "ranks: 2/2"))) == ""
