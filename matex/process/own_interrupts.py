"""Interrupts that the script sends to its own process: exceptions, as in plain Python.

SIGINT from other processes is a stop request, see
:class:`matex.preemption.stop_request.StopRequest`. A signal does not tell its sender, so the
Python functions that send it do.
"""

from __future__ import annotations

import _thread
import functools
import os
import signal

from matex.preemption.stop_request import StopRequest
from matex.replacing import replace

__all__ = ["install"]


def install(stop_request: StopRequest) -> None:
    """Replace the functions by which a process interrupts itself, permanently. Local.

    Args:
        stop_request: signal handler, which raises ``KeyboardInterrupt`` at such signals.
    """
    kill, raise_signal, interrupt_main = os.kill, signal.raise_signal, _thread.interrupt_main

    @functools.wraps(kill)
    def kill_(pid: int, number: int, /) -> None:
        _expect(stop_request, number if pid == os.getpid() else 0)
        kill(pid, number)

    @functools.wraps(raise_signal)
    def raise_signal_(number: int, /) -> None:
        _expect(stop_request, number)
        raise_signal(number)

    @functools.wraps(interrupt_main)
    def interrupt_main_(number: int = signal.SIGINT, /) -> None:
        _expect(stop_request, number)
        interrupt_main(signal.Signals(number))

    replace(os, "kill", kill_)
    replace(signal, "raise_signal", raise_signal_)
    replace(_thread, "interrupt_main", interrupt_main_)


def _expect(stop_request: StopRequest, number: int) -> None:
    if number == signal.SIGINT:
        stop_request.expect_own_interrupt()
