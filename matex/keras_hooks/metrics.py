"""Metrics of a user's train step, observed while it is traced."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
from keras.src.backend.common.masking import get_keras_mask
from keras.src.losses.loss import apply_mask

__all__ = [
    "FlatLogs",
    "Results",
    "as_returned",
    "flat_logs",
    "names_by_function",
    "names_of",
    "recorded_results",
    "replaced_methods",
    "weighted_batch_metrics",
]


def flat_logs(logs: Mapping[str, Any]) -> dict[str, Any]:
    """Without mappings inside, as Keras hands logs to callbacks."""
    flat: dict[str, Any] = {}
    for name, value in logs.items():
        flat |= flat_logs(value) if isinstance(value, Mapping) else {name: value}
    return flat


class FlatLogs(dict[str, Any]):
    """Logs without mappings inside, and the names of those that a step returned.

    Args:
        logs: logs by name.
        names: name of each log, or a mapping of such, as the step returned them.
    """

    def __init__(self, logs: Mapping[str, Any], names: Mapping[str, Any]) -> None:
        super().__init__(logs)
        self.names = names


def names_of(logs: Mapping[str, Any]) -> dict[str, Any]:
    """The names in *logs*, in mappings like theirs."""
    return {n: names_of(value) if isinstance(value, Mapping) else n for n, value in logs.items()}


def as_returned(logs: Mapping[str, Any]) -> dict[str, Any]:
    """The *logs* with mappings inside, where the step returned such.

    Keras's fit and evaluate take a step's logs for results of the metrics, and compute these anew,
    if they have the same names.
    """
    if not isinstance(logs, FlatLogs):
        return dict(logs)

    def filled(names: Mapping[str, Any]) -> dict[str, Any]:
        return {
            n: filled(each) if isinstance(each, Mapping) else logs[n] for n, each in names.items()
        }

    return filled(logs.names)


class Results:
    """Mapping of tensors to the metrics whose results they are. Local."""

    def __init__(self) -> None:
        self._noted: dict[int, tuple[Any, Any, str | None]] = {}

    def note(self, metric: Any, result: Any) -> None:
        """Note *result*, which *metric* just gave: a tensor, or tensors by name."""
        by_name = flat_logs(result) if isinstance(result, Mapping) else {None: result}
        for name, tensor in by_name.items():
            self._noted[id(tensor)] = (tensor, metric, name)  # held, so that its id stays its own

    @property
    def are_known(self) -> bool:
        """Whether a metric has returned a result."""
        return bool(self._noted)

    def source_of(self, tensor: Any) -> tuple[Any, str | None] | None:
        """Metric that returned *tensor*, and its name there; None for other tensors."""
        noted = self._noted.get(id(tensor))
        return None if noted is None else noted[1:]

    @staticmethod
    def now(source: tuple[Any, str | None]) -> Any:
        """Result of *source* by its metric's current state."""
        metric, name = source
        result = metric.result()
        return result if name is None else flat_logs(result)[name]


@contextlib.contextmanager
def recorded_results(model: Any) -> Iterator[Results]:
    """Context of a step of *model* that records the results of its metrics."""
    results = Results()

    def noting(metric: Any) -> Callable[[], Any]:
        original = metric.result

        def result() -> Any:
            value = original()
            results.note(metric, value)
            return value

        return result

    with replaced_methods(model.metrics, "result", noting):
        yield results


@contextlib.contextmanager
def weighted_batch_metrics(
    model: Any,
    weight: Callable[[], Any],
    unweighted: list[bool] | None = None,
    rows: int | None = None,
) -> Iterator[None]:
    """Context of a step of *model* in which metrics of whole-batch values are weighted.

    Each rank has a part of a batch, so ``update_state(loss)``, or a function of the script's that
    returns one number for the batch, counts that part of one.

    Args:
        weight: function that returns the scalar weight of such an update.
        unweighted: flags of the updates by scalars, in the order of the trace: whether it was given
            no weight. The list is filled, or used in a graph for a known number of rows, where
            Keras gives its losses that number as weight. None by default, for no such graph.
        rows: number of rows, if the graph is for that number alone; None by default.
    """
    known = iter(list(unweighted or ())) if rows is not None else None
    if unweighted is not None and known is None:
        unweighted.clear()

    def has_none(sample_weight: Any) -> bool:
        found = sample_weight is None
        if known is not None:
            found = next(known, found)
        elif unweighted is not None:
            unweighted.append(found)
        return found

    def weighing(metric: Any, original: Callable[..., Any] | None = None) -> Callable[..., Any]:
        original = original or metric.update_state

        def update_state(values: Any, sample_weight: Any = None) -> Any:
            if len(keras.ops.shape(values)) == 0 and has_none(sample_weight):
                sample_weight = keras.ops.cast(weight(), metric.dtype)
            return original(values, sample_weight=sample_weight)

        return update_state

    def weighing_function(metric: Any) -> Callable[..., Any]:
        update = weighing(metric, functools.partial(keras.metrics.Mean.update_state, metric))

        def update_state(y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
            weights = apply_mask(sample_weight, get_keras_mask(y_pred), metric.dtype, "sum")
            return update(metric._fn(y_true, y_pred, **metric._fn_kwargs), weights)

        return update_state

    plain = (keras.metrics.Mean.update_state, keras.metrics.Sum.update_state)
    some = [metric for metric in model.metrics if type(metric).update_state in plain]
    with (
        replaced_methods(some, "update_state", weighing),
        replaced_methods(_means_of_functions(model), "update_state", weighing_function),
    ):
        yield


def _compiled(model: Any) -> list[Any]:
    """Metrics given to ``compile``."""
    return list(getattr(getattr(model, "_compile_metrics", None), "metrics", ()))


def _means_of_functions(model: Any) -> list[Any]:
    """Metrics that are means of what a function of targets and outputs returns.

    For outputs of shape ``(rows,)`` Keras's functions return one number for the batch.
    """
    wrapper = keras.metrics.MeanMetricWrapper
    metrics = (*model.metrics, *_compiled(model))
    of_functions = (metric for metric in metrics if isinstance(metric, wrapper))
    return [each for each in of_functions if type(each).update_state is wrapper.update_state]


def names_by_function(model: Any) -> dict[int, str]:
    """Names of the states of metrics of functions, by identity of the variables."""
    return {
        id(variable.value): f"{metric.name}/{variable.name}"
        for metric in _compiled(model)
        if type(metric) is keras.metrics.MeanMetricWrapper
        for variable in metric.variables
    }


@contextlib.contextmanager
def replaced_methods(objects: list[Any], name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """Context in which each of *objects* has its own method *name* instead of its class's."""
    with contextlib.ExitStack() as stack:
        for each in {id(each): each for each in objects}.values():
            # Past Keras's own attributes, which would look for variables in it.
            object.__setattr__(each, name, make(each))
            stack.callback(object.__delattr__, each, name)
        yield
