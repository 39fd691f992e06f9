"""Order of a script's collective calls, ``fit`` and similar, equal on all ranks."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

import ft
from ft.error_text import in_one_line
from matex.data.reading_errors import data_error_in
from matex.errors import InputError, MatexError
from matex.exchange.texts import allgather_texts
from matex.preemption.exits import PreemptedExit, SpareReleased
from matex.records.tracebacks import shorten

__all__ = ["CallOrder", "difference"]

_NAME_BYTES = 96


def difference(ranks: Sequence[int], names: Sequence[str]) -> str:
    """Description of the calls that *ranks* have reached; "" if all reached the same. Pure."""
    if len(set(names)) <= 1:
        return ""
    came = {name: [r for r, n in zip(ranks, names, strict=True) if n == name] for name in names}
    return ", ".join(
        f"{name} on rank{'s' * (len(at) > 1)} {' '.join(map(str, at))}" for name, at in came.items()
    )


class CallOrder:
    """Checks, before each collective call, that all ranks have reached the same call.

    Two ranks in different calls would deadlock, or take each other's data for their own. This
    happens if a script depends on values that differ by rank, and if only one rank has an
    exception, which the script catches.
    """

    def __init__(self, communicator: ft.Communicator) -> None:
        self._communicator = communicator
        self._equalize: Callable[[], None] | None = None

    def equalized_by(self, equalize: Callable[[], None]) -> None:
        """Set a function for the running call, called if all ranks leave it by an exception.

        Args:
            equalize: collective function that makes the ranks' models equal.
        """
        self._equalize = equalize

    def begin(self, name: str) -> None:
        """Wait until all ranks have come to the call *name*; collective.

        Args:
            name: name of the call, of at most 96 bytes.

        Raises:
            InputError: the ranks have come to different calls; on every rank.
        """
        if self._communicator.initial_size == 1:
            return
        names = allgather_texts(self._communicator, name, _NAME_BYTES)
        if different := difference(list(names), list(names.values())):
            raise InputError(
                "all ranks must make the same calls in the same order. Received: "
                f"{different}; does the script go by its rank, its host, the time, an unseeded "
                "random number or the order of its threads?"
            )

    @contextlib.contextmanager
    def ordered_call(self, name: str, *, left: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Context of the call *name*; collective.

        If all ranks leave it by an exception, the exception goes on to the script. A rank that
        alone leaves it so ends here, whether the script would catch the exception or not.

        Args:
            left: collective function called if all ranks leave by an exception.
        """
        self.begin(name)
        try:
            yield
        except (ft.FtError, ft.InjectedFault, PreemptedExit, SpareReleased):
            raise
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            if self._communicator.initial_size > 1 and self._communicator.ulfm:
                if not self._communicator.regroup(f"a rank left {name} by an exception"):
                    _end_by(error)
                if self._equalize is not None:
                    self._equalize()
                left()
            raise
        finally:
            self._equalize = None


def _end_by(error: BaseException) -> NoReturn:
    """End this rank as if the script did not catch *error*; local."""
    error = data_error_in(error) or error
    if isinstance(error, MatexError):
        print(error, file=sys.stderr)
        ft.fail_stop(str(error), error=error)
    shorten(error)
    traceback.print_exception(error)
    ft.fail_stop(in_one_line(error), error=error)
