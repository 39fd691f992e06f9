"""Client of the launcher as arbiter of network partitions; see :mod:`ft.quorum`."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Sequence

import ft

__all__ = ["LauncherClient"]

_CONNECT_S = 2.0
_ANSWER_S = 45.0  # the launcher asks hosts that may not answer


class LauncherClient:
    """The launcher, as reached from ranks. Local.

    Args:
        setting: value of ``MATEX_ARBITER``: the launcher's addresses, port and password, such as
            ``10.0.0.1,127.0.0.1/4711/secret``.
    """

    def __init__(self, setting: str) -> None:
        addresses, port, self._token = setting.split("/")
        self._addresses = [(address, int(port)) for address in addresses.split(",")]

    def decide(self, parting: ft.Parting) -> ft.Ruling:
        """Whether the present ranks may go on. An :data:`ft.Arbiter`."""
        answer = self._say(parting, asks=True)
        if answer is None:
            return ft.Ruling("" if parting.is_larger else "the launcher does not answer")
        return answer

    def heard(self, recovery: ft.Recovery) -> None:
        """Tell the launcher, without waiting, that the survivors go on; only on the leader."""
        if recovery.lost and recovery.after.is_leader:
            self._tell(recovery.after)

    def admitted(self, world: ft.World, member: ft.Member) -> None:
        """Tell the launcher, without waiting, that *member* has joined *world*; on the leader."""
        self._tell(world, admitted=[member.rank])

    def _tell(self, world: ft.World, admitted: Sequence[int] = ()) -> None:
        parting = ft.Parting(present=world.everyone, spread=world.spread)
        options = {"asks": False, "admitted": admitted}
        threading.Thread(target=self._say, args=(parting,), kwargs=options, daemon=True).start()

    def _say(
        self, parting: ft.Parting, *, asks: bool, admitted: Sequence[int] = ()
    ) -> ft.Ruling | None:
        content = {
            "token": self._token,
            "asks": asks,
            "present": [[member.rank, member.host] for member in parting.present],
            "admitted": list(admitted),
            "unknown": [[m.rank, m.host, m.pid, m.space] for m in parting.unknown],
        }
        for address in self._addresses:
            try:
                with socket.create_connection(address, _CONNECT_S) as connection:
                    connection.settimeout(_ANSWER_S)
                    with connection.makefile("rwb") as stream:
                        stream.write(json.dumps(content).encode() + b"\n")
                        stream.flush()
                        answer = json.loads(stream.readline())
                        return ft.Ruling(str(answer["refusal"]), tuple(answer["ended"]))
            except (OSError, ValueError, KeyError, TypeError):
                continue
        return None
