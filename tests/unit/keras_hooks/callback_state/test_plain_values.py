"""Values of callbacks become bytes and come back as they were, whatever process reads them."""

from __future__ import annotations

import datetime
import json
import pathlib
import random
import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

import numpy as np
import pytest

from matex.keras_hooks.callback_state.plain_decoder import Decoder
from matex.keras_hooks.callback_state.plain_values import Coder, NotPlainError, as_bytes, from_bytes


def again(value: Any) -> Any:
    return Decoder().value(from_bytes(as_bytes(Coder().whole(value))))


def deep() -> Any:
    inside: Any = 1
    for _ in range(2000):
        inside = {"a": [inside]}
    return inside


BITS = [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64]
ZONE = datetime.timezone(datetime.timedelta(hours=2))


@pytest.mark.parametrize(
    "value",
    [
        b"\x00\xff",
        bytearray(b"ab"),
        complex(-0.0, float("inf")),
        {3, "3", (1, 2.0), None},
        frozenset({b"a", frozenset({1})}),
        range(9, 0, -2),
        deque([1, [2], {3}], maxlen=4),
        deque(),
        OrderedDict([("b", 1), ("a", deque([2]))]),
        Counter("abca"),
        defaultdict(list, {1: [2]}),
        defaultdict(None, {"a": {1}}),
        [{"a": ({1: {2}},)}],
        datetime.datetime(2026, 1, 2, 3, 4, 5, 6),
        datetime.datetime(2026, 1, 2, tzinfo=ZONE),
        datetime.date(2026, 1, 2),
        datetime.time(3, 4),
        datetime.timedelta(-1, 3, 5),
        pathlib.Path("a/b"),
        pathlib.PureWindowsPath("c:/d"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_comes_back(value: Any) -> None:
    found = again(value)
    assert (type(found) is type(value) and repr(found) == repr(value)) or found == value
    assert getattr(found, "maxlen", None) == getattr(value, "maxlen", None)
    assert getattr(found, "default_factory", None) is getattr(value, "default_factory", None)
    assert list(found) == list(value) if isinstance(value, dict) else True


@pytest.mark.parametrize("bits", BITS)
def test_a_generator_goes_on(bits: Any) -> None:
    generator = np.random.Generator(bits(3))
    generator.integers(5, dtype=np.int32)  # half of a word is left
    generator.spawn(2)
    found = again(generator)
    assert found.integers(1 << 20, size=9).tolist() == generator.integers(1 << 20, size=9).tolist()
    assert found.normal(size=3).tolist() == generator.normal(size=3).tolist()
    assert found.spawn(1)[0].random() == generator.spawn(1)[0].random()


@pytest.mark.parametrize(
    "generator", [np.random.RandomState(3), np.random.RandomState(np.random.PCG64(3))]
)
def test_a_generator_of_the_old_kind_goes_on(generator: np.random.RandomState) -> None:
    generator.normal()  # another number is left
    found = again(generator)
    assert [found.normal(), *found.permutation(9)] == [
        generator.normal(),
        *generator.permutation(9),
    ]


def test_a_generator_of_python_goes_on() -> None:
    generator = random.Random(3)
    generator.gauss(0, 1)
    found = again(generator)
    assert [found.gauss(0, 1), found.random()] == [generator.gauss(0, 1), generator.random()]


def test_what_is_one_object_is_one_again() -> None:
    shared: list[Any] = [1]
    shared.append(shared)
    numbers = np.zeros(2)
    coder, decoder = Coder(), Decoder()
    with pytest.raises(NotPlainError):
        coder.whole([numbers, open])
    codes = [coder.whole(part) for part in (shared, {"x": (shared, numbers)}, numbers)]
    first, second, third = (decoder.value(code) for code in from_bytes(as_bytes(codes)))
    assert first[1] is first is second["x"][0]
    assert second["x"][1] is third


@pytest.mark.parametrize(
    "value",
    [
        defaultdict(lambda: 0),
        [object()],
        {open: 1},
        np.ma.masked_array([1.0], [True]),
        np.array([None]),
        datetime.datetime(2026, 10, 25, 2, 30, fold=1),
        type("Numbers", (list,), {})(),
        deep(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_would_not_be_the_same_has_no_code(value: Any) -> None:
    with pytest.raises(NotPlainError):
        Coder().whole(value)


def test_sets_are_equal_bytes_in_every_process() -> None:
    program = (
        "from matex.keras_hooks.callback_state.plain_values import Coder;"
        "print(Coder().whole([{str(i) for i in range(40)}, frozenset(('x', 'y', 1, None))]))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "12"
    }
    assert len(texts) == 1 and "frozenset" in texts.pop()


def test_the_bytes_of_old_values_are_as_ever() -> None:
    values = {
        "plain": [None, True, 1, 0.5, "a"],
        "nested": {"a": (1, [2])},
        "array": np.arange(3, dtype=np.int16).reshape(3, 1),
        "scalar": np.float32(2),
    }
    old = {
        "plain": [None, True, 1, 0.5, "a"],
        "nested": {"dict": [["a", {"tuple": [1, [2]]}]]},
        "array": {"array": ["<i2", [3, 1], "AAABAAIA"]},
        "scalar": {"array": ["<f4", None, "AAAAQA=="]},
    }
    assert json.loads(as_bytes(Coder().whole(list(values.values()))).tobytes()) == list(
        old.values()
    )
    found = {name: Decoder().value(code) for name, code in old.items()}
    assert found["nested"] == {"a": (1, [2])} and type(found["scalar"]) is np.float32
    assert found["array"].tolist() == [[0], [1], [2]]


def test_what_is_there_gets_the_content() -> None:
    """The script may hold the list that it gave to a callback."""
    saved = {"a": [1, [2]], "b": {"n": 5, "m": [1]}, "c": {3}, "d": deque([4], 2), "e": np.ones(2)}
    inner: list[int] = []
    there: dict[str, Any] = {"a": [0, inner, 7], "b": {"n": 1, "k": 2}, "c": {1, 2}}
    there |= {"d": deque(maxlen=2), "e": np.zeros(2)}
    parts = dict(there)
    found = Decoder().value(Coder().whole(saved), there)
    assert found is there and all(there[name] is part for name, part in parts.items())
    assert there["a"][1] is inner
    np.testing.assert_equal(there, saved)


def test_one_list_that_is_there_twice_gets_one_content() -> None:
    there: list[int] = []
    found = Decoder().value(Coder().whole({"a": [1], "b": [2]}), {"a": there, "b": there})
    assert found == {"a": [1], "b": [2]} and found["a"] is there
