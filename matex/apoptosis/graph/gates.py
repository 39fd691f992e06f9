"""Gates of units: places where readers read them, as values that nothing else reads."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from matex import keras_hooks
from matex.apoptosis.graph.layer_calls import Call, calls_replaced
from matex.apoptosis.graph.network import Reading
from matex.apoptosis.graph.units import occurrences

__all__ = ["Site", "by_rows", "gated", "of_units", "site_of"]


class Site(NamedTuple):
    """A place where units are read: along *axis* of an argument of the calls of *layer*.

    ``of_state``: whether it is the first state of a cell, and not its input.
    """

    layer: Any
    axis: int
    of_state: bool = False


def site_of(reading: Reading) -> Site:
    """The site of *reading*, at the layer, or the cell in it, that has its kernel.

    A gate of the state of a cell is on all that the cell makes of it, in a GRU also on what it
    hands on to the next step.
    """
    variable = reading.kernel.variable
    if reading.seen is not None:
        for cell in keras_hooks.flat_layers(reading.layer):
            if getattr(cell, "recurrent_kernel", None) is variable:
                return Site(cell, reading.input_axis - 1, of_state=True)
            if getattr(cell, "kernel", None) is variable and cell is not reading.layer:
                return Site(cell, reading.input_axis - 1)
    return Site(reading.layer, reading.input_axis)


@contextlib.contextmanager
def gated(sites: Iterable[Site], own: Callable[[Any], Any]) -> Iterator[dict[Site, list[Any]]]:
    """Collect what is read at *sites*, in the order of the calls.

    Args:
        own: function that makes of a tensor an equal one, which the layer reads in its place.
    """
    seen: dict[Site, list[Any]] = {site: [] for site in sites}

    def noted(site: Site, x: Any) -> Any:
        if not x.dtype.is_floating:
            return x
        seen[site].append(own(x))
        return seen[site][-1]

    def watching(layer: Any, call: Call) -> Call:
        mine = [site for site in seen if site.layer is layer]

        def watched(x: Any, *args: Any, **kwargs: Any) -> Any:
            for site in mine:
                if site.of_state:
                    first, *others = args[0] if isinstance(args[0], list | tuple) else [args[0]]
                    args = ([noted(site, first), *others], *args[1:])
                else:
                    x = noted(site, x)
            return call(x, *args, **kwargs)

        return watched

    with calls_replaced([site.layer for site in seen], watching):
        yield seen


def by_rows(values: np.ndarray, axis: int, count: int) -> np.ndarray:
    """The sums of *values* over all but *axis*, apart for each of *count* rows: (count, units).

    Raises:
        ValueError: the values are not of rows.
    """
    rows = np.moveaxis(values, axis, -1)
    if rows[..., 0].size % count:
        raise ValueError(f"a tensor of shape {values.shape} is not of {count} rows")
    return rows.reshape(count, -1, rows.shape[-1]).sum(1)


def of_units(columns: np.ndarray, roots: np.ndarray, members: np.ndarray) -> np.ndarray:
    """The columns of the units *members*, added where one has several: shape (rows, units).

    Args:
        columns: values for the units *roots*, shape (rows, ...); one may stand for several that
            follow each other in *roots*.
    """
    places = occurrences(roots[:: max(1, len(roots) // columns.shape[1])], members)
    padded = np.hstack([columns, np.zeros((len(columns), 1))])  # -1 is the column of zeros
    result: np.ndarray = padded[:, places].sum(1)
    return result
