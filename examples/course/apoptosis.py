"""The common parts of the three experiments with apoptosis: options, the callback, the result."""

import argparse
import json
import time
from pathlib import Path

from course import options

MODES = ("conservative", "natural", "aggressive", "adaptive", "none")


def parser(description: str, **defaults) -> options.Parser:
    """The options of the experiments; --mode none trains the twin that keeps its size.

    Args:
        defaults: arguments of options.Parser beside the description.
    """
    made = options.Parser(description, **defaults)
    add = made.add_argument
    add("--mode", choices=MODES, default="adaptive", help="mode of apoptosis")
    add("--criterion", default="gram", help="criterion of the units that die")
    add("--ratio", type=float, help="stop when this share of the parameters is gone")
    add(
        "--every",
        type=options.count,
        help="epochs between events; without it one while they bring much, then two or no more",
    )
    add("--delta", type=float, help="share by which an event may raise the held-out loss")
    add("--json", type=Path, metavar="FILE", help="write results here")
    return made


def fit(model, args: argparse.Namespace, data, *, metric: str, stream=None) -> None:
    """Train *model*, with apoptosis unless the mode is none, and tell what came of it.

    Args:
        data: has x_train, y_train, x_test and y_test: what apoptosis measures and judges on.
        metric: one of the compiled metrics.
        stream: datasets to train on and to validate on, in place of the arrays of *data*.
    """
    import keras

    import matex

    parameters = model.count_params()

    class Clock(keras.callbacks.Callback):
        """Seconds of each epoch, validation and events included."""

        def on_epoch_begin(self, epoch, logs=None):
            self.began = time.perf_counter()

        def on_epoch_end(self, epoch, logs=None):
            epochs.append(time.perf_counter() - self.began)

    epochs: list[float] = []
    callbacks: list[keras.callbacks.Callback] = []
    apoptosis = None
    if args.mode != "none":
        apoptosis = matex.Apoptosis(
            args.mode,
            args.criterion,
            every=args.every or 0,
            delta=0.005 if args.delta is None else args.delta,
            pruning_ratio=args.ratio,
            data=(data.x_train, data.y_train),
            validation_data=(data.x_test, data.y_test),
        )
        callbacks.append(apoptosis)
    started, computed = time.perf_counter(), time.process_time()
    if stream is not None:
        given = {"x": stream[0], "validation_data": stream[1], "shuffle": False}  # it is shuffled
    else:
        given = {"x": data.x_train, "y": data.y_train, "batch_size": args.batch_size}
        given["validation_data"] = (data.x_test, data.y_test)
    history = model.fit(
        **given,
        epochs=args.epochs,
        callbacks=[*callbacks, Clock()],
        verbose=2,
    )
    result = {
        "mode": args.mode,
        "criterion": args.criterion,
        "seed": args.seed,
        "parameters_before": parameters,
        "parameters": model.count_params(),
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - computed,
        "epoch_s": epochs,
        "val_loss": history.history["val_loss"],
        "metric": metric,
        "held_out": history.history[f"val_{metric}"],
        "events": [] if apoptosis is None else apoptosis.events,
    }
    smaller = parameters / model.count_params()
    print(
        f"{smaller:.1f} times fewer parameters, {metric} {result['held_out'][-1]:.4f} "
        f"(best {max(result['held_out']):.4f}), {result['seconds']:.1f} s",
        flush=True,
    )
    if args.json is not None and matex.local_rank() == 0:
        args.json.write_text(json.dumps(result))
