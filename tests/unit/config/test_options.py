"""All that follows from the table of options, for each of its rows and for one that is added."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
from pathlib import Path
from typing import Any

import pytest

import ft
from matex.apoptosis.schedule import MODES
from matex.cli import main
from matex.cli.arguments import add_options, given_words
from matex.cli.parser import Parser
from matex.cli.run import EXAMPLES
from matex.config import Config, LaunchOptions
from matex.config.given import make
from matex.config.kinds import (
    COMPRESSION,
    FINITE,
    KINDS,
    MONITOR,
    OPTIMIZER,
    PATH,
    SWITCH,
    TIME,
    WORDS,
    Kind,
)
from matex.config.option import Option, option, options_of
from matex.config.options import APOPTOSIS_MODES, GROUPS
from matex.config.reference import SET_BY_RUN, sections
from matex.errors import InputError
from matex.launcher.launch import rank_options

ALL = [*options_of(LaunchOptions), *options_of(Config)]
RANKS = options_of(Config)
FLAGGED = [each for each in ALL if each.flag]
VARIABLES = [each for each in ALL if each.variable]


def named(options: list[Option] | tuple[Option, ...]) -> Any:
    return pytest.mark.parametrize("each", options, ids=[each.name for each in options])


@dataclasses.dataclass(frozen=True, kw_only=True)
class More(Config):
    """The table with one row more; nothing else in this file, or in matex, knows of it."""

    patience_s: float = option(
        2.5, "SECONDS", "how long to wait for coffee", "pauses", name="patience", above=0, below=60,
        unit="seconds",
    )  # fmt: skip


def on_the_command_line(*words: str) -> More:
    parser = Parser(prog="matex run")
    parser.add_argument("script")
    add_options(parser, LaunchOptions, More)
    return make(More, words=given_words(parser.parse_args([*words, "train.py"]), More))


def test_a_new_option_is_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    assert on_the_command_line().patience_s == 2.5
    assert on_the_command_line("--patience", "7").patience_s == 7.0
    assert More.from_environment(patience=8).patience_s == 8.0  # type: ignore[attr-defined]
    monkeypatch.setenv("MATEX_PATIENCE", "9")
    assert on_the_command_line().patience_s == 9.0
    assert on_the_command_line("--patience", "7").patience_s == 7.0

    for wrong in ("long", "0", "60", "nan"):
        with pytest.raises(InputError, match=r"^--patience must be .*60 seconds|above 0 seconds"):
            on_the_command_line("--patience", wrong)
        monkeypatch.setenv("MATEX_PATIENCE", wrong)
        with pytest.raises(InputError, match=r"variable MATEX_PATIENCE must be .* Received: '"):
            on_the_command_line()
    with pytest.raises(InputError, match=r"^patience must be below 60 seconds. Received: patien"):
        More(patience_s=61)

    parser = argparse.ArgumentParser(prog="matex run", add_help=False)
    add_options(parser, LaunchOptions, More)
    shown = " ".join(parser.format_help().split())
    assert "pauses: --patience SECONDS how long to wait for coffee (default: 2.5)" in shown
    reference = sections(ranks=More)
    assert "## Pauses\n" in reference
    assert (
        "| `--patience SECONDS` | `patience` | `MATEX_PATIENCE` | a number above 0 seconds and "
        "below 60 seconds | `2.5` | How long to wait for coffee. |"
    ) in reference


BAD_TEXTS: dict[Kind, list[str]] = {
    KINDS[int]: ["many", "1.5", ""],
    KINDS[float]: ["many", "1,5", "", "nan"],
    KINDS[str]: [""],
    SWITCH: ["maybe", "2", ""],
    PATH: [""],
    TIME: ["90", "soon", "00:00:00", ""],
    WORDS: ["explode:rank=0,step=1"],
    OPTIMIZER: [
        "",
        ":rate=1",
        "adam:",
        "adam:rate",
        "adam:a=1,a=2",
        "a-b",
    ],
    MONITOR: ["", "max:", "min:"],
    FINITE: ["many", "", "nan", "inf"],
    COMPRESSION: ["zip", "powersgd", "powersgd:", "powersgd:0", "powersgd:65", "powersgd:04"],
}


def bad_texts(each: Option) -> list[str]:
    texts = ["none-such"] if each.choices else list(BAD_TEXTS[each.kind])
    for limit in (each.least, each.above, each.below):
        if limit is not None:
            texts.append(f"{limit - 1 if limit is each.least else limit:g}")
    return texts


def allowed(each: Option) -> list[str]:
    """Texts by which a refusal may name the allowed values."""
    if each.kind is WORDS:
        return ["kind must be one of kill"]
    limits = {"at least": each.least, "above": each.above, "below": each.below}
    return [
        each.wanted,
        *(f"{word} {limit:g}" for word, limit in limits.items() if limit is not None),
    ]


def assert_refused(each: Option, line: str, source: str) -> None:
    assert (f"{source} must be " in line) or each.kind is WORDS
    assert any(words in line for words in allowed(each)), line
    assert "Received: " in line
    assert "\n" not in line.strip()


@named(FLAGGED)
def test_a_wrong_word_on_the_command_line_is_refused(
    each: Option, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.touch()
    for text in bad_texts(each):
        with pytest.raises(SystemExit) as ended:
            main(["run", *([] if each.short else ["-n", "2"]), f"{each.flag}={text}", str(script)])
        assert ended.value.code == 2
        line = capsys.readouterr().err
        if each.kind is SWITCH:
            assert f"{each.flag} must be given without a value. Received: {text!r}" in line
        else:
            assert_refused(each, line, each.flag)


@named(VARIABLES)
def test_a_wrong_variable_is_refused(each: Option, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in bad_texts(each):
        monkeypatch.setenv(each.variable, text)
        with pytest.raises((InputError, ft.FaultSyntaxError)) as refused:
            make(Config if each in RANKS else LaunchOptions)
        assert_refused(each, str(refused.value), f"environment variable {each.variable}")


BAD_VALUES: dict[Kind, list[Any]] = {
    OPTIMIZER: [4, "", "adam:"],
    MONITOR: [4, None, "", "max:"],
    COMPRESSION: [4, None, "", "powersgd:x"],
    KINDS[int]: ["3", 1.5, True, []],
    KINDS[float]: ["3", True, [], float("nan")],
    FINITE: ["3", True, float("nan"), float("inf")],
    KINDS[str]: [3, None, ""],
    SWITCH: ["1", 2, None],
    PATH: [3, "", True],
    TIME: ["90", -1.0, float("nan"), None],
    WORDS: [[3], 3, None],
}


@named(ALL)
def test_a_value_of_another_type_is_refused(each: Option) -> None:
    table = Config if each in RANKS else LaunchOptions
    for value in BAD_VALUES[each.kind]:
        if (value is None and each.optional) or value in each.choices:
            continue
        with pytest.raises(InputError) as refused:
            make(table, **{each.name: value})
        assert f"{each.name} must be " in str(refused.value)
        assert f"Received: {each.name}={value!r}" in str(refused.value)


def test_what_is_of_one_meaning_is_taken() -> None:
    config = Config.from_environment(
        report="out", balance=1, wall_time="01:00:00", inject="kill:rank=0,step=1 nan:rank=1,step=2"
    )
    assert config == Config(
        report=Path("out"),
        balance=True,
        wall_time=3600.0,
        inject=("kill:rank=0,step=1", "nan:rank=1,step=2"),
    )


GOOD: dict[Kind, list[Any]] = {
    OPTIMIZER: ["adagrad:learning_rate=1e-2,nesterov=true"],
    MONITOR: ["max:val_accuracy", "loss"],
    COMPRESSION: ["none", "int8", "powersgd:64"],
    KINDS[int]: [5],
    KINDS[float]: [0.5],
    FINITE: [0.5],
    KINDS[str]: ["a b"],
    SWITCH: [True],
    PATH: [Path("/some where/else")],
    TIME: [5400.0],
    WORDS: [("kill:rank=0,step=1", "stop:rank=1,step=2")],
}


def beside(each: Option) -> dict[str, Any]:
    """Options that must be given beside another, by the table and by the rules for several."""
    more: dict[str, Any] = {"strategy": each.strategies[0]} if each.strategies else {}
    also: dict[str, dict[str, Any]] = {
        "outer_every": {"two_level": True},
        "virtual": {"deterministic": True},
        "monitor": {"keep_best": 2},
        "warmup_epochs": {"lr_scaling": "linear", "batch_per_rank": True},
    }
    if each.group == "checkpoints" and not each.hidden:
        more["checkpoint"] = Path("/saved")  # ranks get a full path
    return {**more, **also.get(each.name, {})}


@named([each for each in RANKS if each.flag and each.name != "report"])
def test_ranks_get_each_option_as_the_launcher_has_it(each: Option, tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text("kind,ranks,step\n")
    values = [word for word in each.choices if word] or GOOD[each.kind]
    if each.name == "inject_file":
        values = [Path(__file__).with_name("plan.csv")]
    for value in values:
        more = {} if value == each.default else beside(each)
        if each.name == "lr_scaling":
            more = {"batch_per_rank": True}
        config = make(Config, **{**more, each.name: value})
        parser = Parser()
        parser.add_argument("script")
        add_options(parser, Config)
        words = given_words(parser.parse_args([*rank_options(config), "train.py"]), Config)
        assert Config.from_words(words) == config


def test_what_the_command_line_said_outdoes_the_variable_that_ranks_have_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A default that was asked for must be handed on, or the rank would read its environment."""
    monkeypatch.setenv("MATEX_SEED", "5")
    monkeypatch.setenv("MATEX_CHECK_EVERY", "7")
    config = Config.from_words({"seed": "0", "check_every": "0"})
    assert rank_options(config) == ["--seed", "0", "--check-every", "0"]


def test_the_help_has_the_common_options_first_and_two_examples(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    text = capsys.readouterr().out
    places = [text.index(f"\n{title}:\n") for title in ("examples", *GROUPS)]
    assert places == sorted(places)
    shown = " ".join(text.split())
    for each in FLAGGED:
        assert (f"{each.flag} " in shown) != each.hidden
    assert len(EXAMPLES) == 2
    assert all(line in text for line in EXAMPLES)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_the_help_is_taken(
    example: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    program, command, *words = shlex.split(example)
    assert (program, main([command, "--dry-run", *words])) == ("matex", 0)
    assert "train.py" in capsys.readouterr().out


def test_the_page_of_reference_has_every_name() -> None:
    lines = sections().splitlines()
    rows = [line[2:-2].split(" | ") for line in lines if line.startswith("| ")]
    for each in ALL:
        flag = each.flag and f"{each.flag} {each.metavar}".strip()
        short = f"{each.short} {each.metavar}".strip()
        spelled = f"`{short}`, `{flag}`" if each.short else f"`{flag}`"
        keyword = f"`{each.name}`" if each in RANKS else ""
        names = [spelled if flag else "", keyword, f"`{each.variable}`" if each.variable else ""]
        assert [len(row) for row in rows if row[:3] == names] == [6], each.name
    titles = [line[3:].lower() for line in lines if line.startswith("## ")]
    assert titles == [*GROUPS, SET_BY_RUN]


def test_what_matex_run_sets_is_listed_last() -> None:
    own, _, of_run = sections().partition(f"## {SET_BY_RUN.capitalize()}")
    for each in ALL:
        spelled = f"`{each.flag} {each.metavar}`" if each.metavar else f"`{each.flag}`"
        assert not each.flag or (spelled in (of_run if each.hidden else own)), each.name


def test_the_modes_of_apoptosis_are_those_of_its_schedule() -> None:
    assert tuple(MODES) == APOPTOSIS_MODES
