"""``train_on_batch``: the shared step on a batch that the script hands over."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from keras import tree

from matex import keras_hooks
from matex.checkpointing import model_state
from matex.fitting.replica_check import ReplicaCheck
from matex.run.context import RunContext
from matex.run.preemption import leave
from matex.sources.stream import Stream, StreamBatch, digest, flat_signature, leaves_of, rows_in
from matex.steps.engine import Training
from matex.steps.user_code import attempted

__all__ = ["BatchTrainer", "form_of", "tensors_of"]


class _Given:
    """A source of one batch at a time, as it was given. Local."""

    explanation = Stream.explanation

    def __init__(self, form: Any, mark: int) -> None:
        self._form = form
        self._cut: StreamBatch | None = None
        self.signature = flat_signature(form)
        self.built_on = self.as_data(self.signature)
        self.samples: int | None = None
        self.most_rows: int | None = None
        self.num_batches: int | None = None
        self.mark = mark

    def give(self, batch: Any) -> None:
        tensors = [tensor for tensor in tree.flatten(batch) if tensor is not None]
        self.mark = digest(self.mark, tensors, last=False)
        self._cut = StreamBatch(tensors, (0, rows_in(tensors)), self.mark, last=False)

    def next(self) -> StreamBatch | None:
        cut, self._cut = self._cut, None
        return cut

    def as_data(self, batch: Any) -> Any:
        return leaves_of(self._form, batch)

    def reset(self) -> None:
        """Nothing: batches are given, not fetched."""

    def epoch(self, epoch: int, cursor: int, at_once: int) -> Iterator[tuple[int, int]]:
        return iter(())

    def catch_stop_iteration(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def sample(self) -> None:
        """None: nobody joins these steps."""

    def after_step(self, step: int) -> tuple[int, int]:
        return 0, 0

    def report(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        """Nothing: nothing is read ahead."""


class BatchTrainer:
    """The shared steps of one model for one form of batches; collective to make.

    Args:
        number: which of the script's, in the order of first use: ranks that call
            different models are found out.

    Raises:
        NotShareable: the train step cannot be cut.
    """

    def __init__(self, run: RunContext, model: Any, batch: Any, *, number: int) -> None:
        keras_hooks.verify(type(model))
        keras_hooks.refuse(model)
        keras_hooks.refuse_to_cut(model)
        form = tree.map_structure(_specification, batch)
        self._source = _Given(form, number)
        with attempted("the model cannot be built from its data before training"):
            keras_hooks.build(model, self._source.built_on)
        step = Training.new_step(model, self._source)
        model_state.broadcast(run.communicator, model)
        self._run = run
        self._model = model
        self._replicas = ReplicaCheck(run, model, every=run.config.check_every)
        self._training = Training(
            run.communicator,
            model,
            self._source,
            faults=run.faults,
            make_exchange=run.make_exchange,
            first_epoch=0,
            cursor=0,
            on_epoch_start=lambda: None,
            after_step=self._after_step,
            wishes=run.wishes,
            traced=(step, None),
            nonfinite=run.nonfinite,
            stepping=run.stepping,
        )

    def __call__(self, batch: Any) -> dict[str, Any]:
        """One step on *batch*, tensors or None; collective. Its logs."""
        self._source.give(batch)
        return self._training.run()

    def _after_step(self, training: Training) -> None:
        totals = self._run.totals
        totals.samples_expected += training.samples_taken
        self._run.step_done(training.report, model=self._model)
        self._replicas.after_step(training.report, last=False)
        if training.agreed.leave and not self._run.script_leaves:
            leave(self._run, None)


def tensors_of(batch: Any) -> Any:
    """The structure *batch* with tensors or None as leaves."""
    return tree.map_structure(
        lambda leaf: None if leaf is None else tf.convert_to_tensor(leaf), batch
    )


def form_of(batch: Any) -> str:
    """Equal for batches that one traced step can take."""
    return repr(tree.map_structure(_specification, batch))


def _specification(tensor: Any) -> Any:
    if tensor is None:
        return tf.OptionalSpec(None)
    shape = tensor.shape if not tensor.shape.rank else [None, *tensor.shape[1:]]
    return tf.TensorSpec(shape, tensor.dtype)
