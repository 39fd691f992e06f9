"""Lines that a fit prints about its events; lasting facts are printed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matex import keras_hooks
from matex.apoptosis import event_text
from matex.apoptosis.outcome import Outcome

__all__ = ["EventPrinter"]


class EventPrinter:
    """Printed and pending lines about one fit of *model*; local.

    Args:
        model: model when the fit begins.
        say: function that prints a line.
        verbose: 0 for no lines, 1 for lines of each event, 2 for a table of its groups, too.
    """

    def __init__(self, model: Any, say: Callable[[str], None], verbose: int) -> None:
        layers = keras_hooks.flat_layers(model)
        self._counts = {layer.name: layer.count_params() for layer in layers if layer.built}
        self._parameters = model.count_params()
        self._class = "" if keras_hooks.is_graph(model) else type(model).__name__
        self._say = say
        self._verbose = verbose
        self._left_alone: set[str] = set()
        self._kept_whole: set[str] = set()
        self._once: set[str] = set()

    def __call__(self, line: str) -> None:
        """Print *line*, unless it is empty or *verbose* is 0."""
        if line and self._verbose:
            self._say(line)

    def once(self, line: str) -> None:
        """Print *line*, unless it has been printed in this fit."""
        if line not in self._once:
            self._once.add(line)
            self(line)

    def event(self, epoch: int, outcome: Outcome, seconds: float) -> None:
        """Print the lines of an event after *epoch* that took *seconds*."""
        news = {n: why for n, why in outcome.left_alone.items() if n not in self._left_alone}
        self._left_alone.update(news)
        for line in event_text.left_alone(news, self._counts, self._parameters):
            self(f"apoptosis leaves alone: {line}")
        self(f"apoptosis after epoch {epoch}: {event_text.line_of(outcome)}; {seconds:.1f} s")
        names, line = event_text.kept_whole(outcome.changes, self._kept_whole)
        self._kept_whole.update(names)
        self(line and f"apoptosis keeps all units of {line}")
        if self._verbose > 1:
            for row in event_text.table_of(outcome.changes, has_loss=outcome.has_loss):
                self(f"  {row}")
        if self._class and outcome.changed:
            self(event_text.made_by_its_class(self._class))
            self._class = ""
