"""Imports by the command line."""

from __future__ import annotations

import os

import pytest

from matex.apoptosis.arguments import check_arguments
from matex.apoptosis.criteria.table import CRITERIA
from matex.apoptosis.targets import MEASURES
from matex.cli import prune
from matex.cli.importing import unheard_import
from matex.cli.main import main
from matex.errors import InputError


def test_lines_of_an_import_are_heard_only_if_it_fails(capfd: pytest.CaptureFixture[str]) -> None:
    with unheard_import():
        os.write(2, b"noise\n")
    with pytest.raises(ImportError), unheard_import():
        os.write(2, b"reason\n")
        raise ImportError
    os.write(2, b"later\n")
    assert capfd.readouterr().err == "reason\nlater\n"


def test_the_command_line_knows_what_prune_takes() -> None:
    """It lists targets itself, so that bad input is told before anything heavy is imported."""
    assert prune.TARGETS == MEASURES


def test_every_criterion_of_the_table_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["prune", "--help"])
    assert f"--criterion {{{','.join(CRITERIA)}}}" in capsys.readouterr().out
    given = {"mode": "natural", "target": "flops", "pruning_ratio": None}
    numbers = {"first_epoch": 1, "samples": 1, "every": 0}
    for name in CRITERIA:
        check_arguments(criterion=name, **given, **numbers)
    with pytest.raises(InputError, match=f"criterion must be one of {', '.join(CRITERIA)}. "):
        check_arguments(criterion="luck", **given, **numbers)
