"""Newcomers that have reached the first step of a fit, and the answers that they get."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import ft
from matex.data.sketch import are_same_data
from matex.run.welcome import DATA, FIT, OVER, TRAINED

__all__ = ["WaitingNewcomers"]

_OTHER_DATA = (
    "its data for this fit are not those of the others, as where they are made of a model that was "
    "trained before; --checkpoint DIR lets it have such a model"
)


class WaitingNewcomers:
    """Tells newcomers of the fits that are over, and lets them wait for the running one. Local.

    All ranks have one, and newcomers arrive at the leader's.
    """

    def __init__(self) -> None:
        self._fit: int | None = None
        self._trained: list[int] = []
        self._data: list[float] = []
        self._histories: dict[int, dict[str, Any]] = {}
        self._waiting: dict[int, ft.Newcomer] = {}  # newcomers that have reached the fit, by rank
        self._late: list[tuple[ft.Newcomer, dict[str, Any]]] = []  # for a fit of that history

    @property
    def histories(self) -> list[tuple[int, dict[str, Any]]]:
        """Number and history of each fit so far, as JSON values."""
        return list(self._histories.items())

    def inherit(self, histories: Iterable[tuple[int, dict[str, Any]]]) -> None:
        """Set the *histories* of fits that this rank has passed over."""
        self._histories.update({int(fit): history for fit, history in histories})

    @property
    def fit(self) -> int | None:
        """Number of the fit that processes can join, from 0; None for no fit."""
        return self._fit

    def open(self, fit: int, trained: list[int], data: list[float]) -> None:
        """Let newcomers wait for *fit*, and answer those that wait for the one before.

        Args:
            fit: number of the fit in the script, from 0.
            trained: number of variables of each model and optimizer that was trained so far.
            data: sketch of its data, which must equal a newcomer's.
        """
        self._fit, self._trained, self._data = fit, trained, data
        for newcomer, history in self._late:
            newcomer.tell({OVER: history})
        self._late = []

    def close(self) -> None:
        """Let no newcomer join any more, after the last step of the fit."""
        self._fit = None

    def note_history(self, fit: int, history: dict[str, Any]) -> None:
        """Record that a fit is over.

        Newcomers too late for it are told when the next fit begins, once its end is saved.

        Args:
            fit: number of the fit.
            history: its history, from :func:`matex.keras_hooks.history_of`.
        """
        self._histories[fit] = history
        self._late += [(newcomer, history) for newcomer in self._waiting.values()]
        self._waiting.clear()

    @property
    def are_waiting(self) -> bool:
        """Whether a newcomer waits for the first step that it can join."""
        return bool(self._waiting)

    def take(self) -> ft.Newcomer:
        """Newcomer with the lowest rank of those that wait, which waits no more."""
        return self._waiting.pop(min(self._waiting))

    def forget(self, newcomer: ft.Newcomer) -> None:
        """Let *newcomer* wait no more, if it does."""
        self._waiting.pop(newcomer.rank, None)

    def end(self) -> None:
        """Forget all newcomers, at the end of the run."""
        self._waiting, self._late = {}, []

    def answer(self, newcomer: ft.Newcomer, message: ft.Message) -> bool:
        """Answer a newcomer at the first step of a fit, or let it wait for that fit.

        Returns:
            False if it cannot join, and no other process could.
        """
        fit, problem = message[FIT], ""
        if fit in self._histories:
            newcomer.tell({OVER: self._histories[fit]})
            return True
        if self._fit is not None and fit < self._fit:
            problem = f"fit number {fit + 1} ended in an error, which is not made again"
        elif message[TRAINED] != self._trained and fit == self._fit:
            problem = "it cannot have the models that were trained before this fit"
        elif fit == self._fit and not are_same_data(message[DATA], self._data):
            problem = _OTHER_DATA
        if problem:
            newcomer.give_up(problem)
            return False
        self._waiting[newcomer.rank] = newcomer
        return True
