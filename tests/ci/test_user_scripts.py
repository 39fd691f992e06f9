"""The judge of the scripts: rounding is allowed, everything else is a difference."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from ci.user_scripts import compare as judge


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("loss 0.4321", "loss 0.4322"),
        ("loss 0.0012", "loss 0.0013"),
        ("[ 1.5 10.25]", "[1.501 10.25]"),
        ("1.234e-05", "1.235e-05"),
        ("4/4 - 3s - 812ms/step - loss: 0.68", "4/4 - 0s - 9ms/step - loss: 0.68"),
        ("1/2 loss: 3\r2/2 loss: 0.5", "2/2 loss: 0.5"),
        ("1/2 loss: 3\x08\x08\x08\x082/2 loss: 0.5", "2/2 loss: 0.5"),
        ("\x1b[1m2/2\x1b[0m done", "2/2 done"),
        ("140177000819280: resource", "139902345678912: resource"),
        ("said\n", "matex: 3 ranks\nsaid\n\n"),
    ],
)
def test_what_is_the_same(wanted: str, found: str) -> None:
    assert judge.compare_text(wanted, found) == []


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("loss 0.4321", "loss 0.4351"),
        ("epochs 3", "epochs 4"),
        ("learned: True", "learned: False"),
        ("a\nb", "a"),
        ("a", "a\nb"),
        ("layer_1 0.5", "layer_2 0.5"),
        ("loss 0.5", "loss nan"),
        ("-0.5", "0.5"),
    ],
)
def test_texts_that_differ_are_one_complaint(wanted: str, found: str) -> None:
    assert len(judge.compare_text(wanted, found)) == 1


def test_files_are_compared_by_name_content_and_whether_they_can_be_read(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    for folder in (a, b):
        (folder / "logs").mkdir(parents=True)
        (folder / "logs" / f"events.out.tfevents.1.host.{folder.name}").write_text("x")
        (folder / "log.csv").write_text(f"epoch,loss\n0,0.500{folder.name == 'b':d}\n")
        (folder / "broken.keras").write_text("no archive")
    (a / "best.npy").touch()
    (b / "log.tmp").touch()
    with zipfile.ZipFile(a / "broken.keras", "w") as archive:
        archive.writestr("config.json", '{"class_name": "Sequential"}')
    found = judge.compare_files(a, b)
    assert found[:2] == ["best.npy: not written", "log.tmp: too many"]
    assert len(found) == 3
    assert found[2].startswith("broken.keras: cannot be read: ")
