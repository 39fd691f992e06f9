"""The hooks into Keras check themselves, and say by which release they were put off."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from matex.versions import TESTED
from tests.train.runs import execute

FAKED = "import keras, matex\nkeras.__version__ = '3.99.1'\n"
GONE = (
    "from keras.src.backend.tensorflow.trainer import TensorFlowTrainer\n"
    "del TensorFlowTrainer.make_train_function\n"
)


@pytest.mark.parametrize(
    ("what", "status", "said"),
    [
        ("", 0, f"matex: Keras 3.99.1 is outside of what matex is tested with: {TESTED}"),
        (GONE, 1, "Keras 3.99.1 has no TensorFlowTrainer.make_train_function; tested with"),
    ],
)
def test_a_release_out_of_range_is_named(what: str, status: int, said: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"{FAKED}{what}matex.init()\nprint('trained')\n")
    done = execute([sys.executable, script], directory=tmp_path, TMPDIR=str(tmp_path))
    assert done.returncode == status
    assert (done.stdout + done.stderr).count(said) == 1
    assert ("trained" in done.stdout) == (status == 0)
