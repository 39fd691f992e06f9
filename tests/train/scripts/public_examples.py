"""Runs the examples in the docstrings of matex's public names, on this rank, with the others."""

from __future__ import annotations

import ast
import doctest
import sys
import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import checkpoints
import matex
import matex.optimizers
from ci.jobs import ROOT
from ci.testing.public_names import public_names
from matex import data

given = {
    "checkpoints": checkpoints, "data": data, "keras": keras, "matex": matex, "np": np,
    "Path": Path, "tempfile": tempfile, "tf": tf, "world_size_at_start": 2,
}  # fmt: skip
failures = 0
ran = []
for public in public_names(ROOT):
    if not public.package.startswith("matex"):
        continue
    text = ast.get_docstring(public.node) or ""
    example = doctest.DocTestParser().get_doctest(text, dict(given), public.name, None, None)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(example, out=sys.stderr.write)
    failures += runner.failures
    ran += [public.name] if example.examples else []
print("ran", *ran)
assert not failures
