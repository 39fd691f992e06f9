"""A Keras script to which something happens: ranks signal, stop or kill at a given batch."""

import argparse
import errno
import os
import shutil
import signal
import socket
import time
from pathlib import Path

import keras
import numpy as np
import psutil

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--endless", action="store_true")
parser.add_argument("--at", nargs="*", default=[], help="EPOCH:BATCH at which it happens")
parser.add_argument(
    "--what",
    nargs="*",
    default=[],
    help="one for each: a signal and whom it goes to (SIGUSR1:last-rank), VANISH:DIR, FILL:DISK or "
    "EMPTY:DISK",
)
parser.add_argument("--once", type=Path, help="a file that says that it has happened, FILE-1 ...")
args = parser.parse_args()

ROWS, BATCH = 512, 64


def started_by_mpiexec():
    """This rank's process that mpiexec has started: this one, or the one that had it forked."""
    if "PMIX_RANK" not in os.environ:  # MPICH's, which is not forked
        return psutil.Process()
    own = {name: os.environ[name] for name in ("PMIX_NAMESPACE", "PMIX_RANK")}
    processes = psutil.process_iter(["environ", "create_time"])
    found = [p for p in processes if own.items() <= (p.info["environ"] or {}).items()]
    return min(found, key=lambda process: process.info["create_time"])


def supervisor(rank):
    return next(p.pid for p in rank.parents() if p.cmdline()[1:4] == ["-m", "matex", "run"])


def targets(whom):
    import matex

    me, started = psutil.Process(), started_by_mpiexec()
    mpiexec = started.parent()
    rank = matex.rank()  # who asks for it writes the real files
    if whom == "last-rank":
        return [me.pid] if rank == matex.size() - 1 else []
    if whom.startswith("host-"):  # with its daemon
        here = socket.gethostname() == whom[5:]
        return [mpiexec.pid, me.pid] if here else []
    if rank:
        return []
    ranks = [child.pid for child in mpiexec.children() if child.pid != started.pid]
    if whom == "matex-run":
        return [supervisor(started)]
    if whom == "matex-run-twice":
        return [supervisor(started)] * 2  # of which one may swallow the other
    return [*([mpiexec.pid] if whom == "whole-job" else []), *ranks, me.pid]


def fill(disk):
    with Path(disk, "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def send(number, whom, once):
    victims = targets(whom)
    if once and victims:
        once.touch()
    for pid in victims:
        os.kill(pid, getattr(signal, number))


def once_for(place):
    suffix = f"-{place}" if place else ""
    return args.once and args.once.with_name(args.once.name + suffix)


class Happening(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if args.endless:
            time.sleep(0.02)  # which leaves the cores to other tests
        for place, (at, what) in enumerate(zip(args.at, args.what, strict=True)):
            once = once_for(place)
            if f"{self.epoch}:{batch}" != at or (once and once.exists()):
                continue
            kind, _, whom = what.partition(":")
            if kind == "VANISH":
                shutil.rmtree(whom)
            elif kind == "FILL":
                fill(whom)
            elif kind == "EMPTY":
                Path(whom, "filler").unlink()
            else:
                send(kind, whom, once)


keras.utils.set_random_seed(5)
generator = np.random.default_rng(1)
x = generator.normal(size=(ROWS, 8)).astype("float32")
y = (x[:, 0] * x[:, 1] > 0).astype("float32")
layers = keras.layers
model = keras.Sequential([keras.Input((8,)), layers.Dense(16, "relu"), layers.Dense(1, "sigmoid")])
model.compile(keras.optimizers.Adam(3e-3), "binary_crossentropy", metrics=["accuracy"])
# Nothing is an improvement: the rate falls after the third epoch, and the fourth is the last.
deciding = [
    keras.callbacks.ReduceLROnPlateau("loss", factor=0.1, patience=2, min_delta=10),
    keras.callbacks.EarlyStopping("loss", patience=3, min_delta=10, restore_best_weights=True),
]
callbacks = [Happening()] if args.endless else [Happening(), *deciding]
epochs = 100_000 if args.endless else args.epochs
model.fit(
    x, y, batch_size=BATCH, epochs=epochs, verbose=0, callbacks=callbacks,
    validation_data=(x[:100], y[:100]),
)  # fmt: skip
