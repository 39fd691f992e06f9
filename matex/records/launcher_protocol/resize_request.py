"""A request for another number of ranks, in the report directory of a run.

``matex resize`` and ``matex drain`` write it, and the leader removes it after all ranks have
learned of it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

from matex.errors import InputError

__all__ = ["MOST_BYTES", "RESIZE", "LeftOnRequest", "Request", "write_request"]

#: File name of a request.
RESIZE = "resize.json"

#: Largest size of a request, as JSON, bytes.
MOST_BYTES = 1024


class Request(NamedTuple):
    """A request for another number of ranks.

    Args:
        number: number that identifies its answer.
        size: number of ranks that are to train; 0 for a request about a host.
        host: host that all ranks are to leave; "" for a request about a number.
    """

    number: int
    size: int = 0
    host: str = ""

    @property
    def text(self) -> str:
        """Description of the request."""
        return f"drain {self.host}" if self.host else f"resize to {self.size}"

    def to_bytes(self) -> bytes:
        """The request as JSON."""
        return json.dumps(self._asdict()).encode()

    @staticmethod
    def from_bytes(content: bytes) -> Request:
        """Request from the JSON of :meth:`to_bytes`.

        Raises:
            ValueError: *content* is no request.
        """
        fields = json.loads(content)
        if not isinstance(fields, dict) or fields.keys() != set(Request._fields):
            raise ValueError(f"{', '.join(Request._fields)} wanted")
        request = Request(**fields)
        if not all(isinstance(value, int) for value in request[:2]) or not isinstance(
            request.host, str
        ):
            raise ValueError("two whole numbers and a host wanted")
        if (request.size > 0) == bool(request.host):
            raise ValueError("either a number of ranks or a host wanted")
        return request


class LeftOnRequest(Exception):
    """Reason for which a rank ends that a request lets go; its text is that of the request."""


def write_request(directory: Path, request: Request) -> None:
    """Write *request* for the run of *directory*, readable by its owner alone.

    Raises:
        InputError: another request awaits its answer there.
        OSError: it cannot be written.
    """
    path = directory / RESIZE
    own = directory / f".{RESIZE}-{request.number}"
    with os.fdopen(os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(request.to_bytes())
    try:
        os.link(own, path)  # atomically, and only if there is no other request
    except FileExistsError:
        raise InputError(
            f"no other request may wait for its answer. Received: one in {path}; wait for it, or "
            "remove it where the run has ended"
        ) from None
    finally:
        own.unlink()
