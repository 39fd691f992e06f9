"""Kinds of Keras scripts, run one after the other: ``train_kinds.py FOLDER KIND...``.

Each kind starts from the same seed and returns numbers that must not depend on the
number of ranks, and the variables whose bits must be equal on all of them.
"""

import gc
import hashlib
import json
import os
import sys
from pathlib import Path

import keras
from kinds import KINDS

import matex


def digest(variables):
    state = hashlib.blake2b(digest_size=8)
    for variable in variables:
        state.update(variable.numpy().tobytes())
    return state.hexdigest()


def plain(value):
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return float(value)


def main():
    folder, *kinds = sys.argv[1:]
    gc.freeze()  # each clear_session has all objects looked through, of which TensorFlow has most
    for kind in kinds or KINDS:
        keras.backend.clear_session()
        keras.utils.set_random_seed(11)
        numbers, variables = KINDS[kind]()
        outcome = {"numbers": plain(numbers), "weights": digest(variables)}
        path = Path(folder) / f"{kind}-{matex.rank()}.json"
        aside = path.with_suffix(f".{os.getpid()}")
        aside.write_text(json.dumps(outcome))
        aside.replace(path)


main()
