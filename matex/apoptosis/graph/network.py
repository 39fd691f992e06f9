"""A network as seen by apoptosis: units, variables indexed by them, and their readers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from matex.apoptosis.graph.units import Units

__all__ = [
    "OF_OUTPUTS",
    "TIED_BY_ACTIVATION",
    "TIED_BY_SUM",
    "UNKNOWN_ACTIVATION",
    "WEIGHED_ACTIVATION",
    "Binding",
    "Network",
    "Norm",
    "Reading",
    "Sized",
    "Tag",
    "UnitSource",
]

TIED_BY_ACTIVATION = "its activation ties the units together"
TIED_BY_SUM = "it divides by a sum over all units"
UNKNOWN_ACTIVATION = "matex does not know whether its activation works on each unit alone"
WEIGHED_ACTIVATION = "its activation has weights"

# Reasons that are no news of layers that make outputs of the model, which are kept anyhow.
OF_OUTPUTS = (TIED_BY_ACTIVATION, TIED_BY_SUM, UNKNOWN_ACTIVATION, WEIGHED_ACTIVATION)


class Tag(NamedTuple):
    """The units over which axis *axis* of a tensor (the batch is 0) runs.

    ``source`` is the number of the source that alone made it, through linear layers and
    nothing else; ``linear`` whether it scales with its incoming vectors and sign.
    """

    axis: int
    units: np.ndarray
    source: int | None = None
    linear: bool = False


class Binding(NamedTuple):
    """The units over which axis *axis* of a variable runs."""

    variable: Any
    axis: int
    units: np.ndarray


class UnitSource(NamedTuple):
    """Weights that make units: a kernel's axis, and the bias with it."""

    layer: Any
    parts: tuple[Binding, ...]
    units: np.ndarray
    least: int
    """How many of them must stay, at least."""


class Reading(NamedTuple):
    """A kernel that multiplies units.

    ``layer`` is the one whose input shows them along ``input_axis`` (from the end where it is
    negative); ``seen`` makes of that input what the kernel really multiplies, or None where it is
    not multiplied. ``bias``: what can take over a constant.
    """

    layer: Any
    input_axis: int
    input_units: np.ndarray
    kernel: Binding
    bias: Any | None = None
    seen: Callable[[Any], Any] | None = None


class Sized(NamedTuple):
    """Another object whose size is the number of *units*: *resize* is called with it."""

    units: np.ndarray
    resize: Callable[[int], None]


class Norm(NamedTuple):
    """A layer with statistics over several *units*, along its axis number *place*."""

    layer: Any
    place: int
    units: np.ndarray


class Network:
    """The notes that the rules take while a graph is followed. Local.

    Args:
        outer: whether, where an axis of units is split in two, the units along the first stay
            apart, as heads of attention do, and not those along the last; off by default.
    """

    def __init__(self, *, outer: bool = False) -> None:
        self._outer = outer
        self.choices = 0
        """How often units could run along one axis or another."""
        self.units = Units()
        self.bindings: dict[tuple[int, int], Binding] = {}
        self.sources: list[UnitSource] = []
        self.folded: dict[int, Any] = {}
        """Source number -> the BatchNormalization that follows it and nothing else."""
        self.extras: list[Binding] = []
        """Weights beside the sources that define units."""
        self.readings: list[Reading] = []
        self.norms: dict[int, Norm] = {}
        """By the id of the layer, in the order of the graph."""
        self.sized: list[Sized] = []
        self.tensors: dict[int, tuple[Any, Tag | None]] = {}
        self.work: list[tuple[Any, float]] = []
        """Variables and how often a sample is multiplied by each."""
        self.calls: list[tuple[Any, list[Tag | None]]] = []
        """Calls with a tagged input, and the tags of their inputs."""
        self.left_alone: dict[str, str] = {}
        self._known: set[tuple[int, int, int]] = set()

    def bind(self, variable: Any, axis: int, units: np.ndarray) -> Binding:
        """Note that *axis* of *variable* runs over *units*; a shared variable ties its units."""
        key = (id(variable), axis)
        known = self.bindings.setdefault(key, Binding(variable, axis, units))
        if known.units is not units:
            self.units.tie(known.units, units)
        return known

    def bind_fixed(self, variable: Any, axis: int) -> None:
        """Note that *axis* of *variable* runs over kept units, as without a tag.

        A layer that is called on it and, elsewhere, on units has one kernel for both.
        """
        self.bind(variable, axis, self.units.new_fixed(int(variable.shape[axis])))

    def source(
        self, layer: Any, *parts: tuple[Any, int], units: np.ndarray, least: int | None = None
    ) -> int:
        """Note weights that make *units*: (variable, axis) pairs or None; return their number."""
        bound = tuple(
            self.bind(v, axis, _repeated(v, axis, units)) for v, axis in parts if v is not None
        )
        least = _LEAST if least is None else least
        self.sources.append(UnitSource(layer, bound, units, least))
        return len(self.sources) - 1

    def read(self, reading: Reading) -> None:
        """Note a kernel that multiplies units, once for each layer and kernel."""
        kernel = self.bind(*reading.kernel)
        key = (id(reading.layer), id(reading.kernel.variable), reading.kernel.axis)
        if key not in self._known:
            self._known.add(key)
            self.readings.append(reading._replace(kernel=kernel))

    def norm(self, norm: Norm) -> None:
        """Note a layer with statistics over several units; repeated calls tie them."""
        known = self.norms.setdefault(id(norm.layer), norm)
        if known.units is not norm.units:
            self.units.tie(known.units, norm.units)

    def size(self, units: np.ndarray, resize: Callable[[int], None]) -> None:
        """Note a size that must follow the number of *units*."""
        self.sized.append(Sized(units, resize))

    def keep(self, tag: Tag | None, layer: Any = None, why: str = "") -> None:
        """Note that the units of *tag* must be kept; *why*, if *layer* is the cause."""
        if tag is not None:
            self.units.fix(tag.units)
            if layer is not None and why:
                self.left_alone.setdefault(layer.name, f"{type(layer).__name__}: {why}")

    def leave(self, layer: Any, tags: Sequence[Tag | None], why: str) -> None:
        """Note that *layer*'s units, and those of *tags* that it reads, must be kept; *why*."""
        for tag in tags:
            self.keep(tag, layer, why)
        if getattr(layer, "trainable_weights", None):
            self.left_alone.setdefault(layer.name, f"{type(layer).__name__}: {why}")
        for variable in getattr(layer, "weights", ()):
            for axis in range(len(variable.shape)):
                self.bind_fixed(variable, axis)

    def choose(self, axes: Sequence[int]) -> int:
        """Choose the axis of *axes*, ascending, along which units run if each is possible."""
        self.choices += len(axes) > 1
        return axes[0 if self._outer else -1]

    def shape(self, tensor: Any, tag: Tag | None) -> None:
        """Note the tag of a symbolic tensor; a tensor noted again ties its units."""
        if id(tensor) not in self.tensors:
            self.tensors[id(tensor)] = (tensor, tag)
            return
        known = self.tensors[id(tensor)][1]
        if known is None or tag is None or known.axis != tag.axis:
            self.keep(known)
            self.keep(tag)
        else:
            self.units.tie(known.units, tag.units)


# Units that a layer keeps at least, but for the heads of attention.
_LEAST = 8


def _repeated(variable: Any, axis: int, units: np.ndarray) -> np.ndarray:
    """Gates lie side by side: the same units several times along an axis."""
    times = int(variable.shape[axis]) // max(1, len(units))
    return units if times == 1 else np.tile(units, times)
