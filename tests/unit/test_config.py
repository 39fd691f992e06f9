"""One configuration from options and environment; wrong values are told in one line."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import ft
from matex.config import Config
from matex.errors import InputError

GIVEN = {
    "report": (Path("out"), "out"),
    "checkpoint": (Path("saved"), "saved"),
    "checkpoint_every": (25, "25"),
    "keep": (7, "7"),
    "seed": (11, "11"),
    "inject": (("kill:rank=0,step=1", "nan:rank=1,step=2"), "kill:rank=0,step=1 nan:rank=1,step=2"),
    "hang_timeout": (2.5, "2.5"),
    "threads": (3, "3"),
    "exchange": ("host", "host"),
    "strategy": ("gossip", "gossip"),
    "batch_per_rank": (True, "1"),
    "lr_scaling": ("none", "none"),
    "warmup_epochs": (1.5, "1.5"),
    "compression": ("bf16", "bf16"),
    "cache": (Path("kept"), "kept"),
}


def test_every_field_is_covered_here() -> None:
    assert set(GIVEN) == {field.name for field in dataclasses.fields(Config)}


def test_defaults_need_no_environment() -> None:
    config = Config.from_environment()
    assert config == Config()
    assert (config.report, config.checkpoint, config.inject) == (None, None, ())
    assert config.faults == ()


@pytest.mark.parametrize("name", GIVEN)
def test_a_field_comes_from_the_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    value, text = GIVEN[name]
    monkeypatch.setenv(f"MATEX_{name.upper()}", text)
    assert Config.from_environment() == Config(**{name: value})


def test_what_is_given_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MATEX_SEED", "not even a number")
    monkeypatch.setenv("MATEX_KEEP", "5")
    config = Config.from_environment(seed=4)
    assert (config.seed, config.keep) == (4, 5)


def test_faults_are_parsed() -> None:
    config = Config(inject=("kill:rank=0,step=1",))
    assert config.faults == (ft.parse_fault("kill:rank=0,step=1"),)


BAD: list[tuple[dict[str, Any], str]] = [
    (
        {"checkpoint_every": -1},
        "checkpoint_every must be at least 0. Received: checkpoint_every=-1",
    ),
    ({"keep": 0}, "keep must be at least 1. Received: keep=0"),
    ({"seed": -3}, "seed must be at least 0. Received: seed=-3"),
    ({"threads": -1}, "threads must be at least 0. Received: threads=-1"),
    ({"hang_timeout": 0.0}, "hang_timeout must be above 0 seconds. Received: 0.0"),
    ({"hang_timeout": float("nan")}, "Received: nan"),
    ({"exchange": "smoke"}, "exchange must be one of auto, native, host. Received: 'smoke'"),
    ({"strategy": "rumour"}, "strategy must be one of sync, gossip, easgd. Received: 'rumour'"),
    ({"compression": "zip"}, "compression must be one of none, fp16, bf16. Received: 'zip'"),
    ({"warmup_epochs": -1.0}, "warmup_epochs must be at least 0. Received: warmup_epochs=-1.0"),
    ({"lr_scaling": "linear"}, "give batch_per_rank too. Received: lr_scaling='linear'"),
    ({"inject": ("explode:rank=0,step=1",)}, "kind must be one of"),
]


@pytest.mark.parametrize(("options", "said"), BAD)
def test_a_wrong_value_is_refused_in_one_line(options: dict[str, Any], said: str) -> None:
    with pytest.raises((InputError, ft.UsageError)) as caught:
        Config.from_environment(**options)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_option_is_named_beside_the_known_ones() -> None:
    with pytest.raises(InputError) as caught:
        Config.from_environment(batch_size=3)
    assert "batch_size" in str(caught.value)
    assert "checkpoint_every" in str(caught.value)


@pytest.mark.parametrize("name", ["checkpoint_every", "keep", "seed", "hang_timeout", "threads"])
def test_a_variable_that_is_no_number_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"MATEX_{name.upper()}", "many")
    with pytest.raises(InputError) as caught:
        Config.from_environment()
    assert f"MATEX_{name.upper()} must be a number. Received: 'many'" in str(caught.value)


def test_it_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().seed = 1  # type: ignore[misc]
