"""Client of the launcher as arbiter of network partitions; see :mod:`ft.quorum`."""

from __future__ import annotations

import json
import threading

import ft
from matex.config.launcher_address import LauncherAddress

__all__ = ["LauncherClient"]

_ANSWER_S = 45.0  # the launcher asks hosts that may not answer


class LauncherClient:
    """The launcher, as reached from ranks. Local.

    Args:
        setting: value of ``MATEX_ARBITER``.
    """

    def __init__(self, setting: str) -> None:
        self._address = LauncherAddress.read(setting)
        self._reporting: threading.Thread | None = None

    def decide(self, split: ft.NetworkSplit) -> ft.Ruling:
        """Whether the present ranks may go on. An :data:`ft.Arbiter`."""
        answer = self._say(split, asks=True)
        if answer is None:
            return ft.Ruling("" if split.is_larger else "the launcher does not answer")
        return answer

    def report(self, recovery: ft.Recovery) -> None:
        """Tell the launcher, without waiting, that the survivors go on; only on the leader."""
        if recovery.lost and recovery.after.is_leader:
            present = {member.rank for member in recovery.after.everyone}
            lost = (m for m in recovery.before.everyone if m.rank not in present)
            self._tell(recovery.after, tuple(lost))

    def admitted(self, world: ft.World) -> None:
        """Tell the launcher, without waiting, who is in *world* now; on the leader."""
        self._tell(world)

    def _tell(self, world: ft.World, lost: tuple[ft.Member, ...] = ()) -> None:
        split = ft.NetworkSplit(present=world.everyone, spread=world.spread, unknown=lost)
        before = self._reporting

        def tell() -> None:
            if before is not None:  # news that came late would be taken for the newest
                before.join()
            self._say(split, asks=False)

        self._reporting = threading.Thread(target=tell, daemon=True)
        self._reporting.start()

    def _say(self, split: ft.NetworkSplit, *, asks: bool) -> ft.Ruling | None:
        absent = (*split.dead, *split.unknown, *split.silent)
        content = {
            "token": self._address.token,
            "asks": asks,
            "present": [member.rank for member in split.present],
            "absent": [member.rank for member in absent],
            "unknown": [[m.rank, m.host, m.boot, m.space, m.pid] for m in split.unknown],
        }
        for connection in self._address.connections():
            try:
                connection.settimeout(_ANSWER_S)
                with connection, connection.makefile("rwb") as stream:
                    stream.write(json.dumps(content).encode() + b"\n")
                    stream.flush()
                    answer = json.loads(stream.readline())
                    return ft.Ruling(str(answer["refusal"]), tuple(answer["ended"]))
            except (OSError, ValueError, KeyError, TypeError):
                continue
        return None
