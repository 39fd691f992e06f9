"""Changes of one rank to files, and what is left to do when it comes to lead."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["LeaderSuccession", "RankChanges"]


@dataclass
class RankChanges:
    """Changes that the script made on this rank, of which other ranks see nothing. Local.

    Attributes:
        paths: paths that this rank changed.
        folders: folders of these paths.
        created: files and folders that were not there before this rank made them.
        deleted: deleted paths, with the identity of the real file that each of them hides.
        links: symbolic links that this rank made, and the absolute paths that they lead to.
        kept_open: descriptors of the files of others that are kept open, by path.
        beginnings: names of files that are the beginnings of others, by path.
    """

    paths: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    created: set[str] = field(default_factory=set)
    deleted: dict[str, tuple[int, int] | None] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    kept_open: dict[str, int] = field(default_factory=dict)
    beginnings: dict[str, str] = field(default_factory=dict)


@dataclass
class LeaderSuccession:
    """State that matters where this rank takes over the real files of a dead leader. Local.

    Attributes:
        still_written: open files in this rank's tree, by their own names, that are written to
            after it came to lead.
        not_repeated: paths changed by a dead leader, and not yet by this rank, which leads.
        kept_back: files whose real content this rank must not replace by its own.
        lasting: places outside of the tree, by path, where this rank stays even if it leads.
    """

    still_written: set[str] = field(default_factory=set)
    not_repeated: set[str] = field(default_factory=set)
    kept_back: set[str] = field(default_factory=set)
    lasting: dict[str, str] = field(default_factory=dict)
