"""A script of several fits that is started again has callbacks and logs as if it had not ended."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.train.runs import PLAIN, SCRIPTS, execute, matex_run


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the files that the script writes under plain Keras."""
    folder = tmp_path_factory.mktemp("plain")
    command = [*PLAIN, SCRIPTS / "several_fits.py", folder / "told.json"]
    done = execute(command, directory=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize(
    ("end_at", "ranks"),
    [
        (
            "0:over",
            1,
        ),  # EarlyStopping has ended the fit, and no checkpoint of the next one is there
        ("1:3", 2),  # in its first epoch
        ("1:8", 1),  # in its second
    ],
)
def test_several_fits_go_on_in_the_one_that_ended(
    end_at: str, ranks: int, plain: Path, tmp_path: Path
) -> None:
    told, log = tmp_path / "told.json", tmp_path / "told.csv"
    rows = "epoch,accuracy,loss\n0,0.5,9.0\n1,0.5,8.0\n"
    log.write_text(rows)  # of an older job
    options = ["--checkpoint", tmp_path / "saved", "--checkpoint-every", "1"]
    ended = matex_run(
        tmp_path, "several_fits.py", told, "--end-at", end_at, ranks=ranks, options=options
    )
    assert ended.status == 1 and "the script ends" in ended.stderr
    again = matex_run(tmp_path, "several_fits.py", told, ranks=3 - ranks, options=options)
    assert again.status == 0, again.stderr
    wanted = np.concatenate(
        [np.ravel(one) for one in json.loads((plain / "told.json").read_text())]
    )
    came = np.concatenate([np.ravel(one) for one in json.loads(told.read_text())])
    np.testing.assert_allclose(came, wanted, rtol=2e-4)
    text = log.read_text()
    assert text.startswith(rows)
    epochs = [row.partition(",")[0] for row in text[len(rows) :].splitlines()]
    assert epochs == ["0", "1", "2", "0", "1", "2", "3"]
