"""Errors of reading, as they come out of a tf.data pipeline. Pure."""

from __future__ import annotations

import re

from matex.errors import DataError

__all__ = ["data_error_in"]

# TensorFlow makes an error of its own of what its function in Python raises, with this in its text.
_RAISED = re.compile(rf"\b{DataError.__name__}: (.+)")


def data_error_in(error: BaseException) -> DataError | None:
    """The error of a data file from which the pipeline's *error* comes; None if it is another."""
    found = _RAISED.search(str(error))
    return DataError(found[1].strip()) if found else None
