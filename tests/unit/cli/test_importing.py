"""Imports by the command line."""

from __future__ import annotations

import os

import pytest

from matex.apoptosis.criteria import CRITERIA
from matex.apoptosis.targets import MEASURES
from matex.cli import prune
from matex.cli.importing import unheard_import


def test_lines_of_an_import_are_heard_only_if_it_fails(capfd: pytest.CaptureFixture[str]) -> None:
    with unheard_import():
        os.write(2, b"noise\n")
    with pytest.raises(ImportError), unheard_import():
        os.write(2, b"reason\n")
        raise ImportError
    os.write(2, b"later\n")
    assert capfd.readouterr().err == "reason\nlater\n"


def test_the_command_line_knows_what_prune_takes() -> None:
    """It lists criteria itself, so that bad input is told before anything heavy is imported."""
    assert (prune.CRITERIA, prune.TARGETS) == (CRITERIA, MEASURES)
