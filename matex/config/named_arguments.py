"""Names followed by arguments, such as ``adagrad:learning_rate=0.01,nesterov=true``. Pure."""

from __future__ import annotations

from math import isfinite

__all__ = ["KERAS_OPTIMIZERS", "named_arguments"]

#: Keras's optimizers by their names in lower case, known before Keras is imported: those of any
#: version, of which an older one lacks some.
KERAS_OPTIMIZERS = (
    *("adadelta", "adafactor", "adagrad", "adam", "adamax", "adamw", "ftrl", "lamb", "lion"),
    *("muon", "nadam", "rmsprop", "schedulefreeadamw", "sgd"),
)

_SWITCHES = {"true": True, "false": False}


def named_arguments(text: str) -> tuple[str, dict[str, float | bool]]:
    """Name in *text*, and its arguments.

    Raises:
        ValueError: *text* has another form.
    """
    name, colon, rest = text.partition(":")
    pairs = [pair.partition("=")[::2] for pair in rest.split(",")] if colon else []
    arguments = {key: _value(value) for key, value in pairs}
    if len(arguments) < len(pairs) or not all(key.isidentifier() for key in (name, *arguments)):
        raise ValueError
    return name, arguments


def _value(text: str) -> float | bool:
    if text in _SWITCHES:
        return _SWITCHES[text]
    number = float(text)
    if not isfinite(number):
        raise ValueError
    return number
