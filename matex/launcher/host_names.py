"""The launcher's names for hosts, by what the hosts call themselves.

Ranks report the name that their host has itself (``uname -n``). A list of hosts may call it by
its address, by a short or a full name, or by an alias; and where mpiexec puts which rank follows
from no order. So hosts are found by their own names, and who asks one proves which one answers.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from ipaddress import ip_address

__all__ = ["HostNames", "IdSpace", "identity_in", "says_who", "whether_ended"]

#: A host's own name, the boot of its kernel, and the namespace of process ids on it.
IdSpace = tuple[str, str, int]

_MARK = "matex-host"  # begins the line with which a host says who it is
_SAID = re.compile(rf"^{_MARK} (\S+) (\S+)(?: pid:\[(\d+)\])?\s*$", re.MULTILINE)
_BOOT = "boot=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)"
_WHO = f'echo "{_MARK} $(uname -n) ${{boot:--}} $(readlink /proc/self/ns/pid)"'


class HostNames:
    """Names of a run's hosts, as mpiexec takes them, and what these hosts call themselves.

    Args:
        names: names of the hosts, of the option or of the batch job's list; none where they are
            unknown: then each host is called as it calls itself.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = tuple(dict.fromkeys(names))
        self._own: dict[str, tuple[str, str]] = {}

    def learn(self, machines: Mapping[str, tuple[str, str]]) -> None:
        """Remember what hosts have said of themselves.

        Args:
            machines: host's own name and its boot, by the name of the list.
        """
        self._own = {**self._own, **machines}

    def of(self, host: str, boot: str = "") -> list[str]:
        """Names for what calls itself *host*: those that said so, else one that equals it, else
        the only one with its first label. Empty if there is none; several hosts may have one name.

        Args:
            boot: boot of the host's kernel; any by default.
        """
        if not self._names:
            return [host]
        own = self._own
        said = [name for name in self._names if name in own and _is(own[name], host, boot)]
        if said:
            return said
        left = [name for name in self._names if name not in own]
        if host in left:
            return [host]
        label = _label(host)
        alike = [name for name in left if label and _label(name) == label]
        return alike if len(alike) == 1 else []

    def possible(self, host: str, boot: str) -> list[str]:
        """Names among which that of *host* is, if it has one: all that have not said theirs."""
        return self.of(host, boot) or self.silent

    @property
    def silent(self) -> list[str]:
        """Names of the hosts that have not said what they call themselves."""
        return [name for name in self._names if name not in self._own]


def says_who(words: Sequence[str]) -> list[str]:
    """Command that runs *words* and, if they succeed, prints what :func:`identity_in` reads."""
    return ["sh", "-c", f'"$@" || exit 1; {_BOOT}; {_WHO}', "sh", *words]


def whether_ended(processes: Mapping[IdSpace, Collection[int]]) -> list[str]:
    """Command that succeeds, and says who it was, where processes have ended or end soon. Pure.

    It fails on any other host than those of *processes*, which may go by the same name here.

    Args:
        processes: process ids, by the host and the namespace in which they mean something.
    """
    cases = " ".join(
        f"{shlex.quote(f'{host} {boot} pid:[{space}]')}) pids='{' '.join(map(str, pids))}';;"
        for (host, boot, space), pids in processes.items()
    )
    script = (
        f'{_BOOT} && [ -n "$boot" ] || exit 1; '
        f'case "$(uname -n) $boot $(readlink /proc/self/ns/pid)" in {cases} *) exit 1;; esac; '
        "for try in 1 2 3 4 5 6; do alive=; for pid in $pids; do "
        'kill -0 "$pid" 2>/dev/null && alive=1; done; '
        f'[ -z "$alive" ] && {_WHO} && exit 0; sleep 0.5; done; exit 1'
    )
    return ["sh", "-c", script]


def identity_in(output: str) -> IdSpace | None:
    """Host that printed *output* by such a command; None where it does not say. Pure."""
    found = _SAID.search(output)
    if found is None:
        return None
    host, boot, space = found.groups()
    return host, boot.strip("-"), int(space or 0)


def _is(machine: tuple[str, str], host: str, boot: str) -> bool:
    return machine[0] == host and boot in ("", machine[1])


def _label(name: str) -> str:
    """The first label of a name; "" of an address."""
    try:
        ip_address(name)
    except ValueError:
        return name.partition(".")[0]
    return ""
