"""Cutting removed units out: smaller weights, optimizer slots, symbolic shapes and options.

All changes are in place. The user's ``model`` and its layers stay the same objects, and so do their
``keras.Variable`` objects; a later save, export or summary reads smaller ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from matex import keras_hooks
from matex.apoptosis.graph.network import Binding, Network
from matex.apoptosis.graph.trace import traces

__all__ = [
    "Undo",
    "begin_fit",
    "continues",
    "cut",
    "flops",
    "history_of",
    "note",
    "notes_of",
    "replay",
]

_PREFIX = "apoptosis/"
_NOTES = "apoptosis-notes"


# Function that restores a model after a cut; local, before anything else changes it.
Undo = Callable[[], None]


def cut(model: Any, net: Network, removed: Collection[int], others: Iterable[Binding] = ()) -> Undo:
    """Remove the units whose roots are *removed* from *model*; local, between steps.

    *net* is of this model as it is; trace it again afterwards. Functions traced of the
    model, and of others that share weights with it, are dropped, and a train function is made anew.

    Args:
        others: variables indexed by units that do not belong to the model.

    Returns:
        Function that restores all values, shapes and options (a default may be explicit then).
    """
    bindings = [*net.bindings.values(), *others]
    kept = _kept(net, bindings, removed)
    variables = {id(b.variable): b.variable for b in bindings}
    users = keras_hooks.WeightUsers(model, variables.values())
    resized = [(s.variable, _sliced(s.variable, _slot_cuts(s, kept))) for s in users.slots()]
    resized += [(v, _sliced(v, kept.get(id(v), {}))) for v in variables.values()]
    resized = [(v, value) for v, value in resized if tuple(v.shape) != value.shape]
    before = [(v, np.asarray(v.numpy())) for v, _ in resized]
    remembered = [(v, getattr(v, "matex_kept", {})) for v in variables.values()]
    for variable in variables.values():
        _remember(variable, kept.get(id(variable), {}))
    with users.renewed():
        _resize(resized)
        _resize_rest(net, removed)

    def undo() -> None:
        for variable, indices in remembered:
            variable.matex_kept = indices
        with users.renewed():
            _resize(before)
            _resize_rest(net, removed, all_live=True)

    return undo


def _resize(values: list[tuple[Any, np.ndarray]]) -> None:
    for variable, value in values:
        keras_hooks.resize(variable, value)


def _kept(
    net: Network, bindings: Iterable[Binding], removed: Collection[int]
) -> dict[int, dict[int, np.ndarray]]:
    """Kept indices by axis, for each variable by its id."""
    gone = np.array(sorted(removed), np.int64)
    result: dict[int, dict[int, np.ndarray]] = {}
    for binding in bindings:
        stays = ~np.isin(net.units.roots(binding.units), gone)
        if not stays.all():
            result.setdefault(id(binding.variable), {})[binding.axis] = np.flatnonzero(stays)
    return result


def _slot_cuts(slot: Any, kept: Mapping[int, Mapping[int, np.ndarray]]) -> dict[int, np.ndarray]:
    cuts = kept.get(id(slot.weight), {})
    return {i: cuts[axis] for i, axis in enumerate(slot.axes) if axis in cuts}


def _sliced(variable: Any, cuts: Mapping[int, np.ndarray]) -> np.ndarray:
    value = np.asarray(variable.numpy())
    for axis, indices in cuts.items():
        value = np.take(value, indices, axis)
    return value


def _resize_rest(net: Network, removed: Collection[int], *, all_live: bool = False) -> None:
    """Resize options of layers, symbolic tensors, and the layers' expected inputs.

    With *all_live* they are restored to their state before the *removed* ones were cut.
    """
    gone = np.array(sorted(removed), np.int64)

    def size(units: np.ndarray) -> tuple[int, bool]:
        """New number of *units*, and whether it differs from the old one."""
        left = int(np.count_nonzero(~np.isin(net.units.roots(units), gone)))
        return len(units) if all_live else left, left != len(units)

    for sized in net.sized:
        number, changes = size(sized.units)
        if changes:
            sized.resize(number)
    for tensor, tag in net.tensors.values():
        if tag is None:
            continue
        number, changes = size(tag.units)
        if changes:
            shape = list(tensor.shape)
            shape[tag.axis] = number
            keras_hooks.set_shape(tensor, tuple(shape))
    for call, _ in net.calls:
        keras_hooks.set_input_shapes(call)


def flops(net: Network) -> float:
    """Multiplications and additions per sample in a forward pass, matrices only. Local."""
    return float(sum(2.0 * np.prod(v.shape) * times for v, times in net.work))


# Removed units by variable, so that a checkpoint can be restored to the model as the script
# makes it.


def _remember(variable: Any, cuts: Mapping[int, np.ndarray]) -> None:
    known: dict[int, np.ndarray] = dict(getattr(variable, "matex_kept", {}))
    for axis, indices in cuts.items():
        original = known.get(axis, np.arange(variable.shape[axis]))
        known[axis] = original[indices]
    if known:
        variable.matex_kept = known


def begin_fit(model: Any, *, continues: bool) -> None:
    """Drop the notes of earlier fits of *model*, because a fit of a run begins; local.

    Args:
        model: model of the fit.
        continues: whether the fit goes on from a checkpoint that was made in it.
    """
    note(model, {})
    object.__setattr__(model, "matex_continues", continues)


def continues(model: Any) -> bool:
    """Whether the newest fit of *model* goes on from a checkpoint of its own; local."""
    return bool(getattr(model, "matex_continues", False))


def note(model: Any, notes: dict[str, Any]) -> None:
    """Store *notes*, JSON values, with *model* and its checkpoints; local."""
    object.__setattr__(model, "matex_notes", notes)


def notes_of(model: Any) -> dict[str, Any]:
    """The newest notes, or none; local."""
    return dict(getattr(model, "matex_notes", {}))


def history_of(model: Any, variables: list[Any]) -> dict[str, np.ndarray]:
    """The removals made in *model*, as named arrays for a checkpoint.

    They are the remaining indices of each of *variables*, ``apoptosis/<place>/<axis>`` ->
    original indices, and the notes.
    """
    notes = json.dumps(notes_of(model)).encode()
    own = {_NOTES: np.frombuffer(notes, np.uint8)} if notes_of(model) else {}
    return own | {
        f"{_PREFIX}{place}/{axis}": np.asarray(indices, np.int64)
        for place, variable in enumerate(variables)
        for axis, indices in getattr(variable, "matex_kept", {}).items()
    }


def replay(model: Any, variables: list[Any], history: Mapping[str, np.ndarray]) -> bool:
    """Cut *model*, as made by its script, to the units that *history* keeps; local.

    Kept units have their old values, to be overwritten; *variables* are those of the history, in
    the same order. Returns whether anything was cut.
    """
    if _NOTES in history:
        note(model, json.loads(np.asarray(history[_NOTES]).tobytes()))
    entries = {name: kept for name, kept in history.items() if name.startswith(_PREFIX)}
    if not entries:
        return False
    kept = {
        (id(variables[int(place)]), int(axis)): indices
        for name, indices in entries.items()
        for place, axis in [name.removeprefix(_PREFIX).split("/")]
    }
    known = {id(variable) for variable in variables}
    changed = False
    # Removed units are recorded, not the axis of units: a rule, or a cut, may change that.
    while found := next(
        ((net, d) for net in traces(model) if (d := _all_gone(net, kept, known))), None
    ):
        cut(model, *found)
        changed = True
    return changed


def _all_gone(
    net: Network, kept: Mapping[tuple[int, int], np.ndarray], known: Collection[int]
) -> set[int]:
    """Roots that *kept* removes completely, and that are in *net*.

    Args:
        kept: original indices by the id of a variable and an axis; else all are kept.
        known: ids of the variables that *kept* tells of.
    """
    gone: set[int] = set()
    alive: set[int] = set()
    for (variable, axis), binding in net.bindings.items():
        if variable not in known:
            continue
        now = getattr(binding.variable, "matex_kept", {}).get(axis)
        now = np.arange(binding.variable.shape[axis]) if now is None else now
        stays = np.isin(now, kept.get((variable, axis), now))
        roots = net.units.roots(binding.units)
        gone.update(roots[~stays].tolist())
        alive.update(roots[stays].tolist())
    return gone - alive
