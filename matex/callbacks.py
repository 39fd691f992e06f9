"""Which callbacks run where.

Those that decide about training from its logs, which are equal everywhere, run
on every rank. Those that write or print, and all that a user wrote, run on the
leader; when it dies the next leader's copy is begun and goes on. Two of Keras's own
have a memory or a past: ModelCheckpoint keeps its best value on every rank but
saves on one; what BackupAndRestore restores goes to all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import keras

from matex import horovod, keras_hooks

__all__ = ["EverySide", "OnLeader", "share_out"]


def __getattr__(name: str) -> Any:
    raise AttributeError(horovod.advice(__name__, name))


# What a callback inside Keras must be to run on every rank: it decides, and writes nothing.
_DECIDING = (
    keras.callbacks.EarlyStopping,
    keras.callbacks.History,
    keras.callbacks.LearningRateScheduler,
    keras.callbacks.ReduceLROnPlateau,
    keras.callbacks.SwapEMAWeights,
    keras.callbacks.TerminateOnNaN,
)
_BEGINNINGS = ("on_train_begin", "on_epoch_begin", "on_test_begin")


class OnLeader(keras.callbacks.Callback):
    """Passes every call on while this rank leads.

    A rank that comes to lead first makes the calls that begin the running phase,
    so the inner callback finds the state it expects.

    Args:
        inner: the user's callback.
        leads: whether this rank leads now.
        alone: runs a function with matex out of the way, so that an inner
            ``model.evaluate`` does not wait for ranks that make no such call.
        verbose: what the inner callback sees as fit's ``verbose``.
    """

    def __init__(
        self,
        inner: keras.callbacks.Callback,
        *,
        leads: Callable[[], bool],
        alone: Callable[[Callable[[], None]], None],
        verbose: Any = None,
    ) -> None:
        super().__init__()
        self._inner = inner
        self._leads = leads
        self._alone = alone
        self._verbose = verbose
        self._begun: dict[str, tuple[Any, ...]] = {}
        self._ready = False

    def set_params(self, params: Any) -> None:
        super().set_params(params)
        if self._verbose is not None and params is not None:
            params = {**params, "verbose": self._verbose}
        self._inner.set_params(params)

    def _pass(self, name: str, *args: Any) -> None:
        if name in _BEGINNINGS:
            self._begun[name] = args
        if self._leads():
            self._alone(lambda: self._call(name, *args))
        if name.endswith("_end"):  # after it: a rank that leads only now has not begun the phase
            self._begun.pop(name.replace("_end", "_begin"), None)

    def _call(self, name: str, *args: Any) -> None:
        if not self._ready:
            self._ready = True
            self._inner.set_model(self.model)
            if name != "on_train_begin":
                if isinstance(self._inner, keras.callbacks.CSVLogger):
                    self._inner.append = True  # the last leader's lines stay
                for begun, given in self._begun.items():
                    if begun != name:
                        getattr(self._inner, begun)(*given)
        getattr(self._inner, name)(*args)


def _forwarding(name: str) -> Callable[..., None]:
    def call(self: OnLeader, *args: Any, logs: Any = None) -> None:
        # Keras gives the index, where there is one, first, and logs last or by name.
        wanted = 1 if name.split("_")[1] in ("epoch", "batch") or "batch" in name else 0
        if len(args) <= wanted:
            args = (*args, logs)
        self._pass(name, *args)

    call.__name__ = name
    return call


for _phase in ("train", "test", "predict", "epoch", "batch", "train_batch", "test_batch"):
    for _edge in ("begin", "end"):
        setattr(OnLeader, f"on_{_phase}_{_edge}", _forwarding(f"on_{_phase}_{_edge}"))
for _edge in ("begin", "end"):
    setattr(OnLeader, f"on_predict_batch_{_edge}", _forwarding(f"on_predict_batch_{_edge}"))


class _Unsaving:
    """A model that does not save itself."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def save(self, *_: Any, **__: Any) -> None:
        """Another rank does."""

    save_weights = save

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


class OnEveryRankSavingOnLeader(OnLeader):
    """ModelCheckpoint: compares on every rank, so that the next leader knows the best."""

    def _pass(self, name: str, *args: Any) -> None:
        leads = self._leads()
        self._inner.set_model(self.model if leads else _Unsaving(self.model))
        call = getattr(self._inner, name)
        if leads:
            self._alone(lambda: call(*args))
        else:
            call(*args)


class RestoringOnLeader(OnLeader):
    """BackupAndRestore: the leader reads and writes; what was read goes to every rank.

    Args:
        restored: called on every rank after the leader restored; collective.
    """

    def __init__(self, inner: Any, *, restored: Callable[[], None], **given: Any) -> None:
        super().__init__(inner, **given)
        self._restored = restored

    def _pass(self, name: str, *args: Any) -> None:
        self._inner.set_model(self.model)
        if self._leads():
            self._alone(lambda: getattr(self._inner, name)(*args))
        elif name == "on_train_begin" and not self.model.built:
            self._inner.on_train_begin(*args)  # which says on the leader, too, that it must be
        elif name == "on_epoch_end":
            keras_hooks.follow_backup(self._inner, args[0])
        if name == "on_train_begin":
            self._restored()


class EverySide(keras.callbacks.Callback):
    """Comes last on every rank: after all others have decided, the ranks decide together."""

    def __init__(
        self,
        *,
        after_begin: Callable[[], None],
        after_batch: Callable[[], None],
        after_epoch: Callable[[int, Any], None],
    ) -> None:
        super().__init__()
        self._after_begin = after_begin
        self._after_batch = after_batch
        self._after_epoch = after_epoch

    def on_train_begin(self, logs: Any = None) -> None:
        self._after_begin()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._after_batch()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._after_epoch(epoch, logs)


def share_out(
    callbacks: Any,
    *,
    verbose: Any,
    leads: Callable[[], bool],
    alone: Callable[[Callable[[], None]], None],
    restored: Callable[[], None] = lambda: None,
    last: Iterable[keras.callbacks.Callback] = (),
) -> list[keras.callbacks.Callback]:
    """The list to give to fit or evaluate, with ``verbose=0``, for the user's *callbacks*."""
    given = list(callbacks) if isinstance(callbacks, list | tuple) else [callbacks]
    if callbacks is None:
        given = []

    def placed(callback: keras.callbacks.Callback) -> keras.callbacks.Callback:
        if isinstance(callback, _DECIDING) or getattr(callback, "on_every_rank", False):
            return callback
        if isinstance(callback, keras.callbacks.ModelCheckpoint):
            return OnEveryRankSavingOnLeader(callback, leads=leads, alone=alone)
        if isinstance(callback, keras.callbacks.BackupAndRestore):
            return RestoringOnLeader(callback, restored=restored, leads=leads, alone=alone)
        return OnLeader(callback, leads=leads, alone=alone)

    result = [placed(callback) for callback in given]
    if verbose != 0:
        progress = keras.callbacks.ProgbarLogger()
        result.append(OnLeader(progress, leads=leads, alone=alone, verbose=verbose))
    return [*result, *last]
