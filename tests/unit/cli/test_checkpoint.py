"""``matex checkpoint list | show | verify | diff``: what they say, and with which status."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from checkpoints import Snapshot, Store
from matex.cli import main


def snapshot(step: int, **changes: np.ndarray) -> Snapshot:
    weights = {"dense/kernel": np.ones((3, 4), np.float32), "dense/bias": np.zeros(4, np.float32)}
    return Snapshot(
        weights={**weights, **changes},
        optimizer={"adam/iteration": np.array(step)},
        cursor={"step": step, "fit": 0, "epoch": 2, "samples": 64},
        architecture="{}",
    )


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    store = Store(tmp_path / "saved")
    for step in (10, 20, 30):
        path = store.save(snapshot(step))
    path.write_bytes(path.read_bytes()[:-1])
    return tmp_path / "saved"


def test_list_names_what_is_damaged(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "list", str(saved)]) == 0
    head, first, second, third = capsys.readouterr().out.splitlines()
    assert head.split() == ["step", "fit", "epoch", "samples", "bytes"]
    assert first.split()[:4] == ["10", "0", "2", "64"]
    assert second.split()[0] == "20"
    assert "damaged" in third and "30" in third


def test_show_takes_the_newest_valid_one(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "show", str(saved)]) == 0
    text = capsys.readouterr().out
    assert "step-000000020.h5" in text
    assert "cursor: step 20, fit 0, epoch 2, samples 64" in text
    assert "weights: 2 arrays, 64 bytes" in text
    assert "  dense/kernel  float32  3 x 4" in text


def test_verify_has_a_status(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "verify", str(saved)]) == 1
    said = capsys.readouterr()
    assert said.out.count("valid") == 2
    (line,) = said.err.splitlines()
    assert "step-000000030.h5: damaged" in line
    assert main(["checkpoint", "verify", str(saved / "step-000000010.h5")]) == 0
    capsys.readouterr()
    (saved / "notes.txt").write_text("no checkpoint")
    assert main(["checkpoint", "verify", str(saved / "notes.txt")]) == 1
    assert "notes.txt: no checkpoint of matex: it begins" in capsys.readouterr().err


def test_diff_says_where_and_how_far(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(tmp_path)
    kernel = np.ones((3, 4), np.float32)
    kernel[0, 0] += 0.5
    a = store.save(snapshot(1))
    b = store.save(snapshot(2, **{"dense/kernel": kernel, "more": np.zeros(1)}))
    assert main(["checkpoint", "diff", str(a), str(a)]) == 0
    assert capsys.readouterr().out == "equal\n"
    assert main(["checkpoint", "diff", str(a), str(b)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "cursor step: 1 and 2",
        "weights dense/kernel: 1 of 12 values, at most 0.5 apart (largest 1)",
        "weights more: only in the second",
        "optimizer adam/iteration: 1 of 1 values, at most 1 apart (largest 1)",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["list", "empty"], "a directory with checkpoints is wanted"),
        (["list", "nowhere"], "a directory is wanted"),
        (["show", "nowhere"], "an existing snapshot was wanted"),
        (["show", "empty"], "a valid checkpoint is wanted"),
        (["verify", "nowhere"], "an existing snapshot was wanted"),
        (["diff", "nowhere", "nowhere"], "an existing snapshot was wanted"),
        (["export", "empty", "file"], "OUT must not exist yet"),
        (["export", "empty", "new.keras"], "a valid checkpoint is wanted"),
    ],
)
def test_bad_input_gets_one_line(
    words: list[str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("file").touch()
    with pytest.raises(SystemExit, match="2"):
        main(["checkpoint", *words])
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
