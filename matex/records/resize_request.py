"""A request for another number of ranks, in the report directory of a run.

``matex resize`` and ``matex drain`` write it, and the leader of the run removes it when all ranks
have heard of it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

from matex.errors import InputError

__all__ = ["MOST_BYTES", "RESIZE", "Request", "write_request"]

#: The file of a request.
RESIZE = "resize.json"

#: Of a request, as JSON.
MOST_BYTES = 1024


class Request(NamedTuple):
    """A request for another number of ranks.

    Args:
        number: number by which its answer is found.
        size: number of ranks that are to train; 0 where a host is named.
        host: host that all ranks are to leave; "" where a number is named.
    """

    number: int
    size: int = 0
    host: str = ""

    @property
    def text(self) -> str:
        """The request in words."""
        return f"drain {self.host}" if self.host else f"resize to {self.size}"

    def to_bytes(self) -> bytes:
        """The request as JSON."""
        return json.dumps(self._asdict()).encode()

    @staticmethod
    def from_bytes(content: bytes) -> Request:
        """The request that :meth:`to_bytes` wrote.

        Raises:
            ValueError: *content* is none.
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


def write_request(directory: Path, request: Request) -> None:
    """Write *request* for the run of *directory*; its owner alone can read it.

    Raises:
        InputError: another request waits there for its answer.
        OSError: it cannot be written.
    """
    path = directory / RESIZE
    own = directory / f".{RESIZE}-{request.number}"
    with os.fdopen(os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(request.to_bytes())
    try:
        os.link(own, path)  # whole, and only where there is none
    except FileExistsError:
        raise InputError(
            f"no other request may wait for its answer. Received: one in {path}; wait for it, or "
            "remove it where the run has ended"
        ) from None
    finally:
        own.unlink()
