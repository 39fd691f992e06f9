"""Options that may stand without a value, on a command line with a script's own words behind."""

from __future__ import annotations

import pytest

from matex.cli.arguments import completed
from matex.config import Config, LaunchOptions
from matex.config.options import AS_MANY_AS_ARE_LOST

ALL = str(AS_MANY_AS_ARE_LOST)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("-n 4 --respawn train.py 3", f"-n 4 --respawn {ALL} train.py 3"),
        ("-n 4 --respawn 2 train.py", "-n 4 --respawn 2 train.py"),
        ("--respawn -n 4 train.py", f"--respawn {ALL} -n 4 train.py"),
        ("--respawn=2 train.py 7", "--respawn=2 train.py 7"),
        ("--balance --respawn train.py", f"--balance --respawn {ALL} train.py"),
        ("-n 4 train.py --respawn", "-n 4 train.py --respawn"),
        ("--seed 5 --respawn", f"--seed 5 --respawn {ALL}"),
        ("--respawn -1 train.py", "--respawn -1 train.py"),
        ("-n 4 -m package.train --respawn", "-n 4 -m package.train --respawn"),
    ],
)
def test_the_value_is_the_number_that_follows(words: str, wanted: str) -> None:
    assert completed(words.split(), LaunchOptions, Config) == wanted.split()
