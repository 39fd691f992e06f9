"""A rank asks the launcher whether its part of a run may go on; see :mod:`ft.quorum`."""

from __future__ import annotations

import json
import socket
import threading

import ft

__all__ = ["LauncherClient"]

_CONNECT_S = 2.0
_ANSWER_S = 45.0  # it asks hosts that may not answer


class LauncherClient:
    """The launcher, as ranks reach it. Local.

    Args:
        setting: the value of ``MATEX_ARBITER``: its addresses, its port and a password, as in
            ``10.0.0.1,127.0.0.1/4711/secret``.
    """

    def __init__(self, setting: str) -> None:
        addresses, port, self._token = setting.split("/")
        self._addresses = [(address, int(port)) for address in addresses.split(",")]

    def decide(self, parting: ft.Parting) -> str:
        """Why those present may not go on; "" where they may. An :data:`ft.Arbiter`."""
        answer = self._say(parting, asks=True)
        if answer is None:
            return "" if parting.is_larger else "the launcher does not answer"
        return answer

    def heard(self, recovery: ft.Recovery) -> None:
        """Say, without waiting for it, that those who recovered go on; the leader does."""
        if not recovery.lost or not recovery.after.is_leader:
            return
        parting = ft.Parting(present=recovery.after.everyone, spread=recovery.after.spread)
        threading.Thread(
            target=self._say, args=(parting,), kwargs={"asks": False}, daemon=True
        ).start()

    def _say(self, parting: ft.Parting, *, asks: bool) -> str | None:
        content = {
            "token": self._token,
            "asks": asks,
            "present": [member.rank for member in parting.present],
            "unknown": [[m.rank, m.host, m.pid, m.space] for m in parting.unknown],
        }
        for address in self._addresses:
            try:
                with socket.create_connection(address, _CONNECT_S) as connection:
                    connection.settimeout(_ANSWER_S)
                    with connection.makefile("rwb") as stream:
                        stream.write(json.dumps(content).encode() + b"\n")
                        stream.flush()
                        return str(json.loads(stream.readline())["refusal"])
            except (OSError, ValueError, KeyError):
                continue
        return None
