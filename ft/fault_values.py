"""Values of a fault's written form, and their checks. Pure."""

from __future__ import annotations

import math
from typing import NamedTuple

from ft.errors import FaultSyntaxError

__all__ = ["FaultValues"]


class FaultValues(NamedTuple):
    """Keys and values of a fault as given, with checks of the values.

    Args:
        text: the whole written form, for messages.
        given: value by key, as text.
    """

    text: str
    given: dict[str, str]

    def one_of(self, key: str, known: tuple[str, ...], default: str) -> str:
        """Value of *key*, one of *known*, or *default* where the key is absent."""
        value = self.given.get(key, default)
        if key in self.given and value not in known:
            raise FaultSyntaxError(
                f"fault {self.text!r}: {key} must be one of {', '.join(known)}. Received: {value!r}"
            )
        return value

    def whole(self, key: str, value: str, *, least: int = 0, limit: int | None = None) -> int:
        """Number of *value*, which is given for *key*."""
        number = int(value) if value.isascii() and value.isdecimal() else -1
        if number < least or (limit is not None and number > limit):
            upper = "" if limit is None else f" to {limit}"
            raise FaultSyntaxError(
                f"fault {self.text!r}: {key} must be a whole number from {least}{upper}. "
                f"Received: {value!r}"
            )
        return number

    def real(self, key: str, default: str) -> float:
        """Finite number of *key*, from 0."""
        value = self.given.get(key, default)
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not 0 <= number < math.inf:
            raise FaultSyntaxError(
                f"fault {self.text!r}: {key} must be a number from 0. Received: {value!r}"
            )
        return number

    def ranks(self) -> tuple[int, ...]:
        """Numbers of the key ``rank``, each once."""
        value = self.given["rank"]
        numbers = tuple(self.whole("rank", number) for number in value.split("+"))
        if len(set(numbers)) < len(numbers):
            raise FaultSyntaxError(
                f"fault {self.text!r}: rank must name each rank once, such as 1+3. "
                f"Received: {value!r}"
            )
        return numbers
