"""Proof of a cut: shapes fit, and outputs equal those with removed units set to zero.

Before a cut the weights that read removed units are zero already, so on a few rows the cut must not
change the outputs. If it does, or the model no longer runs, trains or loads, some rule was wrong
about a layer. Then the whole cut is undone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from matex import keras_hooks
from matex.apoptosis.cut import rebuild
from matex.apoptosis.cut.symbolic import Shapes
from matex.apoptosis.graph.forward import FAILURES
from matex.apoptosis.graph.network import Binding, Network
from matex.apoptosis.peers import Peers
from matex.apoptosis.samples import Sample
from matex.apoptosis.search import Candidate, removed_of

__all__ = ["Probe", "cut_proven"]

# An odd number, which hardly is a width: rows that are taken for units show in the shapes.
_ROWS = 5

# Fraction of an output's norm by which another order of summation may change it.
_ROUNDING = {"float16": 0.05, "bfloat16": 0.2}
_ROUNDING_ELSE = 1e-3


class Probe:
    """Shapes in the current *model*, and its outputs on some rows of *sample*; local.

    Where two passes already differ, as with noise that a layer draws, so much more is allowed.
    """

    def __init__(self, model: Any, sample: Sample) -> None:
        self._model = model
        few = sample.fewer(_ROWS)
        self._inputs = few.batches([(0, few.size)])[0][0]
        self._shapes = Shapes(model)
        self._wanted = self._outputs()
        self._noise = [_distance(a, b) for a, b in zip(self._wanted, self._outputs(), strict=True)]

    def complaint(self, model: Any = None) -> str:
        """Sentence about the first fault of the current model; "" if none. Local.

        Args:
            model: model loaded from its file, to be checked instead.
        """
        if model is None and (wrong := self._shapes.complaint()):
            return wrong
        try:
            outputs = self._outputs(model)
        except FAILURES as error:
            return f"the model fails ({type(error).__name__})"
        shapes = [value.shape for value in self._wanted]
        found = [value.shape for value in outputs]
        if shapes != found:
            return f"the outputs have other shapes ({found} instead of {shapes})"
        for wanted, output, noise in zip(self._wanted, outputs, self._noise, strict=True):
            rounding = _ROUNDING.get(self._model.compute_dtype, _ROUNDING_ELSE)
            norm = float(np.linalg.norm(_numbers(wanted)))
            if _distance(wanted, output) > rounding * norm + 3 * noise:
                return "the model computes something else"
        return ""

    def _outputs(self, model: Any = None) -> list[np.ndarray]:
        outputs = (model or self._model)(self._inputs, training=False)
        return [np.asarray(leaf) for leaf in keras_hooks.flatten(outputs)]


def cut_proven(
    model: Any,
    net: Network,
    some: Sequence[Candidate],
    probe: Probe,
    peers: Peers,
    others: Sequence[Binding] = (),
) -> dict[int, str]:
    """Cut the removed units of *some* from *model*, if it passes *probe*; collective over *peers*.

    Args:
        net: network of the current model.
        probe: made when the work of removed units had been given away.
        others: variables to cut that do not belong to the model.

    Returns:
        Candidates, by number, that cannot be cut, each with the fault. Then nothing has been cut.
        If each can be cut alone, but not all together, these are all of them.
    """
    if unknown := keras_hooks.WeightUsers(model, model.variables).unknown_slot():
        fault = f"the optimizer has {unknown}, which is not known to belong to a weight"
        return {one.number: fault for one in some}
    undo, wrong = _try(model, net, some, probe, peers, others)
    if not wrong:
        return {}
    undo()
    found = {}
    for one in some:
        undo, alone = _try(model, net, [one], probe, peers, others)
        undo()
        if alone:
            found[one.number] = alone
    return found or {one.number: wrong for one in some}


def _try(
    model: Any,
    net: Network,
    some: Sequence[Candidate],
    probe: Probe,
    peers: Peers,
    others: Sequence[Binding],
) -> tuple[rebuild.Undo, str]:
    undo = rebuild.cut(model, net, removed_of(some), others)
    complaint = probe.complaint()
    # One answer for all, that of the leader: a part of the ranks must not cut.
    if not peers.leaders_value(float(bool(complaint))):
        return undo, ""
    return undo, complaint or "the model fails on another rank"


def _numbers(value: np.ndarray) -> np.ndarray:
    return np.nan_to_num(value.astype(np.float64)) if value.dtype.kind in "biuf" else np.zeros(1)


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    if a.shape != b.shape:
        return 0.0
    return float(np.linalg.norm(_numbers(a) - _numbers(b)))
