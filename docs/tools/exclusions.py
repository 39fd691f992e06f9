"""The table of options that exclude each other, found by giving each pair to the checks."""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from matex.config import Config
from matex.config.kinds import COMPRESSION, OPTIMIZER, PATH, SWITCH, TIME, WORDS
from matex.config.option import Option, options_of
from matex.config.options import STRATEGIES, RankOptions
from matex.errors import InputError

__all__ = ["Setting", "compatible", "exclusion_table", "settings"]

_SAMPLES: dict[Any, tuple[Any, ...]] = {
    SWITCH: (True,),
    TIME: (3600.0,),
    PATH: ("DIR",),
    COMPRESSION: ("bf16", "powersgd:2"),
    OPTIMIZER: ("sgd:learning_rate=1",),
    WORDS: ("kill:rank=1,step=1",),
}
_VALUES: dict[str, tuple[Any, ...]] = {
    "apoptosis": ("adaptive",),
    "check_every": (0,),
    "inject_file": (),  # a file is read
    "sync_every": (2, 1),
}
# Values that exclude something which others of the same option do not.
_TOLD = frozenset({("check_every", 0), ("sync_every", 1)})


class Setting(NamedTuple):
    """An option with a value other than its default."""

    option: Option
    value: Any

    @property
    def name(self) -> str:
        return self.option.name

    @property
    def text(self) -> str:
        """The setting on the command line; its value only where it counts."""
        flag = self.option.flag or self.option.variable
        if self.value == "powersgd:2":
            return f"`{flag} powersgd:R`"
        told = (self.name, self.value) in _TOLD
        told |= bool(self.option.choices) and self.name not in _VALUES
        return f"`{flag} {self.value}`" if told else f"`{flag}`"


def settings() -> list[Setting]:
    """Each option of ranks that a user may give, with its values."""
    return [
        Setting(option, value)
        for option in options_of(RankOptions)
        if not option.hidden
        for value in _values(option)
    ]


def _values(option: Option) -> tuple[Any, ...]:
    if option.name in _VALUES:
        return _VALUES[option.name]
    if option.choices:
        return tuple(word for word in option.choices if word not in ("", option.default))
    if option.kind in _SAMPLES:
        return _SAMPLES[option.kind]
    middle = 0.5 if option.below == 1 else 2
    return () if isinstance(option.default, str) else (middle,)


@functools.cache
def _contexts() -> tuple[dict[str, Any], ...]:
    """Settings beside which others may be right, by strategy."""
    beside: tuple[dict[str, Any], ...] = (
        *({}, {"two_level": True}, {"deterministic": True}, {"batch_per_rank": True}),
    )
    return tuple({"strategy": name} | more for name in STRATEGIES for more in beside)


def compatible(*given: Setting, strategies: tuple[str, ...] = STRATEGIES) -> bool:
    """Whether the *given* go together, with whatever else they want."""
    own = {setting.name: setting.value for setting in given}
    for context in _contexts():
        if context["strategy"] in strategies and _agrees(own, context) and _is_right(context | own):
            return True
    return False


def _agrees(own: dict[str, Any], context: dict[str, Any]) -> bool:
    return own.get("strategy", context["strategy"]) == context["strategy"]


def _is_right(given: dict[str, Any]) -> bool:
    try:
        Config(**given)
    except InputError:
        return False
    return True


def _strategies_of(setting: Setting) -> frozenset[str]:
    return frozenset(name for name in STRATEGIES if compatible(setting, strategies=(name,)))


def exclusion_table() -> str:
    """A line for each option that does not go with all others."""
    found = [setting for setting in settings() if setting.name != "strategy"]
    taken = {setting: _strategies_of(setting) for setting in found}
    excluded: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for one, other in _pairs(found):
        # Those of different strategies are told by the column of strategies.
        if taken[one] & taken[other] and not compatible(one, other):
            excluded[one.text][other.text] = None
            excluded[other.text][one.text] = None
    lines = ["| Option | Strategies | Does not go with |", "| --- | --- | --- |"]
    for text, strategies in {setting.text: taken[setting] for setting in found}.items():
        if text in excluded or len(strategies) < len(STRATEGIES):
            lines.append(f"| {text} | {_names(strategies)} | {', '.join(excluded[text]) or '-'} |")
    return "\n".join(lines)


def _names(strategies: frozenset[str]) -> str:
    if len(strategies) == len(STRATEGIES):
        return "all"
    return ", ".join(f"`{name}`" for name in STRATEGIES if name in strategies)


def _pairs(found: list[Setting]) -> Iterator[tuple[Setting, Setting]]:
    for one, other in itertools.combinations(found, 2):
        if one.name != other.name:
            yield one, other
