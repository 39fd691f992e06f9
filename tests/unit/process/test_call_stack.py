"""Calls of threads beside those that ranks make in one order."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any

from matex.process.call_stack import CallKind, CallStack


def in_a_thread(call: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    return found[0]


def test_a_thread_beside_a_fit_sees_it_and_leaves_it_alone() -> None:
    calls = CallStack()

    def beside() -> Any:
        before = calls.is_beside, calls.is_empty, calls.only
        with calls.beside():
            return before, calls.only, in_a_thread(lambda: calls.only)

    with calls.within(CallKind.FIT):
        seen = in_a_thread(beside)
        assert calls.only is CallKind.FIT
    assert seen == ((True, False, CallKind.FIT), CallKind.PLAIN, CallKind.FIT)
    assert calls.is_empty


def test_a_thread_that_makes_a_shared_call_is_beside_nothing() -> None:
    calls = CallStack()

    def fit() -> Any:
        with calls.within(CallKind.FIT):
            return calls.is_beside, in_a_thread(lambda: calls.is_beside)

    assert in_a_thread(fit) == (False, True)
    assert not calls.is_beside
    assert in_a_thread(lambda: calls.is_beside)
