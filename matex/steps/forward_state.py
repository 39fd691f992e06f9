"""Variables that a forward pass changes, and how their changes are combined over ranks.

* metric states start from zero in every contribution: their values
  afterwards are the increments, which are summed;
* BatchNorm statistics and other floating point variables change by the mean over
  the samples of the step;
* integer counters change by the same amount on all ranks, so the mean is that change;
* seeds of random layers likewise: all ranks continue the same sequence, of which each draws the
  numbers of its own rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from matex import keras_hooks
from matex.errors import NotShareable
from matex.exchange.layout import Segment, segment_of
from matex.keras_hooks.metrics import names_by_function

__all__ = ["ForwardState"]


class ForwardState:
    """Graph-building helpers for the variables that a model's forward pass changes. Local.

    ``others`` are the model's variables that the forward pass does not change: weights.
    """

    def __init__(self, model: Any) -> None:
        sums, seeds = keras_hooks.metric_variables(model), keras_hooks.seed_variables(model)
        changing = keras_hooks.changing_variables(model)
        self._model = model
        self._names = {id(v.value): v.path for v in (*sums, *seeds, *changing)}
        self._names |= names_by_function(model)
        self._sums = [v.value for v in sums]
        self._seeds = [v.value for v in seeds]
        known = {id(v) for v in (*self._sums, *self._seeds)}
        self._means = [v.value for v in changing if id(v.value) not in known]
        self.others = [v for v in model.variables if id(v.value) not in self._names]
        self._goes_on = False
        for variable in self._means:
            if not (variable.dtype.is_floating or variable.dtype.is_integer):
                raise NotShareable(
                    "variables that change in the forward pass must be numbers. "
                    f"Received: {variable.name} of dtype {variable.dtype.name}"
                )

    @property
    def _averaged(self) -> list[Any]:
        return [*self._means, *self._seeds]

    @property
    def seeds(self) -> list[Any]:
        """Seeds of random layers."""
        return self._seeds

    @property
    def sums(self) -> list[Any]:
        """Metric states, which start from zero in every contribution."""
        return self._sums

    @contextlib.contextmanager
    def going_on(self, goes_on: bool = True) -> Iterator[None]:
        """Context of a run or trace in which metrics continue from their values, if *goes_on*."""
        self._goes_on = goes_on
        try:
            yield
        finally:
            self._goes_on = False

    def save(self) -> list[Any]:
        """Values before the forward pass."""
        return [tf.identity(v) for v in (*self._averaged, *self._sums)]

    def prepare(self) -> None:
        """Set the variables for the forward pass."""
        for variable in [] if self._goes_on else self._sums:
            variable.assign(tf.zeros_like(variable))

    def changes(self, saved: list[Any]) -> tuple[list[Any], list[Any]]:
        """Changes to be averaged and increments to be summed; called after the forward pass.

        Raises:
            NotShareable: a metric made variables in it, whose increments nobody would sum.
        """
        self._check_metrics()
        now = [tf.identity(v) for v in (*self._averaged, *self._sums)]
        count = len(self._averaged)
        changed = saved if self._goes_on else saved[:count]
        changes = [value - before for value, before in zip(now, changed, strict=False)]
        return changes[:count], changes[count:] or now[count:]

    def _check_metrics(self) -> None:
        """Check that metrics have no other variables than before.

        Raises:
            NotShareable: they have; the others are as if nothing had been counted.
        """
        known = {id(variable) for variable in self._sums}
        made = [v for v in keras_hooks.metric_variables(self._model) if id(v.value) not in known]
        for variable in made:
            variable.assign(tf.zeros_like(variable.value))
        if made:
            paths = ", ".join(variable.path for variable in made)
            raise NotShareable(f"a metric makes variables while the model trains ({paths})")

    @contextlib.contextmanager
    def undone_on_error(self, saved: list[Any]) -> Iterator[None]:
        """Context of a forward pass whose failure leaves the *saved* values in place.

        One that runs eagerly has changed some of them by then.
        """
        try:
            yield
        except BaseException:
            self.restore(saved)
            raise

    def restore(self, saved: list[Any]) -> list[Any]:
        """Restore the *saved* values; return the operations that do so."""
        variables = (*self._averaged, *self._sums)
        return [v.assign(before) for v, before in zip(variables, saved, strict=True)]

    def segments(self) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
        """Segments *means* and *sums* of the layout."""
        names = self._names
        return (
            tuple(segment_of("change of", v, names[id(v)]) for v in self._averaged),
            tuple(segment_of("increment of", v, names[id(v)]) for v in self._sums),
        )

    def add(self, averaged: list[Any], sums: list[Any]) -> None:
        """Apply exchanged changes, given as flat vectors, in the layout's order."""
        for variable, change in zip(
            (*self._averaged, *self._sums), (*averaged, *sums), strict=True
        ):
            shaped = tf.reshape(change, variable.shape)
            if variable.dtype.is_integer:
                shaped = tf.cast(tf.round(shaped), tf.int64)
            # Arithmetic instead of assign(shaped), which would alias the exchange's buffer.
            variable.assign(variable + tf.cast(shaped, variable.dtype))
