"""The values of a class of options: from the command line, from code, or the environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from matex.config.environment import variable, variables_of_options
from matex.config.kinds import WORDS
from matex.config.option import Option, options_of, variable_of
from matex.errors import InputError

__all__ = ["given_in_environment", "make", "names_given", "overruled", "without_effect"]

Table = TypeVar("Table")


def make(table: type[Table], *, words: Mapping[str, Any] | None = None, **given: Any) -> Table:
    """Instance of *table*; an option that is not given is read from its variable.

    Args:
        table: a class of options.
        words: words of the command line, by the names of options: a text, True for a switch, and
            texts for an option that may be repeated; none by default. Other names are ignored.
        given: values from code, by the names of options.

    Raises:
        InputError: a value or a name is wrong; the message says where it was given.
    """
    options = options_of(table)
    _refuse_unknown(options, given)
    values = {}
    for option in options:
        if option.name in given:
            values[option.attribute] = given[option.name]
        elif words is not None and option.name in words:
            values[option.attribute] = _of_word(option, words[option.name])
        elif (text := given_in_environment(option)) is not None:
            values[option.attribute] = option.read(text, f"environment variable {option.variable}")
    return table(**values)


def overruled(config: Any, given: Mapping[str, Any]) -> list[str]:
    """Lines about options that code sets too late, with other values than *config* has.

    Args:
        config: instance of a class of options, with which a run has begun.
        given: values from code, by the names of options.

    Raises:
        InputError: a name is wrong.
    """
    options = options_of(type(config))
    _refuse_unknown(options, given)
    lines = []
    for option in options:
        name, value = option.name, getattr(config, option.attribute)
        if name in given and str(given[name]) != str(value):
            where = f"; matex run takes it as {option.flag}" if option.flag else ""
            lines.append(
                f"{name}={given[name]!r} in matex.init has no effect: the run has begun with "
                f"{name}={value!r}{where}"
            )
    return lines


def _refuse_unknown(options: Sequence[Option], given: Mapping[str, Any]) -> None:
    unknown = given.keys() - {option.name for option in options}
    if unknown:
        known = ", ".join(option.name for option in options)
        raise InputError(f"options are {known}. Received: {', '.join(sorted(unknown))}")


def names_given(table: type, words: Mapping[str, Any]) -> set[str]:
    """Names of the options of *table* that *words* of a command line or variables give."""
    return {
        option.name
        for option in options_of(table)
        if option.name in words or given_in_environment(option) is not None
    }


def given_in_environment(option: Option) -> str | None:
    """Text of the variable of *option*; None if it has none or is not set."""
    return variable(option.variable) if option.variable else None


def without_effect(*tables: type) -> list[str]:
    """Names of the variables that are set, and that no option of *tables* is read from.

    After each, in brackets, the option to be given instead, if it is named after one.
    """
    options = [option for table in tables for option in options_of(table)]
    read = {option.variable for option in options}
    instead = {variable_of(option.name): option.short or option.flag for option in options}
    return [
        f"{name} (give {instead[name]})" if name in instead else f"{name} (not known)"
        for name in variables_of_options()
        if name not in read
    ]


def _of_word(option: Option, word: Any) -> Any:
    if word is True:
        return True
    if option.kind is WORDS:
        return tuple(word)
    return option.read(word, "/".join(filter(None, (option.short, option.flag))))
