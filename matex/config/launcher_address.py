"""Address of the launcher, as ranks on several hosts are given it in an environment variable."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["LauncherAddress"]

_CONNECT_S = 2.0


@dataclass(frozen=True)
class LauncherAddress:
    """Network addresses of the launcher's host, a port there, and the password of the run."""

    hosts: tuple[str, ...]
    port: int
    token: str

    @staticmethod
    def read(text: str) -> LauncherAddress:
        """The address in the value of ``MATEX_ARBITER``.

        Raises:
            ValueError: *text* is none that :meth:`text` gives.
        """
        hosts, port, token = text.split("/")
        return LauncherAddress(tuple(hosts.split(",")), int(port), token)

    @property
    def text(self) -> str:
        """Value of ``MATEX_ARBITER``, such as ``10.0.0.1,127.0.0.1/4711/secret``."""
        return f"{','.join(self.hosts)}/{self.port}/{self.token}"

    def connections(self) -> Iterator[socket.socket]:
        """Connections to the launcher, one to each address that answers in 2 s; not closed here."""
        for host in self.hosts:
            try:
                connection = socket.create_connection((host, self.port), _CONNECT_S)
            except OSError:
                continue
            yield connection
