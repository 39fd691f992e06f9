"""State of callbacks from epoch to epoch: Keras's own by name, a user's attributes."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import keras
import numpy as np
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from matex.keras_hooks.batch_counts import BATCH_COUNT
from matex.keras_hooks.callback_state.own_state import own_state, restore_own_state
from matex.keras_hooks.callback_state.stateless import keeps_something
from matex.keras_hooks.log_values import as_json, numbers_in
from matex.replacing import replace

__all__ = [
    "add_epochs",
    "callback_state",
    "history_of",
    "history_passed_over",
    "is_csv_logger",
    "is_of_keras",
    "listed",
    "looks_for_nan",
    "note_epochs",
    "restore_callback_state",
    "saves_best",
    "saving_nothing",
    "sees_test_batches",
    "sees_train_batches",
    "set_history",
]

_LIST = "best_weights"

# On the history of a fit that was begun elsewhere or earlier: the numbers of the epochs before.
_BEFORE = "matex_before"

# Keras 3.12 has none.
_ORBAX: tuple[type, ...] = (
    (keras.callbacks.OrbaxCheckpoint,) if hasattr(keras.callbacks, "OrbaxCheckpoint") else ()
)

_SAVING = ((_ORBAX, "_save_checkpoint"), (keras.callbacks.BackupAndRestore, "_save_model"))

# Where callbacks count batches, for a ``save_freq`` that is a number of these.
_BATCHES = ("_batches_seen_since_last_saving", "_last_batch_seen")

# Class -> attributes: numbers or None, and for EarlyStopping the list of best weights.
_MEMORY: dict[type, tuple[str, ...]] = {
    **dict.fromkeys(_ORBAX, ("best", "_total_batches_seen", *_BATCHES)),
    keras.callbacks.BackupAndRestore: ("_current_epoch", *_BATCHES),
    keras.callbacks.EarlyStopping: ("wait", "stopped_epoch", "best", "best_epoch", _LIST),
    keras.callbacks.ReduceLROnPlateau: ("wait", "cooldown_counter", "best"),
    keras.callbacks.ModelCheckpoint: ("best", *_BATCHES),
    keras.callbacks.TensorBoard: (BATCH_COUNT,),
    keras.callbacks.SwapEMAWeights: ("_ema_weights_in_model",),
}


class _Notes(keras.callbacks.Callback):
    """Hands over the numbers of each epoch."""

    def __init__(self, note: Callable[[dict[str, float]], None]) -> None:
        super().__init__()
        self._note = note

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._note({"epoch": epoch, **numbers_in(logs)})


def note_epochs(note: Callable[[dict[str, float]], None]) -> None:
    """Call *note* with the numbers of each epoch of every fit by plain Keras. Local."""
    original = TensorFlowTrainer.fit
    signature = inspect.signature(original)

    def fit(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        callbacks = given.arguments["callbacks"]
        if not isinstance(callbacks, keras.callbacks.CallbackList):
            callbacks = given.arguments["callbacks"] = listed(callbacks)
        callbacks.append(_Notes(note))
        return original(*given.args, **given.kwargs)

    replace(TensorFlowTrainer, "fit", functools.wraps(original)(fit))


def listed(callbacks: Any) -> list[Any]:
    """List of the *callbacks* of ``fit`` (None, a callback, nested lists, a container)."""
    if callbacks is None:
        return []
    if isinstance(callbacks, keras.callbacks.CallbackList):
        return list(callbacks.callbacks)
    return [callback for callback in keras.tree.flatten(callbacks) if callback is not None]


def is_of_keras(callback: Any) -> bool:
    """Whether the class of *callback* is Keras's own, not a user's subclass."""
    return type(callback).__module__.partition(".")[0] == "keras" and not isinstance(
        callback, keras.callbacks.LambdaCallback
    )


def sees_test_batches(callback: Any) -> bool:
    """Whether *callback*, a user's, does something before or after each batch of an evaluation."""
    return _sees(callback, "on_test_batch")


def sees_train_batches(callback: Any) -> bool:
    """Whether *callback*, a user's, does something before or after each batch of training."""
    return _sees(callback, "on_train_batch", "on_batch")


def _sees(callback: Any, *stems: str) -> bool:
    if is_of_keras(callback):
        return False
    methods = [
        getattr(callback, f"{stem}_{edge}", None) for stem in stems for edge in ("begin", "end")
    ]
    return not all(getattr(method, "_is_default", False) for method in methods)


def is_csv_logger(callback: Any) -> bool:
    """Whether *callback* writes the logs of epochs as rows of a CSV file."""
    return isinstance(callback, keras.callbacks.CSVLogger)


def saves_best(callback: Any) -> bool:
    """Whether *callback* tracks a best value to decide about saving the model."""
    return isinstance(callback, (keras.callbacks.ModelCheckpoint, *_ORBAX))


@contextlib.contextmanager
def saving_nothing(callback: Any) -> Iterator[None]:
    """Inside, BackupAndRestore and OrbaxCheckpoint decide and count, but write nothing.

    Other callbacks are as ever.
    """
    saving = [name for kinds, name in _SAVING if isinstance(callback, kinds)]
    for name in saving:
        setattr(callback, name, lambda *args, **kwargs: None)
    try:
        yield
    finally:
        for name in saving:
            delattr(callback, name)


def callback_state(callbacks: Iterable[Any]) -> dict[str, np.ndarray]:
    """Copies of the state of *callbacks*, by name; local.

    Of a user's callback these are its attributes: see
    :mod:`matex.keras_hooks.callback_state.own_objects`.
    """
    callbacks = list(callbacks)
    found: dict[str, np.ndarray] = {}
    for name, callback, attributes in _deciding(callbacks):
        for attribute in attributes:
            value = getattr(callback, attribute, None)  # some are made when training begins
            if attribute == _LIST:
                parts = {f"{_LIST}/{i}": np.array(part) for i, part in enumerate(value or ())}
            else:
                parts = {} if value is None else {attribute: np.array(value)}
            found.update((f"{name}/{key}", array) for key, array in parts.items())
    found.update(own_state(callbacks))
    return found


def restore_callback_state(
    callbacks: Iterable[Any],
    memory: Mapping[str, np.ndarray],
    *,
    keeping: Callable[[Any], bool] = lambda value: False,
    as_scripted: bool = False,
) -> list[str]:
    """Restore the state of callbacks of the same kinds in the same order; local.

    State without a counterpart in *memory* is left unchanged. Returned are words for what of the
    users' callbacks begins anew.

    Args:
        keeping: whether a present value of a user's callback is left unchanged, too. By default
            none is.
        as_scripted: whether settings of a user's callback, which training has not changed, are
            left unchanged. By default they are not.
    """
    callbacks = list(callbacks)
    for name, callback, attributes in _deciding(callbacks):
        mine = {
            key[len(name) + 1 :]: value
            for key, value in memory.items()
            if key.startswith(f"{name}/")
        }
        for attribute in attributes:
            if attribute in mine:
                setattr(callback, attribute, mine[attribute].item())
        weights = [mine[key] for key in mine if key.startswith(f"{_LIST}/")]
        if weights:
            setattr(callback, _LIST, weights)
    anew = restore_own_state(callbacks, memory, keeping=keeping, as_scripted=as_scripted)
    told = (one for one in callbacks if isinstance(one, keras.callbacks.LambdaCallback))
    if any(keeps_something(value) for one in told for value in vars(one).values()):
        anew.append("what functions of LambdaCallback keep")
    return anew


def looks_for_nan(callbacks: Any) -> bool:
    """Whether the *callbacks* of fit, in any form, end training at a NaN; local."""
    return any(isinstance(one, keras.callbacks.TerminateOnNaN) for one in listed(callbacks))


def history_of(model: Any, *, ended: tuple[int, Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """The logs of the running fit's epochs so far, fit for JSON; local.

    Args:
        ended: an epoch and its logs that Keras is about to record.
    """
    history = model.history
    logs = {name: [as_json(value) for value in values] for name, values in history.history.items()}
    epochs = _epochs(history)
    if ended is not None:
        epochs.append(ended[0])
        for name, value in ended[1].items():
            logs.setdefault(name, []).append(as_json(value))
    return {"epoch": epochs, "logs": logs}


def history_passed_over(model: Any, told: Mapping[str, Any] | None = None) -> Any:
    """The history of *model*, as of a fit that is passed over; local.

    Args:
        told: history from :func:`history_of`; None, the default, for one without epochs.
    """
    history = model.history = keras.callbacks.History()
    if told is not None:
        history.history = {name: list(values) for name, values in told["logs"].items()}
        history.epoch = list(told["epoch"])
    return history


def set_history(model: Any, told: Mapping[str, Any]) -> None:
    """Set the running fit's history to *told*, from :func:`history_of`; local.

    Keras forgets their numbers when training begins: see :func:`add_epochs`.
    """
    model.history.history = {name: list(values) for name, values in told["logs"].items()}
    setattr(model.history, _BEFORE, list(told["epoch"]))


def add_epochs(model: Any) -> None:
    """Prepend the epochs of :func:`set_history`, if any, to the fit's history; local."""
    history: Any = getattr(model, "history", None)
    if hasattr(history, _BEFORE):
        history.epoch = _epochs(history)
        delattr(history, _BEFORE)


def _epochs(history: Any) -> list[int]:
    # Keras's own have none before training begins.
    return [*getattr(history, _BEFORE, ()), *getattr(history, "epoch", ())]


def _deciding(callbacks: Iterable[Any]) -> Iterable[tuple[str, Any, tuple[str, ...]]]:
    counts: dict[str, int] = {}
    for callback in callbacks:
        for kind, attributes in _MEMORY.items():
            if isinstance(callback, kind):
                number = counts[kind.__name__] = counts.get(kind.__name__, -1) + 1
                yield f"{kind.__name__}-{number}", callback, attributes
