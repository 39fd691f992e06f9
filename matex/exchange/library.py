"""Building and loading of the native exchange: once, at first use, with any C++ compiler.

The library needs TensorFlow's headers and nothing else: no MPI, no C++ run time. So it is one
small file, named by its dependencies, that every node of one architecture can use. It ends with a
checksum: loading a truncated file would end the process.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Library", "NotBuilt", "Recipe", "find", "recipe"]

_SOURCE = Path(__file__).with_name("exchange.cc")
_SOURCES = (_SOURCE, *(_SOURCE.with_name(f"{name}.h") for name in ("flow", "numbers", "slices")))
_COMPILERS = ("c++", "g++", "clang++", "gcc", "clang", "CC")
_FLAGS = (
    "-std=c++17", "-O3", "-fPIC", "-shared", "-fvisibility=hidden",
    "-fno-exceptions", "-fno-rtti", "-static-libgcc",
)  # fmt: skip
_COMPILE_S = 300
_DIGEST = hashlib.sha256().digest_size


class NotBuilt(Exception):
    """There is no native exchange; the message is one line with the reason."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Sources and options of a library, which determine its name in the cache.

    Args:
        tensorflow: versions of TensorFlow and of its C interface.
        flags: compiler options for TensorFlow's headers and library.
        compilers: names or paths; the first one that works is used.
    """

    tensorflow: str
    flags: tuple[str, ...]
    compilers: tuple[str, ...] = _COMPILERS

    @property
    def name(self) -> str:
        """Name of the file, from the source, TensorFlow and the machine's architecture."""
        text = "\0".join(
            [*(path.read_text() for path in _SOURCES), self.tensorflow, platform.machine(), *_FLAGS]
        )
        return f"exchange-{hashlib.sha256(text.encode()).hexdigest()[:16]}.so"


@dataclass(frozen=True, kw_only=True)
class Library:
    """A loaded library.

    ``operation(parts, plan=address, U=dtype, N=count)`` builds the operation, and
    ``early(parts, plan=address, U=dtype, group=number)`` one that sends a group of gradients before
    it; ``how`` describes where the library came from. ``stop(address)`` ends a step whose graph
    failed between the two, and ``free(address)`` frees the memory of exchanges.
    """

    operation: Any
    early: Any
    path: Path
    how: str
    stop: Any
    free: Any


def recipe() -> Recipe:
    """Recipe for the TensorFlow of this process."""
    import tensorflow as tf

    return Recipe(
        tensorflow=f"{tf.version.VERSION} {tf.version.GIT_VERSION}",
        flags=(*tf.sysconfig.get_compile_flags(), *tf.sysconfig.get_link_flags()),
    )


def find(made_by: Recipe, caches: Sequence[Path], *, record_bytes: int) -> Library:
    """Load the library from the first cache that has it, or build it in one; local.

    A damaged file is rebuilt. Caches that
    cannot be written are read only.

    Raises:
        NotBuilt: no cache has the library and it can be built in none.
    """
    reasons: list[str] = []
    for cache in caches:
        path = cache / made_by.name
        if path.exists():
            try:
                return _load(path, record_bytes, how="from the cache")
            except NotBuilt as error:
                reasons.append(str(error))
    for cache in caches:
        path = cache / made_by.name
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with _lock(path):
                # The previous holder of the lock may have built it.
                with contextlib.suppress(NotBuilt):
                    if path.exists():
                        return _load(path, record_bytes, how="from the cache")
                compiler = _compile(made_by, path)
            return _load(path, record_bytes, how=f"built by {compiler}")
        except NotBuilt as error:
            reasons.append(str(error))
        except OSError as error:
            reasons.append(f"{cache} cannot be written: {error.strerror}")
    raise NotBuilt("; ".join(dict.fromkeys(reasons)) or "there is no place to build it in")


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Context with one builder at a time; without file locks several build, harmlessly."""
    with path.with_suffix(".lock").open("a") as file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compile(made_by: Recipe, path: Path) -> str:
    """Build *path* as a whole or not at all; return the compiler used."""
    reason = "no C++ compiler was found"
    for name in made_by.compilers:
        compiler = shutil.which(name)
        if compiler is None:
            continue
        descriptor, aside = tempfile.mkstemp(prefix=f"{path.stem}-", suffix=".tmp", dir=path.parent)
        os.close(descriptor)
        command = [compiler, *_FLAGS, "-x", "c++", str(_SOURCE), "-x", "none"]
        try:
            done = subprocess.run(
                [*command, *made_by.flags, "-o", aside],
                capture_output=True, text=True, timeout=_COMPILE_S, check=False,
            )  # fmt: skip
            if done.returncode == 0:
                _seal(Path(aside))
                Path(aside).chmod(0o755)
                Path(aside).replace(path)
                return name
            lines = [line for line in done.stderr.splitlines() if "error" in line]
            reason = f"{name} failed: {(lines or ['without a word'])[0].strip()}"
        except subprocess.TimeoutExpired:
            reason = f"{name} had not ended after {_COMPILE_S} s"
        finally:
            Path(aside).unlink(missing_ok=True)
    raise NotBuilt(reason)


def _seal(path: Path) -> None:
    """Append the checksum of the file's content, where the loader does not look."""
    with path.open("ab") as file:
        file.write(hashlib.sha256(path.read_bytes()).digest())


def _check(path: Path) -> None:
    content = path.read_bytes()
    if hashlib.sha256(content[:-_DIGEST]).digest() != content[-_DIGEST:]:
        raise NotBuilt(f"{path} is damaged")
    if path.stat().st_uid not in (0, os.getuid()):
        raise NotBuilt(f"{path} belongs to another user")


def _load(path: Path, record_bytes: int, *, how: str) -> Library:
    import tensorflow as tf

    try:
        _check(path)
        # TensorFlow must load it first: it misses the operations of a file that ctypes has loaded.
        operations = tf.load_op_library(str(path))
        operation, early = operations.matex_exchange, operations.matex_early
        functions = ctypes.CDLL(str(path))
        ask = functions.matex_exchange_plan_bytes
        stop, free = functions.matex_exchange_stop, functions.matex_exchange_free
    except (tf.errors.OpError, OSError, AttributeError, RuntimeError) as error:
        raise NotBuilt(f"{path} does not load: {str(error).splitlines()[0]}") from None
    ask.restype = ctypes.c_int64
    for function in (stop, free):
        function.argtypes, function.restype = [ctypes.c_void_p], None
    if ask() != record_bytes:
        raise NotBuilt(f"{path} and native.py disagree about the record")
    return Library(operation=operation, early=early, path=path, how=how, stop=stop, free=free)
