"""Exceptions that ``ft`` raises.

::

    FtError
    +-- PeerFailure          a peer broke: recover() and go on
    +-- ClosedError          this communicator was left: nothing more can be done with it
    +-- Unrecoverable        the MPI library cannot repair: the run must be started again
    +-- UsageError           (also ValueError) the caller's argument is wrong
        +-- FaultSyntaxError a fault given as text is not valid
    InjectedFault            (RuntimeError) a fault of kind "raise": a bug in user code, on purpose
    InjectedExit             (SystemExit) a fault of kind "exit"
"""

from __future__ import annotations

__all__ = [
    "ClosedError",
    "FaultSyntaxError",
    "FtError",
    "InjectedExit",
    "InjectedFault",
    "PeerFailure",
    "Unrecoverable",
    "UsageError",
]


class FtError(Exception):
    """Base class of every error that this package raises on purpose."""


class PeerFailure(FtError):
    """A collective did not complete because a peer died or revoked the communicator.

    Nothing the caller passed in was changed, except the receive buffer, whose content is
    undefined. Every surviving rank gets this error, in this operation or in the next one, and
    must call :meth:`ft.Communicator.recover` next.
    """

    def __init__(self, operation: int, cause: str) -> None:
        super().__init__(f"operation {operation} did not complete: {cause}")
        self.operation = operation
        self.cause = cause


class ClosedError(FtError):
    """The communicator was left by :meth:`ft.Communicator.leave`."""


class Unrecoverable(FtError):
    """A failure that cannot be survived in place, for example without ULFM; start the run again."""


class UsageError(FtError, ValueError):
    """The caller's argument is wrong; nothing was communicated."""


class FaultSyntaxError(UsageError):
    """A fault given as text is not valid; the message names the wrong part."""


class InjectedFault(RuntimeError):
    """Raised inside the step by a fault of kind ``raise``, standing for a bug in user code."""


class InjectedExit(SystemExit):
    """Exit with status 1 by a fault of kind ``exit``, standing for ``sys.exit(1)`` in user code.

    Args:
        message: text that names the fault.

    Example:
        >>> error = ft.InjectedExit("injected fault 'exit:rank=0,step=1'")
        >>> error.code, str(error)
        (1, "injected fault 'exit:rank=0,step=1'")
    """

    def __init__(self, message: str) -> None:
        super().__init__(1)
        self._message = message

    def __str__(self) -> str:
        return self._message
