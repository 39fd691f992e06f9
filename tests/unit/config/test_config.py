"""One configuration from options and environment; wrong values are told in one line."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import ft
from matex.config import HASH_SEED, Config, duration_s, duration_text, one_order_of_sets
from matex.config.given import overruled
from matex.errors import InputError

PLAN = Path(__file__).with_name("plan.csv")

GIVEN = {
    "report": (Path("out"), "out"),
    "checkpoint": (Path("saved"), "saved"),
    "checkpoint_every": (25, "25"),
    "checkpoint_interval": (90.0, "90"),
    "checkpoint_part_mb": (0.5, "0.5"),
    "keep": (7, "7"),
    "keep_every": (500, "500"),
    "keep_best": (2, "2"),
    "monitor": ("max:val_accuracy", "max:val_accuracy"),
    "memory": (Path("/dev/shm/mine"), "/dev/shm/mine"),
    "memory_every": (2.5, "2.5"),
    "seed": (11, "11"),
    "spares": (2, "2"),
    "respawn": (3, "3"),
    "inject": (("kill:rank=0,step=1", "nan:rank=1,step=2"), "kill:rank=0,step=1 nan:rank=1,step=2"),
    "inject_file": (PLAN, str(PLAN)),
    "hang_timeout": (2.5, "2.5"),
    "nonfinite": ("skip", "skip"),
    "straggler": ("evict", "evict"),
    "check_every": (40, "40"),
    "share_loops": ("never", "never"),
    "threads": (3, "3"),
    "exchange": ("host", "host"),
    "apoptosis": ("natural", "natural"),
    "grow_to": (4, "4"),
    "cold": (6, "6"),
    "shown_ranks": (4, "4"),
    "shown_columns": (80, "80"),
    "redirected": (True, "1"),
    "start_number": (3, "3"),
    "standard_input": ("file:matex-input", "file:matex-input"),
    "wall_time": (5400.0, "01:30:00"),
    "strategy": ("gossip", "gossip"),
    "shuffle": ("ring", "ring"),
    "ranks_per_node": (2, "2"),
    "sync_every": (8, "8"),
    "two_level": (True, "1"),
    "outer_every": (3, "3"),
    "asynchronous": (True, "1"),
    "elastic_force": (0.25, "0.25"),
    "staleness_bound": (3, "3"),
    "momentum": (0.5, "0.5"),
    "centre_optimizer": ("adagrad:learning_rate=0.01", "adagrad:learning_rate=0.01"),
    "balance": (True, "1"),
    "sync_batchnorm": (True, "1"),
    "deterministic": (True, "1"),
    "virtual": (8, "8"),
    "batch_per_rank": (True, "1"),
    "lr_scaling": ("none", "none"),
    "warmup_epochs": (1.5, "1.5"),
    "compression": ("bf16", "bf16"),
    "exchange_plan": ("slices", "slices"),
    "strict": (True, "1"),
    "cache": (Path("kept"), "kept"),
}

# What must be given beside it.
BESIDE: dict[str, dict[str, Any]] = {
    "ranks_per_node": {"strategy": "daso"},
    "sync_every": {"strategy": "easgd"},
    "two_level": {"strategy": "downpour"},
    "outer_every": {"strategy": "easgd", "two_level": True},
    "asynchronous": {"strategy": "easgd"},
    "elastic_force": {"strategy": "easgd"},
    "staleness_bound": {"strategy": "downpour"},
    "momentum": {"strategy": "downpour"},
    "centre_optimizer": {"strategy": "downpour"},
    "virtual": {"deterministic": True},
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
    beside = BESIDE.get(name, {})
    assert Config.from_environment(**beside) == Config(**{name: value}, **beside)


@pytest.mark.parametrize(("set_to", "added"), [(None, "7"), ("random", "7"), ("3", None)])
def test_sets_have_one_order_unless_the_user_says_which(
    set_to: str | None, added: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(HASH_SEED, raising=False)
    if set_to is not None:
        monkeypatch.setenv(HASH_SEED, set_to)
    assert one_order_of_sets(2**32 + 7) == ({} if added is None else {HASH_SEED: added})


def test_what_is_given_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MATEX_SEED", "not even a number")
    monkeypatch.setenv("MATEX_KEEP", "5")
    config = Config.from_environment(seed=4)
    assert (config.seed, config.keep) == (4, 5)


def test_faults_are_parsed() -> None:
    config = Config(inject=("kill:rank=0,step=1",), inject_file=PLAN)
    assert [fault.text for fault in config.faults] == [
        "kill:rank=0,step=1", "kill:rank=2,step=40", "stop:rank=1+3,time=12.5,at=recovery"
    ]  # fmt: skip
    assert [fault.where for fault in config.faults] == ["", f"{PLAN}, line 3", f"{PLAN}, line 4"]


BAD: list[tuple[dict[str, Any], str]] = [
    (
        {"checkpoint_every": -1},
        "checkpoint_every must be at least 0 steps. Received: checkpoint_every=-1",
    ),
    ({"keep": 0}, "keep must be at least 1. Received: keep=0"),
    ({"seed": -3}, "seed must be at least 0. Received: seed=-3"),
    ({"threads": -1}, "threads must be at least 0. Received: threads=-1"),
    ({"hang_timeout": 0.0}, "hang_timeout must be above 0 seconds. Received: hang_timeout=0.0"),
    ({"hang_timeout": float("nan")}, "Received: hang_timeout=nan"),
    ({"memory_every": 0.0}, "memory_every must be above 0 seconds. Received: memory_every=0.0"),
    ({"checkpoint_interval": float("nan")}, "checkpoint_interval must be at least 0"),
    (
        {"exchange": "smoke"},
        "exchange must be one of auto, native, host. Received: exchange='smoke'",
    ),
    (
        {"nonfinite": "pray"},
        "nonfinite must be one of stop, skip, recompute. Received: nonfinite='pray'",
    ),
    ({"check_every": -1}, "check_every must be at least 0 steps. Received: check_every=-1"),
    ({"inject_file": Path("none.csv")}, "Received: none.csv: No such file or directory"),
    ({"inject_file": Path(__file__)}, "test_config.py, line 1: "),
    (
        {"strategy": "rumour"},
        "one of sync, gossip, daso, easgd, downpour. Received: strategy='rumour'",
    ),
    (
        {"compression": "zip"},
        "compression must be one of none, fp16, bf16, int8, powersgd:R with R from 1 to 64",
    ),
    (
        {"warmup_epochs": -1.0},
        "warmup_epochs must be at least 0 epochs. Received: warmup_epochs=-1.0",
    ),
    ({"lr_scaling": "linear"}, "give batch_per_rank too. Received: lr_scaling='linear'"),
    (
        {"apoptosis": "natural", "strategy": "easgd"},
        "apoptosis wants strategy sync: all ranks must remove the same units. "
        "Received: apoptosis='natural' with strategy='easgd'",
    ),
    (
        {"compression": "bf16", "strategy": "easgd"},
        "as they are. Received: compression='bf16' with strategy='easgd'",
    ),
    (
        {"compression": "powersgd:4", "strategy": "gossip"},
        "gossip takes fp16, bf16 and int8. Received: compression='powersgd:4'",
    ),
    (
        {"compression": "int8", "exchange_plan": "flat"},
        "Received: exchange_plan='flat' with compression='int8'",
    ),
    (
        {"compression": "powersgd:4", "exchange": "native"},
        "compression powersgd is computed by NumPy: leave exchange out, or give another "
        "compression. Received: exchange='native' with compression='powersgd:4'",
    ),
    ({"balance": True, "strategy": "daso"}, "balance wants strategy sync"),
    ({"sync_batchnorm": True, "strategy": "gossip"}, "sync_batchnorm wants strategy sync"),
    ({"deterministic": True, "strategy": "gossip"}, "deterministic wants strategy sync"),
    ({"virtual": 8}, "virtual workers are for deterministic: give it too. Received: virtual=8"),
    ({"deterministic": True, "virtual": 4097}, "virtual must be below 4097"),
    ({"deterministic": True, "compression": "bf16"}, "does not go with compression"),
    ({"deterministic": True, "batch_per_rank": True}, "does not go with batch_per_rank"),
    ({"deterministic": True, "shuffle": "ring"}, "does not go with shuffle"),
    ({"deterministic": True, "apoptosis": "natural"}, "Received: apoptosis='natural'"),
    ({"deterministic": True, "nonfinite": "skip"}, "Received: nonfinite='skip'"),
    ({"straggler": "balance", "strategy": "easgd"}, "straggler balance wants strategy sync"),
    ({"straggler": "evict", "check_every": 0}, "give check_every too. Received: straggler='evict'"),
    ({"straggler": "balance", "spares": 1}, "straggler='balance'"),
    (
        {"ranks_per_node": 2},
        "for strategy daso and easgd and downpour. Received: ranks_per_node=2 with strategy='sync'",
    ),
    (
        {"ranks_per_node": 2, "strategy": "easgd"},
        "with strategy easgd ranks_per_node is for two levels: give two_level too. "
        "Received: ranks_per_node=2 without it",
    ),
    ({"two_level": True, "strategy": "daso"}, "two_level is for strategy easgd and downpour. "),
    ({"outer_every": 3, "strategy": "downpour"}, "Received: outer_every=3 without it"),
    ({"outer_every": 1, "strategy": "easgd", "two_level": True}, "Received: outer_every=1"),
    ({"outer_every": -1}, "outer_every must be at least 2. Received: outer_every=-1"),
    ({"sync_every": 2}, "easgd and downpour. Received: sync_every=2 with strategy='sync'"),
    ({"sync_every": 0}, "sync_every must be at least 1. Received: sync_every=0"),
    ({"outer_every": 0}, "outer_every must be at least 2. Received: outer_every=0"),
    ({"asynchronous": True, "strategy": "downpour"}, "asynchronous is for strategy easgd. "),
    ({"asynchronous": True, "strategy": "easgd", "sync_every": 1}, "Received: sync_every=1"),
    ({"elastic_force": 0.0, "strategy": "easgd"}, "must be above 0. Received: elastic_force=0.0"),
    ({"elastic_force": 1.0, "strategy": "easgd"}, "must be below 1. Received: elastic_force=1.0"),
    ({"elastic_force": 0.5, "strategy": "downpour"}, "elastic_force is for strategy easgd. "),
    ({"staleness_bound": 0, "strategy": "easgd"}, "staleness_bound is for strategy downpour. "),
    ({"staleness_bound": -1, "strategy": "downpour"}, "Received: staleness_bound=-1"),
    ({"momentum": 1.0, "strategy": "downpour"}, "must be below 1. Received: momentum=1.0"),
    ({"momentum": 0.9, "strategy": "gossip"}, "momentum is for strategy downpour. "),
    ({"centre_optimizer": "adam", "strategy": "easgd"}, "is for strategy downpour. Received: "),
    (
        {"centre_optimizer": "adam", "momentum": 0.5, "strategy": "downpour"},
        "Received: momentum=0.5 with centre_optimizer='adam'",
    ),
    (
        {"centre_optimizer": "foo:learning_rate=1", "strategy": "downpour"},
        "sgd; adagrad:learning_rate=0.01 is one with an argument. "
        "Received: centre_optimizer='foo:learning_rate=1'",
    ),
    (
        {"centre_optimizer": "adam:learning_rate=0", "strategy": "downpour"},
        "centre_optimizer must have a finite number above 0 as learning_rate. "
        "Received: centre_optimizer='adam:learning_rate=0'",
    ),
    ({"spares": 1, "strategy": "downpour"}, "spares wants strategy sync"),
    ({"respawn": 1, "strategy": "gossip"}, "respawn wants strategy sync"),
    ({"respawn": 1, "balance": True}, "respawn wants a constant global batch in equal shares"),
    ({"shuffle": "riffle"}, "shuffle must be one of whole, ring. Received: shuffle='riffle'"),
    ({"shuffle": "ring", "balance": True}, "shuffle ring wants equal shares"),
    ({"shuffle": "ring", "straggler": "balance"}, "Received: straggler='balance'"),
    ({"shuffle": "ring", "spares": 2}, "of the ranks that begin. Received: spares=2"),
    ({"inject": ("explode:rank=0,step=1",)}, "kind must be one of"),
]


@pytest.mark.parametrize(("options", "said"), BAD)
def test_a_wrong_value_is_refused_in_one_line(options: dict[str, Any], said: str) -> None:
    with pytest.raises((InputError, ft.UsageError)) as caught:
        Config.from_environment(**options)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            {"shuffle": "ring", "spares": "2"},
            "--shuffle ring wants equal shares of the ranks that begin. Received: --spares 2",
        ),
        (
            {"respawn": "1000000", "strategy": "gossip"},
            "Received: --respawn with --strategy gossip",
        ),
        (
            {"sync_batchnorm": True, "strategy": "gossip"},
            "Received: --sync-batchnorm with --strategy gossip",
        ),
    ],
)
def test_on_the_command_line_options_that_do_not_go_together_have_its_names(
    words: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError) as refused:
        Config.from_words(words)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("words", "wanted", "beside"),
    [
        ({"warmup_epochs": "3"}, "--lr-scaling", {"lr_scaling": "linear", "batch_per_rank": True}),
        ({"warmup_epochs": "5"}, "--lr-scaling", {"lr_scaling": "linear", "batch_per_rank": True}),
        ({"virtual": "0"}, "--deterministic", {"deterministic": True}),
        ({"monitor": "val_loss"}, "--keep-best K", {"keep_best": "1", "checkpoint": "saved"}),
    ],
)
def test_an_option_that_has_an_effect_beside_another_wants_it(
    words: dict[str, Any], wanted: str, beside: dict[str, Any]
) -> None:
    (name,) = words
    alone = {**words, **({"checkpoint": "saved"} if name == "monitor" else {})}
    with pytest.raises(InputError) as refused:
        Config.from_words(alone)
    flag = f"--{name.replace('_', '-')}"
    assert f"{flag} wants {wanted}, where it has an effect. Received: {flag} " in str(refused.value)
    Config.from_words({**words, **beside})
    Config.from_environment(**{name: getattr(Config(), name)})  # of a script's own


@pytest.mark.parametrize(
    ("words", "received"),
    [
        ({"keep_best": "2"}, "--keep-best 2"),
        ({"keep": "5"}, "--keep 5"),
        ({"keep": "3"}, "--keep 3"),  # the default, which was given all the same
        ({"checkpoint_every": "0"}, "--checkpoint-every 0"),
        ({"keep_every": "50"}, "--keep-every 50"),
        ({"monitor": "max:accuracy"}, "--monitor max:accuracy"),
        ({"checkpoint_every": "9"}, "--checkpoint-every 9"),
        ({"checkpoint_interval": "9"}, "--checkpoint-interval 9.0"),
        ({"checkpoint_part_mb": "0"}, "--checkpoint-part-mb 0.0"),
    ],
)
def test_options_of_checkpoints_in_files_want_a_directory(
    words: dict[str, Any], received: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((name, text),) = words.items()
    flag = f"--{name.replace('_', '-')}"
    said = f"{flag} wants --checkpoint DIR, where it has an effect. Received: {received} without it"
    with pytest.raises(InputError) as refused:
        Config.from_words(words)
    assert str(refused.value) == said
    best = {"keep_best": "2", **words} if name == "monitor" else words
    assert Config.from_words({**best, "checkpoint": "saved"}).checkpoint == Path("saved")
    monkeypatch.setenv(f"MATEX_{name.upper()}", text)
    with pytest.raises(InputError) as refused:
        Config.from_words({})
    assert str(refused.value) == said
    Config.from_environment()  # of matex.init: a script may leave the directory to its caller


def test_an_unknown_option_is_named_beside_the_known_ones() -> None:
    with pytest.raises(InputError) as caught:
        Config.from_environment(batch_size=3)
    assert "batch_size" in str(caught.value)
    assert "checkpoint_every" in str(caught.value)


def test_keywords_that_come_too_late_are_named() -> None:
    config = Config(strategy="gossip", seed=3)
    assert overruled(config, {"strategy": "gossip", "seed": 3}) == []
    assert overruled(config, {"seed": 4}) == [
        "seed=4 in matex.init has no effect: the run has begun with seed=3; "
        "matex run takes it as --seed"
    ]
    with pytest.raises(InputError, match="Received: sed"):
        overruled(config, {"sed": 4})


def test_it_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().seed = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("00:00:01", 1), ("01:30:00", 5400), ("100:00:00", 360_000), ("2-01:00:00", 176_400)],
)
def test_a_duration_is_written_as_batch_systems_do(text: str, seconds: float) -> None:
    assert duration_s(text) == seconds
    assert duration_s(duration_text(seconds)) == seconds


@pytest.mark.parametrize("text", ["", "90", "1:2", "01:60:00", "00:00:00", "-01:00:00", "1h"])
def test_another_duration_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"a time HH:MM:SS above zero was wanted"):
        duration_s(text)
    monkeypatch.setenv("MATEX_WALL_TIME", text)
    with pytest.raises(InputError, match=r"MATEX_WALL_TIME must be a time HH:MM:SS"):
        Config.from_environment()


def test_what_is_left_of_a_duration_is_rounded_up() -> None:
    assert (duration_text(0.2), duration_text(59.5)) == ("00:00:01", "00:01:00")


def test_a_plan_of_a_spreadsheet_begins_with_a_mark_of_its_encoding(tmp_path: Path) -> None:
    path = tmp_path / "plan.csv"
    path.write_text("kind,rank,step\nkill,1,2\n", encoding="utf-8-sig")
    (fault,) = Config(inject_file=path).faults
    assert fault.written() == ft.parse_fault("kill:rank=1,step=2").written()
