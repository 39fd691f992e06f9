"""The examples in the docstrings of ft's public names run, on any number of ranks."""

from __future__ import annotations

import doctest
import importlib

import numpy as np
import pytest

import ft
from ci.jobs import ROOT
from ci.testing.public_names import public_names

NAMES = [public.name for public in public_names(ROOT) if public.package == "ft"]


@pytest.mark.parametrize("name", NAMES)
def test_the_example_runs_on_every_rank(world: ft.World, name: str) -> None:
    value = getattr(ft, name)
    module = importlib.import_module(value.__module__)
    examples = doctest.DocTestFinder(recurse=False).find(
        value, name, module=module, globs={"ft": ft, "np": np}
    )
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    told: list[str] = []
    for example in examples:
        runner.run(example, out=told.append)
    assert not runner.failures, "".join(told)
