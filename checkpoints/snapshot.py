"""State of a training run to be saved; it contains nothing about ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from checkpoints.dtypes import Array, stored_name
from checkpoints.errors import InvalidSnapshot
from checkpoints.names import name_problem

#: Largest number of dimensions in HDF5.
MAX_DIMENSIONS = 32


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Snapshot:
    """State of training between two steps.

    The mappings keep their order. Arrays are referenced, not copied: they must not change until a
    save has returned. NumPy scalars become arrays of shape ().

    Attributes:
        weights: variables of the model, by path; names may contain "/".
        optimizer: variables of the optimizer (slots, iterations, loss scale), by path.
        cursor: position of training as int64 numbers. `step` (0 to 10**18 - 1) is required, and
            names the file; by convention also `seed`, `fit`, `epoch` and `samples` (used of the
            epoch so far).
        architecture: the model as JSON text; may be empty.
        extra: other arrays, such as the states of metrics.

    Raises:
        InvalidSnapshot: a name, type, shape or number cannot be stored.

    Example:
        >>> kernel = np.zeros((4, 2), np.float32)
        >>> checkpoints.Snapshot(weights={"dense/kernel": kernel}, cursor={"step": 120})
        Snapshot(cursor={'step': 120}, weights=1 arrays, ..., 32 bytes)
    """

    weights: Mapping[str, Array]
    cursor: Mapping[str, int]
    optimizer: Mapping[str, Array] = field(default_factory=dict)
    architecture: str = ""
    extra: Mapping[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for section in ("weights", "optimizer", "extra"):
            arrays = {
                name: _checked_array(section, name, value)
                for name, value in getattr(self, section).items()
            }
            object.__setattr__(self, section, MappingProxyType(arrays))
        cursor = {name: _checked_count(name, value) for name, value in self.cursor.items()}
        object.__setattr__(self, "cursor", MappingProxyType(cursor))
        if not 0 <= cursor.get("step", -1) < 10**18:  # it names the file, in 18 digits
            raise InvalidSnapshot(
                "a cursor with step >= 0, of at most 18 digits, was wanted. "
                f"Received: cursor={cursor}. Add the count of training steps."
            )
        _check_text(self.architecture)

    def __repr__(self) -> str:
        return (
            f"Snapshot(cursor={dict(self.cursor)}, weights={len(self.weights)} arrays, "
            f"optimizer={len(self.optimizer)} arrays, extra={len(self.extra)} arrays, "
            f"{self.nbytes} bytes)"
        )

    @property
    def step(self) -> int:
        """Number of training steps done."""
        return self.cursor["step"]

    @property
    def nbytes(self) -> int:
        """Total size of all arrays, bytes."""
        sections = (self.weights, self.optimizer, self.extra)
        return sum(array.nbytes for section in sections for array in section.values())


def _checked_array(section: str, name: object, value: object) -> Array:
    _check_name(section, name)
    if type(value) not in (np.ndarray, np.memmap) and not isinstance(value, np.generic):
        raise InvalidSnapshot(
            f"a NumPy array was wanted for {section}[{name!r}]. "
            f"Received: {type(value).__name__}. Convert it with numpy.asarray."
        )
    array: np.ndarray[Any, Any] = np.asarray(value)
    if stored_name(array.dtype) is None:
        raise InvalidSnapshot(
            f"numbers or booleans were wanted for {section}[{name!r}]. "
            f"Received: dtype={array.dtype}. Convert it first."
        )
    if array.ndim > MAX_DIMENSIONS:
        raise InvalidSnapshot(
            f"at most {MAX_DIMENSIONS} dimensions were wanted for {section}[{name!r}]. "
            f"Received: ndim={array.ndim}. Reshape it first."
        )
    if array.dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
        raise InvalidSnapshot(
            f"booleans of one byte, 0 or 1, were wanted for {section}[{name!r}]. "
            "Received: others, which were made by a view of other numbers. Compare them with 0."
        )
    return array


def _checked_count(name: object, value: object) -> int:
    _check_name("cursor", name)
    if not isinstance(value, (int, np.integer)) or not -(2**63) <= int(value) < 2**63:
        raise InvalidSnapshot(
            f"an integer of 64 bits was wanted for cursor[{name!r}]. "
            f"Received: {value!r} ({type(value).__name__}). Put other values into extra."
        )
    return int(value)


def _check_name(section: str, name: object) -> None:
    problem = name_problem(name)
    if problem:
        shown = repr(name) if len(repr(name)) < 100 else repr(name)[:97] + "..."
        raise InvalidSnapshot(f"{problem}. Received: {section}[{shown}]. Rename it.")


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise InvalidSnapshot(
            "the architecture as JSON text was wanted. "
            f"Received: {type(text).__name__}. Use json.dumps."
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidSnapshot(
            "an architecture of valid Unicode was wanted. "
            "Received: lone surrogates. Use json.dumps(..., ensure_ascii=True)."
        ) from None
    if "\0" in text:
        raise InvalidSnapshot(
            "an architecture without NUL characters was wanted. "
            "Received: a NUL. Use json.dumps, which escapes them."
        )
