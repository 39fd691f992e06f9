"""The callback of apoptosis: its arguments, and what Keras calls."""

from __future__ import annotations

import math
from typing import Any

import keras

from matex import keras_hooks
from matex.apoptosis.arguments import check_arguments, named
from matex.apoptosis.fit_apoptosis import ApoptosisSettings, FitApoptosis
from matex.apoptosis.schedule import MODES
from matex.apoptosis.trial import Options

__all__ = ["Apoptosis"]


class Apoptosis(keras.callbacks.Callback):
    """Removes redundant units of a model while it trains (arXiv:1610.00790).

    ``model.fit(..., callbacks=[matex.Apoptosis()])``: at ends of epochs units whose work
    the others can take over are removed; layers, weights, optimizer slots and steps really
    become smaller, the same ``fit`` goes on, and ``model`` is the smaller model afterwards.
    Works in one process and under ``matex run`` on any number of ranks. Every fit begins anew:
    its thresholds, its schedule and the size that shares count from are its own.

    Args:
        mode: ``conservative``, ``natural``, ``aggressive``, or ``adaptive``, the default, which
            raises and lowers its threshold by the held-out loss.
        criterion: ``gram``, the default, ``projection``, ``similarity``, ``angle``; ``taylor`` and
            ``oba``, which ask the loss; ``magnitude`` and ``random`` are baselines.
        first_epoch, last_epoch: epochs, counted from 1, at whose ends events may happen;
            by default the second, and two before the last.
        every: epochs from one event to the next. 0, the default, for one while events take 30 %
            or more of the parameters, and then two; of a model so small that its steps would be
            no faster no event follows the first that takes less, unless there is a
            *pruning_ratio*.
        pruning_ratio: fraction of *target* after whose removal events end, between 0 and 1; no
            limit by default.
        target: ``parameters``, the default, or ``flops``.
        exclude: names of layers whose units are kept; none by default.
        delta: rise of the held-out loss, as a fraction of a scale between it and the untrained
            network's, that an event may cost, 0.005 by default. An event that costs more, and
            more than a part of what the last epoch gained, is tried with less or rolled back.
            None for no limit.
        data: ``(x, y)``, rows to measure activations on; by default some of fit's.
        validation_data: ``(x, y)``, rows for the held-out loss; by default some of fit's
            validation data, else of its training data.
        samples: largest number of rows for either, 2048 by default.
        seed: seed of the ``random`` criterion, 0 by default.
        verbose: 0 for no lines; 1, the default, for one with totals of each event; 2 for a table of
            its groups of units, too.

    Raises:
        InputError: an argument is wrong.

    Attributes:
        events: record of each event, a dict for the report.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(256, 4)), rng.normal(size=(256, 1))
        >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(16, "relu"),
        ...                           keras.layers.Dense(1)])
        >>> model.compile("adam", "mse")
        >>> apoptosis = matex.Apoptosis("aggressive", verbose=0)
        >>> history = model.fit(x, y, batch_size=64, epochs=4, verbose=0, callbacks=[apoptosis])
        >>> model.count_params() <= 97
        True
    """

    def __init__(
        self,
        mode: str = "adaptive",
        criterion: str = "gram",
        *,
        first_epoch: int = 2,
        last_epoch: int | None = None,
        every: int = 0,
        pruning_ratio: float | None = None,
        target: str = "parameters",
        exclude: tuple[str, ...] | list[str] = (),
        delta: float | None = 0.005,
        data: tuple[Any, ...] | None = None,
        validation_data: tuple[Any, ...] | None = None,
        samples: int = 2048,
        seed: int = 0,
        verbose: int = 1,
    ) -> None:
        super().__init__()
        check_arguments(
            mode=mode,
            criterion=criterion,
            target=target,
            pruning_ratio=pruning_ratio,
            first_epoch=first_epoch,
            samples=samples,
            every=every,
        )
        self._settings = ApoptosisSettings(
            mode=MODES[mode],
            options=Options(criterion=criterion, exclude=tuple(exclude), seed=seed),
            first_epoch=first_epoch,
            last_epoch=last_epoch,
            every=every,
            pruning_ratio=pruning_ratio,
            target=target,
            delta=delta,
            data=named(data),
            validation_data=named(validation_data),
            samples=samples,
            verbose=verbose,
        )
        self._fit: FitApoptosis | None = None
        self.events: list[dict[str, Any]] = []
        keras_hooks.watch_fits()

    def on_train_begin(self, logs: Any = None) -> None:
        """Begin a fit; called by Keras, see :class:`keras.callbacks.Callback`."""
        epochs = self.params["epochs"]
        self._fit = FitApoptosis(self.model, self._settings, epochs, self.events.append)

    def read_notes(self) -> None:
        """Continue this fit from the notes that were saved with the model during it. Local."""
        if self._fit is not None:
            self._fit.read_notes()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Begin an epoch; called by Keras, see :class:`keras.callbacks.Callback`."""
        if self._fit is not None:
            self._fit.epoch_begins(epoch)

    def on_test_begin(self, logs: Any = None) -> None:
        """Begin a validation; called by Keras, see :class:`keras.callbacks.Callback`."""
        if self._fit is not None:
            self._fit.training_ends()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Hold an event if one is due; called by Keras, see :class:`keras.callbacks.Callback`."""
        if self._fit is not None:
            self._fit.epoch_ends(epoch, float((logs or {}).get("loss", math.nan)))

    def on_train_end(self, logs: Any = None) -> None:
        """End a fit; called by Keras, see :class:`keras.callbacks.Callback`."""
        keras_hooks.forget_fit()
