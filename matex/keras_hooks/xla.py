"""Functions of the script that XLA compiles: run without XLA if ranks exchange inside.

XLA cannot call back into Python. Whether a function exchanges is known when it is traced; the
trace is then given up, and the same call made again without XLA.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from matex.replacing import replace

__all__ = ["exchange_in_graph", "exchange_outside_xla", "leave_xla"]

_stack = threading.local()


class _ExchangesInside(BaseException):
    """The trace of a function that XLA cannot compile is given up.

    No ``except Exception`` of the script's, nor of AutoGraph's, is to catch it.
    """


def leave_xla(tell: Callable[[str], None]) -> None:
    """Run ``tf.function(jit_compile=True)`` without XLA if ranks exchange inside. Local, once.

    Args:
        tell: is given a line the first time that this happens to a function.
    """
    owner: Any = inspect.getmodule(type(tf.function(lambda: None)))
    original = owner.Function.__call__

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        compiled = bool(self._jit_compile)
        _stack.depth = _depth() + compiled
        try:
            return original(self, *args, **kwargs)
        except _ExchangesInside:
            _forget_traces(self)
            if not compiled:
                raise
        finally:
            _stack.depth -= compiled
        self._jit_compile = False
        name = getattr(self.python_function, "__name__", "a function")
        tell(
            f"{name} runs without XLA (jit_compile=True): the ranks exchange in the middle of it, "
            "for which XLA cannot wait"
        )
        return self(*args, **kwargs)

    replace(owner.Function, "__call__", call)


def exchange_outside_xla() -> None:
    """Give up the call of a function that XLA compiles, which goes on without: ranks exchange here.

    Nothing happens elsewhere, or before :func:`leave_xla`.
    """
    if _depth():
        raise _ExchangesInside


def exchange_in_graph(call: Callable[..., Any], tensors: list[Any], dtypes: Any) -> Any:
    """``tf.numpy_function(call, tensors, dtypes)``, of which no part is compiled by XLA."""
    exchange_outside_xla()
    return tf.numpy_function(call, tensors, dtypes)


def _depth() -> int:
    """Number of functions that XLA compiles which this thread is calling or tracing."""
    return getattr(_stack, "depth", 0)


def _forget_traces(function: Any) -> None:
    """Make *function* be traced again, as if it had never been called."""
    function._created_variables = None
    function._variable_creation_config = None
    function._no_variable_creation_config = None
