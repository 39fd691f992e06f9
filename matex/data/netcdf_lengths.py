"""Variables of netCDF-4 that are shorter than their unlimited dimensions.

Such a dimension is as long as the longest variable along it, of any type and in any group (NetCDF
Users Guide, "Unlimited dimensions"). HDF5 stores the written part of each variable; for the rest
the netCDF library returns the fill value.
"""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np

from matex.data.rows import Rows

__all__ = ["FilledUp", "shape_by_dimensions"]


class FilledUp(Rows):
    """Rows extended by a fill value where nothing was stored.

    Args:
        stored: rows with at least one axis; the beginning of the result along each axis.
        shape: shape of the result, along no axis shorter.
        fill: value in the dtype of *stored*.
    """

    def __init__(self, stored: Rows, shape: tuple[int, ...], fill: Any) -> None:
        self._stored = stored
        self._fill = fill
        self.shape = shape
        self.dtype = stored.dtype
        self.costly = stored.costly

    def rows(self, indices: np.ndarray) -> np.ndarray:
        found = np.full((len(indices), *self.shape[1:]), self._fill, self.dtype)
        there = np.flatnonzero(indices < len(self._stored))
        inner = [slice(length) for length in self._stored.shape[1:]]
        key: tuple[Any, ...] = (there, *inner)
        found[key] = self._stored.rows(indices[there])
        return found


def shape_by_dimensions(dataset: h5py.Dataset) -> tuple[int, ...]:
    """Shape of a netCDF-4 variable by its dimensions, at least as large as the stored one.

    A variable with the name of a dimension has it as its first one, and its other dimensions are
    not
    recorded: they keep their stored size.

    Raises:
        OSError, RuntimeError, ValueError, KeyError: the description of its dimensions is damaged.
    """
    if None not in dataset.maxshape:
        return dataset.shape
    shape = list(dataset.shape)
    for axis, most in enumerate(dataset.maxshape):
        scales = [dataset] if dataset.is_scale and not axis else dataset.dims[axis].values()
        if most is None:
            shape[axis] = max([shape[axis], *(_length(scale) for scale in scales)])
    return tuple(shape)


def _length(scale: h5py.Dataset) -> int:
    """Length of the longest variable along the dimension *scale*."""
    lengths = [scale.shape[0]] if scale.shape else [0]
    for reference, axis in scale.attrs.get("REFERENCE_LIST", ()):
        variable = scale.file[reference]
        if isinstance(variable, h5py.Dataset) and 0 <= axis < len(variable.shape or ()):
            lengths.append(variable.shape[axis])
    return max(lengths)
