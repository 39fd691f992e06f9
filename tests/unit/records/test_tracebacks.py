"""Tracebacks of the script's errors, without the frames of matex in them."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

import keras
import pytest

import matex
from matex.records.tracebacks import is_of_script_alone, shorten

OURS = str(Path(matex.__file__).parent / "none.py")
OPEN = str(Path(matex.__file__).parent / "files" / "none.py")
SCRIPT = "script.py"
FILTER = str(Path(keras.__file__).parent / "src" / "utils" / "traceback_utils.py")


def chain(*files: str) -> BaseException:
    """An error out of functions of *files*, the outermost first."""

    def fail() -> None:
        raise ValueError("innermost")

    call: Callable[[], None] = fail
    for file in reversed(files):
        names = {"call": call}
        exec(compile("def outer():\n    call()", file, "exec"), names)
        call = names["outer"]
    try:
        call()
    except ValueError as error:
        assert error.__traceback__ is not None
        error.__traceback__ = error.__traceback__.tb_next  # this function's
        return error
    raise AssertionError


def files(error: BaseException) -> list[str]:
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize(
    ("frames", "left", "is_told"),
    [
        ([OURS, OURS, SCRIPT, OURS, SCRIPT], [SCRIPT, SCRIPT], True),
        ([OURS, SCRIPT, SCRIPT], [SCRIPT, SCRIPT], False),
        ([SCRIPT], [SCRIPT], False),
    ],
)
def test_frames_of_matex_are_left_out(
    frames: list[str], left: list[str], is_told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    error = chain(*frames)
    shorten(error)
    assert files(error) == [*left, __file__]
    assert ("are left out" in capsys.readouterr().err) == is_told


@pytest.mark.parametrize(
    ("frames", "left"),
    [
        ([OURS, SCRIPT, OURS], [SCRIPT, OURS]),
        ([OURS, SCRIPT, FILTER, OURS], [SCRIPT, FILTER]),
    ],
)
def test_innermost_frames_of_matex_stay_unless_keras_left_some_out(
    frames: list[str], left: list[str]
) -> None:
    assert Path(FILTER).is_file()
    error = chain(*frames)
    last = error.__traceback__
    while last is not None and last.tb_next is not None and last.tb_next.tb_next is not None:
        last = last.tb_next
    assert last is not None
    last.tb_next = None  # the function of this file
    shorten(error)
    assert files(error) == left


def test_causes_are_shortened_too() -> None:
    cause, error = chain(SCRIPT, OURS, SCRIPT), chain(SCRIPT)
    error.__cause__, cause.__context__ = cause, error  # a circle ends nothing
    shorten(error)
    assert files(cause) == [SCRIPT, SCRIPT, __file__]


def test_all_are_shown_where_keras_shows_its_own() -> None:
    keras.config.disable_traceback_filtering()
    try:
        error = chain(SCRIPT, OURS, SCRIPT)
        shorten(error)
    finally:
        keras.config.enable_traceback_filtering()
    assert files(error) == [SCRIPT, OURS, SCRIPT, __file__]


def test_a_syntax_error_is_in_no_frame() -> None:
    error = SyntaxError("invalid syntax")
    error.__traceback__ = chain(OURS, OURS).__traceback__
    assert error.__traceback__ is not None and error.__traceback__.tb_next is not None
    error.__traceback__.tb_next.tb_next = None
    shorten(error)
    assert error.__traceback__ is None


@pytest.mark.parametrize(
    ("frames", "is_alone"),
    [([SCRIPT], True), ([SCRIPT, OPEN], True), ([SCRIPT, OURS, SCRIPT], False), ([OURS], False)],
)
def test_an_error_of_the_script_alone_is_in_no_collective_call(
    frames: list[str], is_alone: bool
) -> None:
    assert is_of_script_alone(chain(*frames)) == is_alone
