"""Contradictions between options, spelled as they were given. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matex.config.option import Option, options_of
from matex.errors import InputError

__all__ = ["Contradiction"]


class Contradiction(InputError):
    """The refusal of options that do not go together.

    The message names them as keywords; :attr:`on_command_line` is the same with their flags.

    Args:
        text: message, in which ``{name}`` stands for the option of that name, and ``{name:=}`` for
            the option with its value.
        config: an instance of a class of options.

    Example:
        >>> from matex.config import Config
        >>> text = "{keep} of all is wanted. Received: {keep:=}"
        >>> refused = Contradiction(text, Config(keep=2))
        >>> str(refused)
        'keep of all is wanted. Received: keep=2'
        >>> refused.on_command_line
        '--keep of all is wanted. Received: --keep 2'
    """

    def __init__(self, text: str, config: Any) -> None:
        values = {
            option.name: (option, getattr(config, option.attribute))
            for option in options_of(type(config))
        }
        spelled = {name: _Keyword(*value) for name, value in values.items()}
        super().__init__(text.format_map(spelled))
        flags: Mapping[str, _Flag] = {name: _Flag(*value) for name, value in values.items()}
        self.on_command_line = text.format_map(flags)


class _Keyword:
    """An option as a keyword of ``matex.init``."""

    def __init__(self, option: Option, value: Any) -> None:
        self.option = option
        self.value = value

    def __format__(self, spec: str) -> str:
        return f"{self.option.name}={self.value!r}" if spec == "=" else self.option.name


class _Flag(_Keyword):
    """An option as a flag of the command line."""

    def __format__(self, spec: str) -> str:
        flag = self.option.flag or self.option.name
        if spec != "=" or self.value is True or self.value == self.option.alone:
            return flag
        return f"no {flag}" if self.value is None or self.value is False else f"{flag} {self.value}"
