"""One row of the table of options, with reading and checking of its values. Pure."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from typing import Any

from matex.config.kinds import KINDS, Kind
from matex.errors import InputError

__all__ = ["Option", "check_values", "option", "options_of", "variable_of"]

_ROW = "option"  # under which a field's metadata has the arguments of its row


@dataclasses.dataclass(frozen=True, kw_only=True)
class Option:
    """One option, with all of its names.

    Args:
        attribute: field that has its value.
        name: keyword of ``matex.init``; flag and variable are derived from it.
        kind: kind of its values.
        optional: whether None is a value, for values that matex determines itself.
        default: value if none is given.
        default_text: description of the default; "" for none.
        metavar: placeholder of the value in the help, such as ``STEPS``.
        help: description, a sentence without its final period.
        group: title under which help and reference list it.
        unit: unit of its values, for messages; "" for none.
        choices: allowed words; empty for any.
        least: the smallest value; None for no limit.
        above: limit that the value must exceed; None for no limit.
        below: limit that must exceed the value; None for no limit.
        strategies: strategies under which it may differ from its default; empty for all.
        why: reason for that, if the strategies do not tell.
        two_level: strategies under which it wants ``--two-level``, too; empty for none.
        condition: options required beside it, in the help; made from *strategies* by default.
        flag: spelling on the command line; "" if it has none.
        short: second spelling, of one letter; "" for none.
        variable: environment variable; "" for none.
        hidden: whether the help omits it, because ``matex run`` passes it to ranks.
        alone: value if the flag has none on the command line; None if it must have one.
    """

    attribute: str
    name: str
    kind: Kind
    optional: bool
    default: Any
    default_text: str
    metavar: str
    help: str
    group: str
    unit: str = ""
    choices: tuple[str, ...] = ()
    least: float | None = None
    above: float | None = None
    below: float | None = None
    strategies: tuple[str, ...] = ()
    why: str = ""
    two_level: tuple[str, ...] = ()
    condition: str = ""
    flag: str = ""
    short: str = ""
    variable: str = ""
    hidden: bool = False
    alone: Any = None

    @property
    def wanted(self) -> str:
        """Description of its allowed values, for messages."""
        if self.choices:
            return f"one of {', '.join(word for word in self.choices if word)}"
        return " and ".join([self.kind.wanted, *self._limits]).replace(" and ", " ", 1)

    @property
    def _limits(self) -> list[str]:
        unit = f" {self.unit}" if self.unit else ""
        limits = (("of at least", self.least), ("above", self.above), ("below", self.below))
        return [f"{words} {limit:.15g}{unit}" for words, limit in limits if limit is not None]

    @property
    def condition_and_help(self) -> str:
        """Help after its condition, such as ``with --strategy easgd``."""
        condition = self.condition
        if self.strategies and not self.why and not condition:
            condition = f"with --strategy {' or '.join(self.strategies)}"
        return f"{condition}: {self.help}" if condition else self.help

    @property
    def help_line(self) -> str:
        """Help with its condition and default."""
        text = self.condition_and_help
        return f"{text} (default: {self.default_text})" if self.default_text else text

    @property
    def value_text(self) -> str:
        """Value in the help, after the flag; "" for a switch."""
        if self.metavar or not self.choices:
            return self.metavar
        return f"{{{','.join(self.choices)}}}"

    def read(self, text: str, source: str) -> Any:
        """The value of *text*.

        Args:
            source: place of the text, such as ``--seed``, for the message.

        Raises:
            InputError: the text is of another kind, or out of range.
        """
        try:
            value = self.kind.read(text)
        except ValueError:
            raise self._refusal(self.wanted, source, repr(text)) from None
        self._limit(value, source, repr(text))
        return value

    def take(self, value: Any) -> Any:
        """The value that a program gave, in the kind's own type.

        Raises:
            InputError: the value is of another type, or out of range.
        """
        if value is None and self.optional:
            return None
        received = f"{self.name}={value!r}"
        try:
            taken = self.kind.take(value)
        except (TypeError, ValueError, OverflowError):
            raise self._refusal(self.wanted, self.name, received) from None
        self._limit(taken, self.name, received)
        return taken

    def _limit(self, value: Any, source: str, received: str) -> None:
        """Refuse a *value* out of range; NaN is out of every range."""
        unit = f" {self.unit}" if self.unit else ""
        if value not in self.choices if self.choices else value == "":
            raise self._refusal(self.wanted, source, received)
        if self.least is not None and not value >= self.least:
            raise self._refusal(f"at least {self.least:.15g}{unit}", source, received)
        if self.above is not None and not value > self.above:
            raise self._refusal(f"above {self.above:.15g}{unit}", source, received)
        if self.below is not None and not value < self.below:
            raise self._refusal(f"below {self.below:.15g}{unit}", source, received)

    @staticmethod
    def _refusal(wanted: str, source: str, received: str) -> InputError:
        return InputError(f"{source} must be {wanted}. Received: {received}")


def option(
    default: Any,
    metavar: str,
    help: str,
    group: str,
    **more: Any,
) -> Any:
    """Row of an option, as the default of its field in a class of options.

    Args:
        default: value if none is given.
        metavar: placeholder in the help; "" for the choices, or for none.
        help: description.
        group: title under which it is listed.
        more: further fields of :class:`Option` that differ from their defaults: ``name`` is the
            field's, ``flag`` and ``variable`` follow from the name, ``kind`` from the field's type,
            ``default_text`` from the default.
    """
    row = {"metavar": metavar, "help": help, "group": group, **more}
    return dataclasses.field(default=default, metadata={_ROW: row})


def variable_of(name: str) -> str:
    """Environment variable of the option *name*, where it has one."""
    return f"MATEX_{name.upper()}"


def options_of(table: type) -> tuple[Option, ...]:
    """Options of *table*, a class of options, in order."""
    return _options_of(table)


@functools.cache
def _options_of(table: Any) -> tuple[Option, ...]:
    hints = typing.get_type_hints(table)
    return tuple(
        _option_of(field, hints[field.name])
        for field in dataclasses.fields(table)
        if _ROW in field.metadata
    )


def _option_of(field: dataclasses.Field[Any], hint: Any) -> Option:
    row = dict(field.metadata[_ROW])
    optional = typing.get_origin(hint) in (typing.Union, types.UnionType)
    kind = row.pop("kind", None) or KINDS[typing.get_args(hint)[0] if optional else hint]
    name = row.pop("name", field.name)
    spelled = {
        "flag": f"--{name.replace('_', '-')}",
        "variable": variable_of(name),
        "default_text": str(field.default) if field.default not in (None, "", (), False) else "",
    }
    return Option(
        attribute=field.name,
        name=name,
        kind=kind,
        optional=optional,
        default=field.default,
        **{**spelled, **row},
    )


def check_values(values: Any) -> None:
    """Check each option of *values*, an instance of a class of options, and convert it.

    Raises:
        InputError: naming the first that is of another type, or out of range.
    """
    for each in options_of(type(values)):
        object.__setattr__(values, each.attribute, each.take(getattr(values, each.attribute)))
