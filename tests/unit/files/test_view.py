"""Each rank sees its own files as if it ran alone; who comes to lead makes them the real ones."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from matex.files import changes
from matex.files.held_files import hold, keep_whole
from matex.files.ledger import Ledger
from matex.files.publish import publish, publish_open
from matex.files.scratch import Scratch
from matex.files.view import FileView
from matex.files.writing import to_write

Step = tuple[str, ...]


def act(view: FileView | None, root: Path, step: Step) -> Any:
    """The script's answer from *step*, through *view* or, with None, from Python itself."""
    name, *rest = step
    paths = [str(root / path) for path in rest]
    try:
        return _ACTIONS[name](view, *paths)
    except (FileNotFoundError, NotADirectoryError):  # which of them is of no interest
        return "missing"
    except OSError as error:
        return type(error).__name__


def write(view: FileView | None, path: str, mode: str = "w", text: str = "w") -> None:
    place = path
    if view is not None:
        change = "append" if mode == "a" else "overwrite" if view.leads else "replace"
        place = to_write(view, path, change, exclusive=mode == "x")  # type: ignore[arg-type]
    with open(place, mode) as file:  # noqa: PTH123
        file.write(f"{text} {Path(path).name}\n")


def read(view: FileView | None, path: str) -> str:
    place = path if view is None else view.found(path)
    if place is None:
        raise FileNotFoundError
    return Path(place).read_text()


def names(view: FileView | None, path: str) -> list[str]:
    return (
        sorted(p.name for p in Path(path).iterdir()) if view is None else sorted(view.names(path))
    )


def exists(view: FileView | None, path: str) -> bool:
    return os.path.lexists(path) if view is None else view.exists(path)


def _plain_or(change: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    def call(view: FileView | None, *paths: str) -> None:
        if view is None:
            plain(*paths)
        else:
            change(view, *paths, plain)

    return call


_ACTIONS: dict[str, Callable[..., Any]] = {
    "write": write,
    "append": lambda view, path: write(view, path, "a", "a"),
    "create": lambda view, path: write(view, path, "x", "x"),
    "read": read,
    "names": names,
    "exists": exists,
    "mkdir": _plain_or(changes.make_folder, os.mkdir),
    "remove": _plain_or(changes.remove, os.remove),
    "rmdir": _plain_or(changes.remove_folder, os.rmdir),
    "rename": _plain_or(changes.rename, os.replace),
}

_PATHS = ["f", "g", "old", "d", "d/f", "d/g", "was", "was/f", "was/old", "e", "e/f"]
_ONE = st.tuples(st.sampled_from([n for n in _ACTIONS if n != "rename"]), st.sampled_from(_PATHS))
_FILES = ["f", "g", "old", "d/f", "was/f", "was/old"]
_TWO = st.tuples(st.just("rename"), st.sampled_from(_FILES), st.sampled_from(_FILES))
_FOLDER = st.sampled_from(["d", "e", "was"])
_FOLDERS = st.tuples(st.just("rename"), _FOLDER, _FOLDER)
_STEPS = st.lists(st.one_of(_ONE, _ONE, _ONE, _TWO, _FOLDERS), max_size=14)


def prepare(root: Path) -> Path:
    """Make the files that are there before the run."""
    (root / "was").mkdir(parents=True)
    (root / "old").write_text("old\n")
    (root / "was" / "old").write_text("was old\n")
    return root


def tree(root: Path) -> dict[str, str | None]:
    found = sorted(root.rglob("*"))
    return {str(p.relative_to(root)): None if p.is_dir() else p.read_text() for p in found}


@pytest.fixture
def scratches() -> Iterator[list[Scratch]]:
    made: list[Scratch] = []
    yield made
    for scratch in made:
        scratch.remove()


def two_ranks(folder: Path, scratches: list[Scratch]) -> tuple[FileView, FileView]:
    """The leader's view, and that of another rank."""
    changed = folder / "changes"
    changed.mkdir()
    views = []
    for leads in (True, False):
        scratches.append(Scratch())
        views.append(FileView(scratches[-1], Ledger(str(changed), len(views)), leads=leads))
    return views[0], views[1]


# A leader moved a folder and wrote a file in its place; the next one had only looked into it.
_LOOKED_INTO: list[Step] = [("rename", "was", "was"), ("rename", "was", "d"), ("write", "was")]
# A leader moved a folder back into which it had written, and the next one had only moved it away.
_MOVED_BACK: list[Step] = [
    ("rename", "was", "d"), ("write", "d/f"), ("write", "was/f"), ("rename", "d", "was"),
]  # fmt: skip
# A leader moved a folder to where the next one has made one, which it has yet to move on.
_MOVED_ONTO: list[Step] = [("mkdir", "e"), ("rename", "e", "d"), ("rename", "was", "e")]


@settings(max_examples=200)
@example(steps=_LOOKED_INTO, ahead=3, behind=1)
@example(steps=_MOVED_BACK, ahead=4, behind=1)
@example(steps=_MOVED_ONTO, ahead=3, behind=1)
@given(steps=_STEPS, ahead=st.integers(0, 14), behind=st.integers(0, 14))
def test_any_script_and_any_death(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step], ahead: int, behind: int
) -> None:
    folder = tmp_path_factory.mktemp("any")
    scratches: list[Scratch] = []
    try:
        plain, root = prepare(folder / "plain"), prepare(folder / "root")
        wanted = [act(None, plain, step) for step in steps]
        leader, other = two_ranks(folder, scratches)
        assert [act(leader, root, step) for step in steps[:ahead]] == wanted[:ahead]
        assert [act(other, root, step) for step in steps[:behind]] == wanted[:behind]
        publish(other)
        assert [act(other, root, step) for step in steps[behind:]] == wanted[behind:]
        assert tree(root) == tree(plain)
    finally:
        for scratch in scratches:
            scratch.remove()
        shutil.rmtree(folder)


def test_other_ranks_see_neither_what_the_leader_made_nor_what_it_overwrote(
    tmp_path: Path, scratches: list[Scratch]
) -> None:
    root = prepare(tmp_path / "root")
    leader, other = two_ranks(tmp_path, scratches)
    for step in (("write", "old"), ("mkdir", "d"), ("write", "d/f"), ("append", "was/old")):
        act(leader, root, step)
    assert not other.exists(str(root / "d"))
    assert read(other, str(root / "old")) == "old\n"
    assert read(other, str(root / "was/old")) == "was old\n"
    assert other.names(str(root)) == ["old", "was"]
    (root / "d" / "by-another-program").write_text("x")
    assert other.exists(str(root / "d" / "by-another-program"))


def test_no_rank_lists_a_file_that_is_not_yet_whole(
    tmp_path: Path, scratches: list[Scratch]
) -> None:
    root = prepare(tmp_path / "root")
    leader, other = two_ranks(tmp_path, scratches)
    aside = Path(leader.aside(str(root / "weights.h5")))
    aside.write_text("not yet")
    assert aside.parent == root  # from where renaming it is one step
    assert other.names(str(root)) == ["old", "was"]
    assert other.is_touched(str(root))
    publish(other)  # the leader died before the file was whole
    assert not aside.exists()
    assert other.is_plain


def test_a_file_of_the_leader_stays_after_it_is_deleted(
    tmp_path: Path, scratches: list[Scratch]
) -> None:
    root = prepare(tmp_path / "root")
    leader, other = two_ranks(tmp_path, scratches)
    path = str(root / "model")
    leader.recorder = set()
    write(leader, path)
    assert leader.recorder == {path}
    leader.recorder = None
    assert hold(other, path, path)
    act(leader, root, ("remove", "model"))
    assert read(other, path) == "w model\n"
    assert names(other, str(root)) == ["model", "old", "was"]
    publish(other)  # the old leader was ahead
    assert read(other, path) == "w model\n"
    act(other, root, ("remove", "model"))
    assert "model" not in tree(root)


def test_what_is_still_open_is_published_when_it_is_closed(
    tmp_path: Path, scratches: list[Scratch]
) -> None:
    root = prepare(tmp_path / "root")
    _, other = two_ranks(tmp_path, scratches)
    path = str(root / "log")
    with open(to_write(other, path, "replace"), "w") as file:  # noqa: PTH123
        print("before", file=file, flush=True)
        publish(other)
        print("after", file=file)
    publish_open(other)
    assert Path(path).read_text() == "before\nafter\n"
    assert not other.succession.still_written


def test_an_answer_does_not_count_where_the_leader_changed_the_file_meanwhile(
    tmp_path: Path, scratches: list[Scratch]
) -> None:
    root = prepare(tmp_path / "root")
    leader, other = two_ranks(tmp_path, scratches)
    calls: list[str] = []
    discarded: list[str] = []

    def read_late(step: Step) -> Callable[[str], str]:
        def act_(place: str) -> str:
            calls.append(place)
            if len(calls) == 1:
                act(leader, root, step)
            return Path(place).read_text()

        return act_

    old = str(root / "old")
    assert other.at(old, read_late(("write", "old")), undo=discarded.append) == "old\n"
    assert (len(calls), discarded) == (2, ["w old\n"])
    calls.clear()
    assert other.at(str(root / "was/old"), read_late(("remove", "was/old"))) == "was old\n"
    calls.clear()
    with pytest.raises(FileNotFoundError):
        other.at(str(root / "new"), read_late(("write", "new")))
    assert not other.exists(str(root / "new"))


class _Meanwhile(Scratch):
    """Another thread writes and removes as this rank comes to lead: between its two halves."""

    def __init__(self, act: Callable[[], None]) -> None:
        super().__init__()
        self._act = act

    def lead(self) -> None:
        self._act()
        super().lead()


def test_what_another_thread_does_meanwhile_is_published(
    tmp_path: Path, scratches: list[Scratch]
) -> None:
    root = prepare(tmp_path / "root")
    (tmp_path / "changes").mkdir()
    where: dict[str, str] = {}

    def meanwhile() -> None:
        for place in where.values():
            Path(place).write_text("new")
        changes.remove(other, str(root / "old"), os.remove)

    scratches.append(_Meanwhile(meanwhile))
    other = FileView(scratches[-1], Ledger(str(tmp_path / "changes"), 2), leads=False)
    write(other, str(root / "again"))
    for name in ("again", "model"):
        where[name] = to_write(other, str(root / name), "replace")
    publish(other)
    late = Path(to_write(other, str(root / "late"), "replace"))
    late.write_text("late")
    expected = {"again": "new", "late": "late", "model": "new", "was": None}
    assert tree(root) == expected | {"was/old": "was old\n"}
    assert names(other, str(root)) == [*expected]


def test_a_script_that_asks_for_its_rank_writes_itself(
    tmp_path: Path, scratches: list[Scratch]
) -> None:
    root = prepare(tmp_path / "root")
    leader, other = two_ranks(tmp_path, scratches)
    act(other, root, ("write", "both"))
    act(leader, root, ("write", "of-leader"))
    leader.knows_ranks = other.knows_ranks = True
    act(other, root, ("write", "of-other"))
    act(other, root, ("mkdir", "d"))
    assert read(other, str(root / "both")) == "w both\n"
    assert read(other, str(root / "of-leader")) == "w of-leader\n"
    assert set(tree(root)) == {"d", "of-leader", "of-other", "old", "was", "was/old"}


def test_large_files_are_renamed_without_a_copy(tmp_path: Path, scratches: list[Scratch]) -> None:
    root = prepare(tmp_path / "root")
    (root / "large").write_bytes(b"x" * (2 << 20))
    _, other = two_ranks(tmp_path, scratches)
    act(other, root, ("rename", "large", "moved"))
    assert str(root / "moved") in other.changes.kept_open
    assert len(read(other, str(root / "moved"))) == 2 << 20
    publish(other)
    assert (root / "moved").stat().st_size == 2 << 20
    assert not (root / "large").exists()


def test_a_file_that_is_only_held_gets_a_name_for_hdf5(
    tmp_path: Path, scratches: list[Scratch]
) -> None:
    root = prepare(tmp_path / "root")
    path = root / "model.weights.h5"
    with h5py.File(path, "w") as file:
        file["x"] = [1, 2, 3]
    _, other = two_ranks(tmp_path, scratches)
    assert hold(other, str(path), str(path))
    path.unlink()
    place = other.found(str(path))
    assert place is not None
    with pytest.raises(OSError, match="real path"):
        h5py.File(place)
    keep_whole(other, str(path))
    with h5py.File(place) as file:
        assert file["x"][:].tolist() == [1, 2, 3]
    assert str(path) not in other.changes.kept_open


def test_links_of_this_rank_lead_to_its_own_files(tmp_path: Path, scratches: list[Scratch]) -> None:
    root = prepare(tmp_path / "root")
    _, other = two_ranks(tmp_path, scratches)
    act(other, root, ("write", "f"))
    changes.symlink(other, "f", str(root / "link"), os.symlink)
    assert read(other, other.canonical(str(root / "link"))) == "w f\n"
    publish(other)
    assert (root / "link").readlink() == Path("f")
    assert (root / "link").read_text() == "w f\n"
