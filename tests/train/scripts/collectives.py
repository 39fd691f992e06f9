"""Calls of matex.allreduce, allgather and broadcast; each rank writes what it got.

It writes before the last sum, and again after it.
"""

import argparse
import json
import os
import signal
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import matex

parser = argparse.ArgumentParser()
parser.add_argument("directory")
parser.add_argument("--die", type=int, help="this rank ends itself before the last sum")
args = parser.parse_args()
me = matex.rank()
path = Path(args.directory, f"{me}.json")


@tf.function
def in_graph(x):
    return matex.allreduce(x * 2.0, op="sum")


class Alone(keras.callbacks.Callback):
    on_one_rank = True
    said = ""

    def on_epoch_end(self, epoch, logs=None):
        try:
            matex.allreduce(1.0)
        except matex.Unsupported as error:
            self.said = str(error)


found = {
    "size": [matex.size(), matex.local_rank(), matex.local_size()],
    "mean": matex.allreduce(np.array([me, 1.0], np.float32)).numpy().tolist(),
    "sum": matex.allreduce([me, 10], op="sum").numpy().tolist(),
    "half": matex.allreduce(tf.constant([0.5 + me], tf.bfloat16)).numpy().astype(float).tolist(),
    "graph": in_graph(tf.constant([1.0 + me])).numpy().tolist(),
    "rows": matex.allgather(np.full((me + 1, 2), me, np.int32)).numpy().tolist(),
    "copy": matex.broadcast(np.array([me, 7])).numpy().tolist(),
    "last": matex.broadcast(float(me), root_rank=matex.size() - 1).numpy().item(),
}
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
alone = Alone()
model.fit(np.ones((8, 2)), np.ones(8), batch_size=8, epochs=1, verbose=0, callbacks=[alone])
found["alone"] = alone.said
found["before"] = matex.allreduce(np.arange(3.0) + me).numpy().tolist()
path.write_text(json.dumps(found))
if me == args.die:
    os.kill(os.getpid(), signal.SIGKILL)
found["after"] = matex.allreduce(np.arange(3.0) + me).numpy().tolist()
path.write_text(json.dumps(found))
