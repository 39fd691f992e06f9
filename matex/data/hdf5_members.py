"""The data sets of an HDF5 file, by all their names: hard, soft and external links."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

import h5py
from h5py import h5o

from matex.data.hdf5_heap import endless_heap
from matex.data.hdf5_roles import Role, role

__all__ = ["Members", "members"]

_Key = tuple[int, int]


class Members(NamedTuple):
    """The members of a file.

    Attributes:
        datasets: each data set by the first of its names.
        aliases: further name -> first name.
        notes: remarks by name, on data sets and on members that are left out.
    """

    datasets: dict[str, h5py.Dataset]
    aliases: dict[str, str]
    notes: dict[str, str]


def members(file: h5py.File) -> Members:
    """All data sets of *file* except those that libraries create for themselves.

    Hard links come first, so that a link to a data set of the file is a further name of it. A
    group that is met again is not looked into again: groups may hold each other.

    Raises:
        KeyError, OSError, RuntimeError: the file is damaged.
    """
    return _Walk(file).found


def _must_end(path: Path) -> None:
    """Raise OSError if libhdf5 would read the file *path* endlessly."""
    if path.is_file() and endless_heap(path) is not None:
        raise OSError("a heap in it comes to no end: it is damaged")


class _Walk:
    def __init__(self, file: h5py.File) -> None:
        self.found = Members({}, {}, {})
        self._file = file
        self._names: dict[_Key, str] = {}
        self._held: list[Any] = []  # an object that is let go of may give its number to another
        self._links: deque[tuple[str, h5py.Group]] = deque()
        self._groups: deque[tuple[str, h5py.Group]] = deque([("", file)])
        self._first(file, "/")
        while self._groups or self._links:
            if self._groups:
                self._group(*self._groups.popleft())
            else:
                self._follow(*self._links.popleft())

    def _group(self, prefix: str, group: h5py.Group) -> None:
        for child in group:
            if isinstance(child, bytes):  # as h5py returns names that it cannot decode
                shown = child.decode("utf-8", "backslashreplace")
                self.found.notes[prefix + shown] = "its name is not UTF-8, passed over"
                continue
            name = prefix + child
            try:  # None where the name is listed, but not found
                kind = group.get(child, getclass=True, getlink=True)
            except TypeError:
                self.found.notes[name] = "a link of a kind of its own, passed over"
                continue
            if kind is None:
                raise KeyError(
                    f"{name} is listed but not found; the file is damaged, copy it again"
                )
            if kind is h5py.HardLink:
                item = group[child]
                self._add(name, item, role(group, child, item))
            else:
                self._links.append((name, group))

    def _follow(self, name: str, group: h5py.Group) -> None:
        child = name.rpartition("/")[2]
        link = group.get(child, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            where = f"a link to {link.path} in {link.filename}"
        else:
            where = f"a link to {link.path}"
        try:
            if isinstance(link, h5py.ExternalLink):
                _must_end(Path(group.file.filename).parent / link.filename)
            item = group[child]
        except (KeyError, OSError, RuntimeError) as error:
            reason = str(error.args[0]) if error.args else type(error).__name__
            self.found.notes[name] = f"{where}, which cannot be followed ({reason}), passed over"
            return
        target = str(item.name).rpartition("/")[2]
        self._add(name, item, role(item.parent, target, item))

    def _add(self, name: str, item: Any, use: Role | None) -> None:
        if use is not None:
            self.found.notes[name] = use.words
            if use.hidden:
                return
        if not isinstance(item, h5py.Dataset | h5py.Group):
            return  # a named type
        first = self._first(item, name)
        if isinstance(item, h5py.Group):
            if first == name:
                self._groups.append((f"{name}/", item))
            else:
                self.found.notes[name] = f"the same group as {first}; its data sets are there"
        elif first != name:
            self.found.aliases[name] = first
        else:
            self.found.datasets[name] = item

    def _first(self, item: Any, name: str) -> str:
        """First name under which *item* was found; *name* if it is new."""
        info = h5o.get_info(item.id)
        self._held.append(item)
        return self._names.setdefault((info.fileno, info.addr), name)
