"""Extra runs of the script's eager code, made for checks, with every change undone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from matex.keras_hooks.generators import Generators, global_generator
from matex.keras_hooks.models import around_builds, is_made_once, managed_attributes
from matex.steps.rollback import Assignments
from matex.steps.script_code.script_state import ScriptState, is_scripts

__all__ = ["DryRun"]


class DryRun:
    """Dry run of a step or a model that runs eagerly. Local.

    Global random generators are for the caller to restore, see :func:`generators_kept`.

    Args:
        model: model from which the state of the script's own code is reached.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._assignments = Assignments()
        self._state = self._noted()
        self.has_assigned = False
        """Whether the newest run assigned to variables."""
        self.kept: list[Any] = []
        """What the newest run had put in the place of Python's values."""

    @contextlib.contextmanager
    def run(self, *, draws_on: bool = False) -> Iterator[None]:
        """Context of a run, after which variables and the script's Python are as before.

        Args:
            draws_on: whether the script's own random generators stay where they are until
                :meth:`end`: another run is to draw other numbers, which shows that it draws.
        """
        try:
            with self._assignments.noted():
                yield
        finally:
            generator = global_generator() if draws_on else None
            but = None if generator is None else generator.state.value
            self.has_assigned = bool(self._assignments.put_back(but=but))
            self.kept = self._state.put_back()
            if not draws_on:
                self.end()

    @contextlib.contextmanager
    def undone_on_error(self) -> Iterator[None]:
        """Context of a run that counts, unless it fails: all is as before then."""
        if self._state:
            self._state = self._noted()
        try:
            with self._assignments.noted():
                yield
        except BaseException:
            self._assignments.put_back()
            self._state.put_back()
            raise
        self._assignments.forget()

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """Context of a run of which that remains which the ``build`` of a layer does."""
        generators = Generators()

        @contextlib.contextmanager
        def lasting(layer: Any) -> Iterator[None]:
            nonlocal generators
            with self._assignments.final():
                yield
            generators = Generators()
            if is_scripts(type(layer)):
                self._state.renew(layer)

        try:
            with self.run(), around_builds(lasting):
                yield
        finally:
            generators.put_back(built=True)

    def end(self) -> None:
        """Restore the script's own random generators."""
        self._state.put_back_generators()

    def _noted(self) -> ScriptState:
        return ScriptState(self._model, managed_attributes, is_made_once)
