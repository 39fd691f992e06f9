"""The examples on small data: in one process, and on two ranks of which one dies."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests import slow
from tests.train.runs import ROOT, execute, faults, matex_run, relative_differences

EXAMPLES = ROOT / "examples"
SMALL = ["--epochs", "2", "--batch-size", "32"]


@dataclass(frozen=True)
class Case:
    """A script on its own data; *own* is what it says of them, *tells* what a run says."""

    script: str
    arguments: list[str]
    own: str
    tells: str
    fault: str
    shuffled: bool = False
    """By fit, whose order without a run is Keras's own: one process is then a run of one rank."""


CASES = {
    "cnn": Case(
        "02_mnist_cnn.py", ["--images", "256"], "drawing 256 digits", "985,426 parameters",
        "kill:rank=0,step=9", shuffled=True,
    ),
    "loop": Case(
        "03_custom_loop.py", ["--images", "256"], "drawing 256 digits", "images",
        "kill:rank=1,step=8,at=in-exchange",
    ),
    "text": Case(
        "04_text_lstm.py", ["--letters", "16000", "--units", "32", "--write", "9"],
        "reading the reference that comes with Python", "letters of",
        "kill:rank=1,step=9", shuffled=True,
    ),
    "images": Case(
        "05_images_from_folders.py", ["--images", "256", "--width", "8"], "drawing 256 shapes",
        "4 classes", "kill:rank=0,step=10,at=in-exchange",
    ),
    "strategies": Case(
        "09_strategies.py", ["--events", "400", "--width", "16"], "simulating 400 events",
        "2 ranks by strategy sync: exact", "kill:rank=0,step=9", shuffled=True,
    ),
}  # fmt: skip


def losses(stdout: str) -> list[float]:
    (line,) = (line for line in stdout.splitlines() if line.startswith("loss by epoch: "))
    return [float(word) for word in line.split()[3:]]


@pytest.mark.parametrize("name", slow.all_but(["loop", "strategies"], CASES))
def test_two_ranks_one_of_which_dies_train_as_one_process(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    arguments = [*SMALL, *case.arguments]
    outcome = matex_run(
        tmp_path, EXAMPLES / case.script, *arguments, ranks=2, options=faults(case.fault)
    )
    assert outcome.status == 0, outcome.stderr
    summary = outcome.summary
    assert [fault["kind"] for fault in summary["faults"]] == ["kill"]
    assert summary["world_size_end"] == len(summary["weights_hash"]) == 1
    assert summary["samples_used"] == summary["samples_expected"]
    assert summary["samples_used"] > 0
    assert case.own in outcome.stdout
    assert case.tells in outcome.stdout
    # The input work of all of them can be shared: nothing says that it cannot.
    assert "whole tf.data pipeline" not in outcome.stdout

    launcher = ["-m", "matex", "run", "-n", "1"] if case.shuffled else []
    command = [sys.executable, *launcher, EXAMPLES / case.script, *arguments]
    alone = execute(command, directory=tmp_path)
    assert alone.returncode == 0, alone.stderr
    wanted = losses(alone.stdout)
    assert len(wanted) == 2
    assert wanted[1] < wanted[0]
    assert max(relative_differences(losses(outcome.stdout), wanted)) < 1e-4


# ---------------------------------------------------------------- plain Python, other data


def mnist(real: Callable[[str], Path], place: Path) -> Path:
    with h5py.File(real("mnist.h5")) as file, h5py.File(place / "small.h5", "w") as small:
        for part in ("train", "test"):
            for array in ("x", "y"):
                small[f"{array}_{part}"] = file[f"{array}_{part}"][:96]
    return place / "small.h5"


def idx(real: Callable[[str], Path], place: Path) -> Path:
    folder = place / "idx"
    folder.mkdir()
    with h5py.File(real("mnist.h5")) as file:
        for part, stem in (("train", "train"), ("test", "t10k")):
            for array, name in (("x", "images-idx3-ubyte"), ("y", "labels-idx1-ubyte")):
                values = file[f"{array}_{part}"][:96]
                head = bytes([0, 0, 8, values.ndim])
                shape = np.array(values.shape, ">i4").tobytes()
                (folder / f"{stem}-{name}").write_bytes(head + shape + values.tobytes())
    return folder


def shakespeare(real: Callable[[str], Path], place: Path) -> Path:
    with h5py.File(real("tinyshakespeare.h5")) as file, h5py.File(place / "s.h5", "w") as small:
        small["vocab"] = file["vocab"][:]
        for name in ("x_train", "y_train", "x_test", "y_test"):
            small[name] = file[name][:96]
    return place / "s.h5"


def text(real: Callable[[str], Path], place: Path) -> Path:
    return ROOT / "LICENSE"


def jpegs(real: Callable[[str], Path], place: Path) -> Path:
    with h5py.File(real("cifar10_jpeg.h5")) as file, h5py.File(place / "j.h5", "w") as small:
        for part in ("train", "test"):
            ends = file[f"offsets_{part}"][:97]
            small[f"offsets_{part}"] = ends
            small[f"jpeg_{part}"] = file[f"jpeg_{part}"][: int(ends[-1])]
            small[f"y_{part}"] = file[f"y_{part}"][:96]
    return place / "j.h5"


def folders(real: Callable[[str], Path], place: Path) -> Path:
    """ImageNet's layout, of CIFAR's photographs."""
    with h5py.File(real("cifar10_jpeg.h5")) as file:
        ends, content, labels = file["offsets_train"][:97], file["jpeg_train"], file["y_train"]
        for row in range(96):
            part = "val" if row % 4 == 3 else "train"
            folder = place / "photographs" / part / f"class-{labels[row]}"
            folder.mkdir(parents=True, exist_ok=True)
            image = content[ends[row] : ends[row + 1]].tobytes()
            (folder / f"{row}.JPEG").write_bytes(image)
    return place / "photographs"


DATA = {
    "mnist": ("02_mnist_cnn.py", mnist, "96 images to train on, 96 to test on"),
    "idx": ("03_custom_loop.py", idx, "96 images"),
    "shakespeare": ("04_text_lstm.py", shakespeare, "6,144 letters of 65 kinds"),
    "text": ("04_text_lstm.py", text, "kinds to train on"),
    "jpegs": ("05_images_from_folders.py", jpegs, "96 images to train on, 96 to test on"),
    "folders": ("05_images_from_folders.py", folders, "72 images to train on, 24 to test on"),
}
LESS = {"04_text_lstm.py": ["--units", "16", "--write", "5"]}

IN_TURN = """
import runpy, sys
sys.path.insert(0, sys.argv[1])
for line in open(sys.argv[2]).read().splitlines():
    sys.argv = line.split("\\t")
    runpy.run_path(sys.argv[0], run_name="__main__")
"""


def in_turn(calls: list[list[str]], place: Path) -> str:
    """Output of the scripts of *calls* in one process: starting TensorFlow takes longer."""
    lines = ["\t".join([str(EXAMPLES / script), *words]) for script, *words in calls]
    (place / "lines").write_text("\n".join(lines))
    program = [sys.executable, "-c", IN_TURN, EXAMPLES, place / "lines"]
    done = execute(program, directory=place)
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_said(stdout: str, wanted: list[str]) -> None:
    assert [said for said in wanted if said not in stdout] == []
    ends = [line for line in stdout.splitlines() if line.startswith("loss by epoch: ")]
    assert len(ends) == len(wanted)


def test_the_examples_take_other_data(real_data: Callable[[str], Path], tmp_path: Path) -> None:
    calls = []
    for name, (script, make, _) in DATA.items():
        (tmp_path / name).mkdir()
        path = make(real_data, tmp_path / name)
        calls.append([script, "--data", str(path), "--epochs", "1", *LESS.get(script, [])])
    assert_said(in_turn(calls, tmp_path), [said for _, _, said in DATA.values()])


def test_own_data_in_plain_python(tmp_path: Path) -> None:
    calls = [[case.script, *SMALL, *case.arguments] for case in CASES.values()]
    assert_said(in_turn(calls, tmp_path), [case.own for case in CASES.values()])


@pytest.mark.parametrize("script", sorted({case.script for case in CASES.values()}))
def test_bad_input_gets_one_line(script: str, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["z"] = np.zeros(3)
    (tmp_path / "empty").mkdir()
    for words in (["--data", "nowhere"], ["--data", "other.h5"], ["--data", "empty"],
                  ["--epochs", "0"], ["--learning-rate", "-1"]):  # fmt: skip
        done = execute([sys.executable, EXAMPLES / script, *words], directory=tmp_path)
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith(f"{script}: ")
        assert done.stderr.count("\n") == 1
        assert words[1] in done.stderr
