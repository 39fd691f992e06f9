"""Scripts as users write them, unchanged: they print and write what they do in plain Python.

Of tests/scripts so many as there is time for, several to a launch; ``ci/user_scripts`` runs all
of them, each in a launch of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ci.user_scripts import __main__ as matrix
from ci.user_scripts import runs
from tests import slow

pytestmark = pytest.mark.timeout(700)  # two launches

LIMIT_S = 300

# One of each kind; with dict and lookup, ragged, own steps, callbacks and files among them.
BUNDLE = [
    "callbacks_and_logs", "custom_train_step_metrics", "detection_two_heads",
    "learning_rate_range_test", "letters_in_a_loop", "masked_lstm_tagger", "metric_learning_pairs",
    "pydataset_with_workers", "text_sentiment_strings", "weights_set_by_callbacks",
]  # fmt: skip
KILLED = ["callbacks_and_logs", "saving_in_every_way", "text_sentiment_strings"]


Bundles = Callable[[int], dict[str, Any]]


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Bundles:
    """A function: how many ranks (0 for plain Python) -> how each script went, run once."""
    done: dict[int, dict[str, Any]] = {}

    def run(ranks: int) -> dict[str, Any]:
        if ranks not in done:
            folder = tmp_path_factory.mktemp("bundle") / str(ranks)
            way = runs.Way(str(ranks), ranks)
            done[ranks] = runs.run_bundle(BUNDLE, way, folder, timeout_s=LIMIT_S)
        return done[ranks]

    return run


@pytest.mark.parametrize("name", BUNDLE)
@pytest.mark.parametrize("ranks", slow.all_but([2], [1, 2, 3]))
def test_a_script_comes_to_what_it_comes_to_in_plain_python(
    ranks: int, name: str, bundles: Bundles
) -> None:
    wanted, found = bundles(0)[name], bundles(ranks)[name]
    assert wanted.status == 0, wanted.stderr
    differences = matrix.judge(wanted, found, killed=False)
    assert not differences, "\n".join([*differences, found.stderr])


@pytest.mark.parametrize("name", slow.all_but(["callbacks_and_logs"], KILLED))
def test_so_it_does_when_rank_0_dies_in_the_first_fit(
    name: str, bundles: Bundles, tmp_path: Path
) -> None:
    if name in BUNDLE:
        wanted = bundles(0)[name]
    else:
        wanted = runs.run_alone(name, runs.PLAIN, tmp_path / "plain", timeout_s=LIMIT_S)
    assert wanted.status == 0, wanted.stderr
    found = runs.run_alone(name, matrix.WAYS["kill"], tmp_path / "kill", timeout_s=LIMIT_S)
    differences = matrix.judge(wanted, found, killed=True)
    assert not differences, "\n".join([*differences, found.stderr])
