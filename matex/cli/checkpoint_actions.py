"""Actions of ``matex checkpoint``. TensorFlow is imported by the exports alone."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import checkpoints
from matex.checkpointing.locate import find
from matex.cli import importing
from matex.errors import InputError

__all__ = ["run"]

_SECTIONS = ("weights", "optimizer", "extra")


def run(arguments: argparse.Namespace) -> int:
    """Run the action; return its exit status.

    Raises:
        InputError, checkpoints.CheckpointError: the message is one line.
    """
    action = arguments.action
    if action == "list":
        return _list(arguments.dir)
    if action == "show":
        return _show(*find(arguments.path))
    if action == "verify":
        return _verify(arguments.path)
    if action == "diff":
        return _diff(find(arguments.a)[1], find(arguments.b)[1])
    if arguments.out.exists() and not arguments.force:
        raise InputError(f"OUT must not exist yet. Received: {arguments.out}; --force replaces it")
    _, snapshot = find(arguments.path)
    with importing.unheard_import():
        from matex.checkpointing import export

    if action == "archive":
        export.archive(snapshot, arguments.out)
    else:
        export.export(snapshot, arguments.out, allow_lambda=arguments.allow_lambda)
    print(f"{arguments.out}: {arguments.out.stat().st_size:,} bytes")
    return 0


def _list(directory: Path) -> int:
    paths = _checkpoints_in(directory)
    print(f"{'step':>12}  {'fit':>3}  {'epoch':>5}  {'samples':>9}  {'bytes':>13}")
    for path in paths:
        size = path.stat().st_size
        try:
            cursor = checkpoints.read_snapshot(path).cursor
        except checkpoints.CheckpointError as error:
            print(f"{int(path.stem[5:]):>12,}  {_why(error)}")
            continue
        known = [f"{cursor.get(name, 0):,}" for name in ("step", "fit", "epoch", "samples")]
        print("{:>12}  {:>3}  {:>5}  {:>9}".format(*known) + f"  {size:>13,}")
    return 0


def _checkpoints_in(directory: Path) -> list[Path]:
    if not directory.is_dir():
        raise InputError(f"a directory is wanted. Received: {directory}")
    paths = checkpoints.Store(directory).list()
    if not paths:
        raise InputError(f"a directory with checkpoints is wanted. Received: {directory}")
    return paths


def _why(error: checkpoints.CheckpointError) -> str:
    reason = getattr(error, "reason", None) or str(error)
    kinds = {
        checkpoints.NotASnapshot: "no checkpoint of matex",
        checkpoints.IncompatibleSnapshot: "refused",
        checkpoints.SnapshotNotFound: "absent",
    }
    kind = next((word for kind, word in kinds.items() if isinstance(error, kind)), "damaged")
    return f"{kind}: {reason}"


def _show(path: Path, snapshot: checkpoints.Snapshot) -> int:
    print(f"{path}: {path.stat().st_size:,} bytes, arrays {snapshot.nbytes:,}")
    print("cursor: " + ", ".join(f"{name} {value}" for name, value in snapshot.cursor.items()))
    text = snapshot.architecture
    print(f"architecture: {f'{len(text.encode()):,} bytes of JSON' if text else 'not described'}")
    for section in _SECTIONS:
        arrays = getattr(snapshot, section)
        nbytes = sum(array.nbytes for array in arrays.values())
        print(f"{section}: {len(arrays)} arrays, {nbytes:,} bytes")
        width = max(map(len, arrays), default=0)
        for name, array in arrays.items():
            shape = " x ".join(map(str, array.shape)) or "scalar"
            print(f"  {name:<{width}}  {array.dtype.name}  {shape}")
    return 0


def _verify(path: Path) -> int:
    paths = _checkpoints_in(path) if path.is_dir() else [path]
    bad = 0
    for file in paths:
        try:
            checkpoints.read_snapshot(file)
            print(f"{file}: valid")
        except (checkpoints.SnapshotNotFound, checkpoints.StorageError):
            raise
        except checkpoints.CheckpointError as error:
            bad += 1
            print(f"{file}: {_why(error)}", file=sys.stderr)
    return int(bad > 0)


def _diff(a: checkpoints.Snapshot, b: checkpoints.Snapshot) -> int:
    lines = [*_cursor_lines(a, b)]
    if a.architecture != b.architecture:
        lines.append("architecture: differs")
    for section in _SECTIONS:
        lines += _section_lines(section, getattr(a, section), getattr(b, section))
    print("\n".join(lines) if lines else "equal")
    return int(bool(lines))


def _cursor_lines(a: checkpoints.Snapshot, b: checkpoints.Snapshot) -> Iterator[str]:
    for name in dict.fromkeys([*a.cursor, *b.cursor]):
        one, other = a.cursor.get(name), b.cursor.get(name)
        if one != other:
            yield f"cursor {name}: {one} and {other}"


def _section_lines(section: str, a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> list[str]:
    lines = []
    for name in dict.fromkeys([*a, *b]):
        what = f"{section} {name}"
        if name not in a or name not in b:
            lines.append(f"{what}: only in the {'first' if name in a else 'second'}")
        elif (a[name].shape, a[name].dtype) != (b[name].shape, b[name].dtype):
            one, other = (f"{x.dtype.name}{x.shape}" for x in (a[name], b[name]))
            lines.append(f"{what}: {one} and {other}")
        elif a[name].tobytes() != b[name].tobytes():
            lines.append(f"{what}: {_distance(a[name], b[name])}")
    return lines


def _distance(a: np.ndarray, b: np.ndarray) -> str:
    """Distance of two arrays of equal shape and dtype that differ in some bit."""
    if a.dtype.names is not None:
        return "other bits"
    wide = np.result_type(a.dtype, np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        x, y = a.astype(wide), b.astype(wide)
        apart = np.abs(x - y)
        scale = np.abs(x).max(initial=0.0)
    count = int(np.count_nonzero(x != y))
    return f"{count:,} of {a.size:,} values, at most {apart.max():.3g} apart (largest {scale:.3g})"
