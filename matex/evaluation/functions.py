"""Functions in place of those that Keras makes for a batch of evaluation or prediction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matex.evaluation.predict import Predicted, joined
from matex.evaluation.rows import RowEvaluation
from matex.evaluation.stream import StreamEvaluation

__all__ = ["predict_function", "test_function"]


def test_function(original: Callable[..., Any], model: Any) -> Callable[..., Any]:
    """Function that evaluates the next batch of an iterator of Keras's, or a shared one. Local."""

    def test(iterator: Any) -> Any:
        if isinstance(iterator, RowEvaluation):
            return iterator.run(model)
        if isinstance(iterator, StreamEvaluation):
            return iterator.run()
        return original(iterator)

    test.original = original  # type: ignore[attr-defined]
    test.whole = {}  # type: ignore[attr-defined]  # its graphs for whole batches, by their form
    test.python = {}  # type: ignore[attr-defined]  # what its graphs for others read, likewise
    return test


def predict_function(original: Callable[..., Any]) -> Callable[..., Any]:
    """Function that predicts a batch of Keras's, or returns a shared prediction. Local."""

    def predict(data: Any) -> Any:
        if isinstance(data[0], Predicted):
            return joined(data)
        return original(data)

    predict.original = original  # type: ignore[attr-defined]
    predict.found = {}  # type: ignore[attr-defined]  # in the graphs of batches, by their form
    return predict
