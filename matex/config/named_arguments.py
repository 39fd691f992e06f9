"""Names followed by arguments, such as ``adagrad:learning_rate=0.01,nesterov=true``. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, nan

__all__ = ["KERAS_OPTIMIZERS", "named_arguments", "unfit_argument"]

#: Keras's optimizers by their names in lower case, known before Keras is imported: those of any
#: version, of which an older one lacks some.
KERAS_OPTIMIZERS = (
    *("adadelta", "adafactor", "adagrad", "adam", "adamax", "adamw", "ftrl", "lamb", "lion"),
    *("muon", "nadam", "rmsprop", "schedulefreeadamw", "sgd"),
)

_SWITCHES = {"true": True, "false": False}
_CLIPS = ("clipnorm", "clipvalue", "global_clipnorm")
_SHARES = ("beta_1", "beta_2", "adam_beta_1", "adam_beta_2", "momentum", "rho")

Value = float | bool | str
"""Of an argument; a text where it is neither a number nor true or false."""


def named_arguments(text: str) -> tuple[str, dict[str, Value]]:
    """Name in *text*, and its arguments.

    Raises:
        ValueError: *text* has another form.
    """
    name, colon, rest = text.partition(":")
    pairs = [pair.partition("=") for pair in rest.split(",")] if colon else []
    arguments = {key: _value(value) for key, _, value in pairs}
    if len(arguments) < len(pairs) or not all(key.isidentifier() for key in (name, *arguments)):
        raise ValueError
    if not all(equals for _, equals, _ in pairs):
        raise ValueError
    return name, arguments


def unfit_argument(arguments: Mapping[str, Value]) -> str:
    """Requirement that the first unfit argument misses, with its name; "" if all fit. Pure.

    Only what all of them share is looked at: the rest is Keras's to refuse.
    """
    for key, value in arguments.items():
        number = value if isinstance(value, float) else nan
        if key == "learning_rate":
            fits, wanted = 0 < number < inf, "a finite number above 0"
        elif key in _SHARES:
            fits, wanted = 0 <= number < 1, "a number of at least 0 and below 1"
        elif key in _CLIPS:
            fits, wanted = 0 <= number < inf, "a finite number of at least 0"
        else:
            fits = isinstance(value, bool) or -inf < number < inf
            wanted = "a finite number, true or false"
        if not fits:
            return f"{wanted} as {key}"
    if len(arguments.keys() & set(_CLIPS)) > 1:
        return f"one of {', '.join(_CLIPS[:-1])} and {_CLIPS[-1]} at most"
    return ""


def _value(text: str) -> Value:
    if text in _SWITCHES:
        return _SWITCHES[text]
    try:
        return float(text)
    except ValueError:
        return text
