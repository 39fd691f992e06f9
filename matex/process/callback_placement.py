"""The placement of callbacks: on every rank, or on the leader alone.

A user's callbacks are part of the script, so they run on every rank: the data that they collect are
on all ranks after ``fit``, whichever rank died meanwhile, and they change the same things on all
ranks. Keras's callbacks that decide by the logs, which are equal on all ranks, run on all ranks,
too. Keras's callbacks that only write, and any whose class sets ``on_one_rank = True``, run on the
leader; when it dies the next leader's copy is begun and continues, after the end of the epoch or of
the fit that the dead one may have left out. ModelCheckpoint decides on every rank but saves on one.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

import keras

from matex import keras_hooks
from matex.files.private import PrivateFiles
from matex.keras_hooks import batch_counts, early_optimizers
from matex.process.leader_writes import NotedSaves, drop_row, in_order, keeping_rows, lines_written
from matex.process.progress_bar import BesideBar, Nowhere, StreamBeside
from matex.records import console

__all__ = ["AgreementCallback", "LeaderProgressBar", "OnLeader", "placed_callbacks"]

# Those of Keras's that write, send or print, and decide nothing for the training.
_WRITING = (keras.callbacks.CSVLogger, keras.callbacks.RemoteMonitor, keras.callbacks.TensorBoard)
# Packages whose callbacks tell a service or a terminal of the run: once is enough.
_TRACKERS = (
    "aim", "clearml", "comet_ml", "dvclive", "mlflow", "neptune", "swanlab", "tqdm", "wandb",
)  # fmt: skip
_BEGINNINGS = ("on_train_begin", "on_epoch_begin", "on_test_begin")


class OnLeader(keras.callbacks.Callback):
    """Passes every call on while this rank leads.

    A rank that becomes the leader first makes the calls that begin the running phase, so the inner
    callback finds the state it expects.

    Args:
        inner: the callback that was given.
        leads: whether this rank leads now.
        alone: function that runs another one without matex, so that an inner
            ``model.evaluate`` does not wait for ranks that make no such call.
    """

    def __init__(
        self,
        inner: keras.callbacks.Callback,
        *,
        leads: Callable[[], bool],
        alone: Callable[[Callable[[], None]], None],
    ) -> None:
        super().__init__()
        self._inner = self.inner = inner
        self._leads = leads
        self._alone = alone
        self._begun: dict[str, tuple[Any, ...]] = {}
        self._ready = False
        self._left_out: Callable[[], None] | None = None  # at the end of an epoch, or of the fit
        self.resumed: dict[str, int] | None = None  # where an earlier start had begun the fit

    def names(self) -> dict[str, str]:
        """Strings among the callback's attributes, file names included, by attribute."""
        held = vars(self._inner).items()
        return {k: os.fspath(v) for k, v in held if isinstance(v, str | os.PathLike)}

    def set_params(self, params: Any) -> None:
        super().set_params(params)
        self._inner.set_params(params)

    def repeat_if_leading(self) -> None:
        """Write what a leader that died since the last step may not have written. Local."""
        left_out, self._left_out = self._left_out, None
        if left_out is not None and self._leads():
            self._alone(left_out)

    def _pass(self, name: str, *args: Any) -> None:
        if name in _BEGINNINGS:
            self._begun[name] = args
        if self._leads():
            self._alone(lambda: self._call(name, *args))
        elif name == "on_epoch_end":
            self._left_out = lambda: self._end_anew(*args)
        elif name == "on_train_end":
            self._left_out = lambda: self._call(name, *args)
        else:
            batch_counts.count_batch(self._inner, name)
        if name.endswith("_end"):  # after it: a rank that leads only now has not begun the phase
            self._begun.pop(name.replace("_end", "_begin"), None)

    def _end_anew(self, epoch: int, logs: Any) -> None:
        drop_row(self._inner, epoch)
        self._call("on_epoch_end", epoch, logs)

    def _call(self, name: str, *args: Any) -> None:
        if not self._ready:
            self._ready = True
            self._inner.set_model(self.model)
            if name != "on_train_begin":
                with keeping_rows(self._inner), batch_counts.keeping_count(self._inner):
                    for begun in [one for one in self._begun if one != name]:
                        getattr(self._inner, begun)(*self._begun[begun])
            elif self.resumed is not None:
                with keeping_rows(self._inner, **self.resumed):
                    return self._inner.on_train_begin(*args)
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


_PARTS = ("train_batch", "test_batch", "predict_batch")
for _phase in ("train", "test", "predict", "epoch", "batch", *_PARTS):
    for _edge in ("begin", "end"):
        setattr(OnLeader, f"on_{_phase}_{_edge}", _forwarding(f"on_{_phase}_{_edge}"))


class OnEveryRankSavingOnLeader(OnLeader):
    """Runs ModelCheckpoint and similar on every rank: the next leader knows the best value."""

    def _pass(self, name: str, *args: Any) -> None:
        call = getattr(self._inner, name)
        if self._leads():
            self._inner.set_model(self.model)
            self._alone(lambda: call(*args))
            return
        saves = NotedSaves(self.model)
        self._inner.set_model(saves)
        with keras_hooks.saving_nothing(self._inner):
            call(*args)
        if name == "on_epoch_end":
            self._left_out = saves.make


class RestoringOnLeader(OnLeader):
    """Runs BackupAndRestore on the leader; the restored model goes to every rank.

    Args:
        restored: collective function called on every rank with a function that restores this
            rank's model, to be called on the leader.
    """

    def __init__(
        self, inner: Any, *, restored: Callable[[Callable[[], None]], None], **given: Any
    ) -> None:
        super().__init__(inner, **given)
        self._restored = restored

    def _pass(self, name: str, *args: Any) -> None:
        self._inner.set_model(self.model)
        if name == "on_train_begin":
            early_optimizers.now_built(self.model)  # it builds what it reads into
            if not self._leads() and not self.model.built:
                self._inner.on_train_begin(*args)  # which says on the leader, too, that it must be
            self._restored(lambda: self._alone(lambda: self._inner.on_train_begin(*args)))
        elif self._leads():
            self._alone(lambda: getattr(self._inner, name)(*args))
        elif name in ("on_epoch_end", "on_train_batch_end"):
            with keras_hooks.saving_nothing(self._inner):
                getattr(self._inner, name)(*args)
            if name == "on_epoch_end":
                self._left_out = lambda: self._inner.on_epoch_end(*args)
        elif name == "on_train_end":
            self._left_out = lambda: self._inner.on_train_end(*args)


class AgreementCallback(keras.callbacks.Callback):
    """Last callback on every rank: after all others have run, the ranks agree."""

    def __init__(
        self, *, after_begin: Callable[[list[int]], None], after_batch: Callable[[], None],
        after_epoch: Callable[[int, Any], None],
    ) -> None:  # fmt: skip
        super().__init__()
        self._after_begin = after_begin
        self._after_batch = after_batch
        self._after_epoch = after_epoch
        self.on_leader: list[OnLeader] = []

    def resume(self, epoch: int, lines: list[int]) -> None:
        """Go on from *epoch* with CSV files that had so many *lines* before the fit. Local."""
        counts = in_order([each.inner for each in self.on_leader], lines)
        for one, count in zip(self.on_leader, counts, strict=True):
            one.resumed = {"before": epoch, "lines": count}

    def on_train_begin(self, logs: Any = None) -> None:
        self._after_begin(lines_written(one.inner for one in self.on_leader))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._after_batch()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._after_epoch(epoch, logs)
        self.write_left_out()

    def write_left_out(self) -> None:
        """Write what a leader that has died may not have; after the ranks have agreed. Local."""
        for callback in self.on_leader:
            callback.repeat_if_leading()


def _seen_on_leader(name: str) -> Callable[..., None]:
    inherited = getattr(keras.callbacks.ProgbarLogger, name)

    def call(self: LeaderProgressBar, *args: Any, **kwargs: Any) -> None:
        with self.shown():
            inherited(self, *args, **kwargs)

    call.__name__ = name
    return call


class LeaderProgressBar(keras.callbacks.ProgbarLogger):
    """Keras's progress bar, updated on every rank so that the next leader continues it.

    Args:
        leads: whether this rank is the leader now, and so prints the bar.
        beside: text after the metrics on the display only; logs and history lack it.
            None for none.
    """

    def __init__(self, leads: Callable[[], bool], *, beside: BesideBar | None = None) -> None:
        super().__init__()
        self._leads = leads
        self._beside = beside

    def shown(self) -> contextlib.AbstractContextManager[Any]:
        """Context in which output appears as it should on this rank."""
        if not console.is_own("stdout"):  # output that the script captures is there on every rank
            return contextlib.nullcontext()
        if not self._leads():
            return contextlib.redirect_stdout(Nowhere())
        if self._beside is None:
            return contextlib.nullcontext()
        return contextlib.redirect_stdout(StreamBeside(sys.stdout, self._beside))


for _name in vars(keras.callbacks.ProgbarLogger):
    if _name.startswith("on_"):
        setattr(LeaderProgressBar, _name, _seen_on_leader(_name))


def placed_callbacks(
    callbacks: Any,
    *,
    verbose: Any,
    leads: Callable[[], bool],
    alone: Callable[[Callable[[], None]], None],
    restored: Callable[[Callable[[], None]], None] = lambda restore: restore(),
    beside_bar: BesideBar | None = None,
    last: Iterable[AgreementCallback] = (),
    files: PrivateFiles | None = None,
) -> list[keras.callbacks.Callback]:
    """The list to give to fit, evaluate or predict for the user's *callbacks*.

    Args:
        beside_bar: text beside Keras's progress bar; None for none.
        files: files of this rank, which are told of files that the leader's callbacks write.
    """

    def placed(callback: keras.callbacks.Callback) -> keras.callbacks.Callback:
        package = type(callback).__module__.partition(".")[0]
        if getattr(callback, "on_one_rank", package in _TRACKERS) is True:
            return OnLeader(callback, leads=leads, alone=alone)
        if not keras_hooks.is_of_keras(callback):
            return callback
        if keras_hooks.saves_best(callback):
            return OnEveryRankSavingOnLeader(callback, leads=leads, alone=alone)
        if isinstance(callback, keras.callbacks.BackupAndRestore):
            return RestoringOnLeader(callback, restored=restored, leads=leads, alone=alone)
        if isinstance(callback, _WRITING):
            return OnLeader(callback, leads=leads, alone=alone)
        return callback

    given = keras_hooks.listed(callbacks)
    result = [placed(callback) for callback in given]
    on_leader = [callback for callback in result if isinstance(callback, OnLeader)]
    if files is not None:
        called = enumerate(callback.names() for callback in on_leader)
        files.names = {f"{n} {key}": v for n, one in called for key, v in one.items()}
    if verbose != 0 and not any(isinstance(c, keras.callbacks.ProgbarLogger) for c in given):
        result.append(LeaderProgressBar(leads, beside=beside_bar))
    for each in last:
        each.on_leader = on_leader
    return [*result, *last]
