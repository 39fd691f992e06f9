"""``matex.data.open``: from a path to rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from matex.data.formats import FORMATS, format_of, tars_in
from matex.data.source import Data
from matex.errors import DataError, InputError

__all__ = ["open"]

_OPTIONS = {
    "csv": ("label", "header", "dtype"),
    "images": ("size",),
    "tfrecord": ("label", "size"),
    "tar": ("label", "size"),
}
_WILD = re.compile(r"[*?\[]")


def open(
    path: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    format: str | None = None,
    label: int | str | None = None,
    header: bool | None = None,
    size: tuple[int, int] | None = None,
    dtype: str | None = None,
) -> Data:
    """Open a data file or folder for reading by rows. Local; each rank opens for itself.

    The format is detected from the content. No lock is taken and nothing is written.

    =========  ==========================================================================
    hdf5       every data set of numbers, by all its names; what is passed over is in the notes
    netcdf     every variable of numbers, by name; unpacked, and NaN where there is no value
    csv        ``x`` (columns) and ``y`` (the label), float32; also .csv.gz, read whole
    idx        ``x`` and its labels ``y`` from the file beside it; also .gz, read whole
    cifar      ``x`` (32, 32, 3) and ``y`` (of CIFAR-100 also ``y_coarse``)
    images     ``x`` (height, width, 3) uint8 and ``y`` int64, classes in order of their names
    tfrecord   every feature of the first record by name, and ``x`` and ``y`` where they are plain
    tar        ``x`` and ``y`` as of images: NAME.jpg beside NAME.cls, .json or .txt (WebDataset)
    =========  ==========================================================================

    A folder of MNIST or CIFAR files, one of images in ``train`` and ``val`` or ``test``, and one
    of TFRecord files or tars so named has ``x_train``, ``y_train``, ``x_test``, ``y_test``.

    Args:
        path: path of the file or folder; of tars also a pattern, such as ``"train-*.tar"``, or a
            list of paths.
        format: key of the table (default: by content, with which the name must agree).
        label: csv: the label's column, by number from 0 (0 without it) or by name; -1 is the
            last. tfrecord: the feature that is ``y``. tar: the field of .json that is the class.
        header: csv: whether the first line names the columns; without it, it does when a
            field of it is neither a number nor a word for a missing one, such as NA.
        size: images, tfrecord, tar: (height, width) to cut and scale images to; without it all
            must have the size of the first.
        dtype: csv: ``float32``, which refuses what it cannot hold, or ``float64``.

    Raises:
        DataError: the file is not what its name says, is cut short, or has rows of the
            wrong width. File and row are named.
        InputError: an option is wrong, or does not belong to the format.

    Returns:
        Rows by name, of which none is read yet, but of csv and idx.

    Example:
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     path = Path(directory) / "two.csv"
        ...     written = path.write_text("a,b\\n1,0\\n2,1\\n")
        ...     with data.open(path, label="b") as two:
        ...         two.x[:].tolist(), two.y[:].tolist()
        ([[1.0], [2.0]], [0.0, 1.0])
    """
    shards = _shards(path)
    origin = Path(path) if isinstance(path, str | PathLike) else Path(shards[0]).parent
    kind = _kind(shards, format) if shards else format_of(origin, format)
    given = {"label": label, "header": header, "size": size, "dtype": dtype}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for name, value in options.items():
        if name not in _OPTIONS.get(kind, ()):
            raise InputError(
                f"{name} is not for {FORMATS[kind]}. Received: {name}={value!r} "
                f"with {origin}; leave it out"
            )
    if kind == "tar":
        from matex.data.tar import open_tars

        whole = tars_in(origin) if origin.is_dir() else [origin]
        return open_tars(shards or whole, origin=origin, **options)
    return _open(origin, kind, options)


def _shards(path: str | PathLike[str] | Sequence[str | PathLike[str]]) -> list[Path]:
    """Files of a list or of a pattern; empty if *path* is neither.

    Raises:
        DataError: no file.
    """
    if not isinstance(path, str | PathLike):
        found = [Path(one) for one in path]
    elif _WILD.search(str(path)) and not Path(path).exists():
        root = Path(Path(path).anchor)
        found = sorted(root.glob(str(Path(path).relative_to(root))))
    else:
        return []
    if not found:
        raise DataError(f"at least one file is wanted. Received: {path}, which is none")
    return found


def _kind(shards: list[Path], given: str | None) -> str:
    """The format of tars.

    Raises:
        DataError: a file is of another format.
    """
    for shard in shards:
        kind = "folder" if shard.is_dir() else format_of(shard, given)
        if kind != "tar":
            raise DataError(
                f"several files are read together where all are tars. Received: {shard}, {kind}; "
                "open it by itself"
            )
    return "tar"


def _open(path: Path, kind: str, options: dict[str, Any]) -> Data:
    """Open *path*; readers are imported here, because those of images import TensorFlow."""
    if kind == "csv":
        from matex.data.csv import open_csv

        return open_csv(path, **options)
    if kind == "idx":
        from matex.data.idx import open_idx

        return open_idx(path)
    if kind == "cifar":
        from matex.data.cifar import open_cifar

        return open_cifar(path)
    if kind == "netcdf":
        from matex.data.netcdf import open_netcdf

        return open_netcdf(path)
    if kind == "tfrecord":
        from matex.data.tfrecord import open_tfrecord

        return open_tfrecord(path, **options)
    if kind == "images":
        from matex.data.images import open_images

        return open_images(path, **options)
    from matex.data.hdf5 import open_hdf5

    return open_hdf5(path)
