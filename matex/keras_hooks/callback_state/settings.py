"""Attributes of callbacks that no callback changes: settings, which follow from the script.

A checkpoint holds them with the others. The script may say something else by the time it is read,
such as a longer patience, and then the script is right.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matex.keras_hooks.callback_state import plain_values

__all__ = ["Settings"]


class Settings:
    """Attributes of *callbacks* that are plain, cannot change in place and have not changed. Local.

    Args:
        callbacks: callbacks of a fit that begins.
        before: settings of the fit before. What changed there is state, also in this fit.
    """

    def __init__(self, callbacks: Iterable[Any], before: Settings | None = None) -> None:
        self._callbacks = list(callbacks)
        self._first = {id(one): _fixed_attributes(one) for one in self._callbacks}
        for one in before._callbacks if before is not None else ():
            if before is not None and id(one) in self._first:
                self._first[id(one)] = before._unchanged(one)

    def exclude_changed(self) -> None:
        """Exclude what has changed by now from the settings."""
        self._first = {id(one): self._unchanged(one) for one in self._callbacks}

    def names(self, callback: Any) -> set[str]:
        """Names of the settings of *callback*."""
        return {*self._unchanged(callback)}

    def _unchanged(self, callback: Any) -> dict[str, str]:
        first = self._first.get(id(callback), {})
        now = _fixed_attributes(callback)
        return {name: code for name, code in now.items() if first.get(name) == code}


def _fixed_attributes(callback: Any) -> dict[str, str]:
    """Codes of the attributes of *callback* that cannot change in place, by name."""
    found = {}
    for name, value in vars(callback).items():
        if (code := plain_values.fixed_code(value)) is not None:
            found[name] = code
    return found
