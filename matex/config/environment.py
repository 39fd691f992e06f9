"""The environment of this process; no other module reads it for settings of matex."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from matex.config.batch_systems import Allocation, allocation, launcher_settings

__all__ = [
    "ARBITER",
    "HASH_SEED",
    "JOB",
    "SEGMENTS",
    "arbiter_setting",
    "batch_job",
    "environment_of_started",
    "one_order_of_sets",
    "segments_directory",
    "starting_rank",
    "user_cache",
    "variable",
    "variables_of_options",
    "visible_gpus",
]

#: The variable that names the directory in which Open MPI puts its segments of shared memory.
SEGMENTS = "OMPI_MCA_btl_sm_backing_directory"


#: The variable that says where ranks ask the launcher, see :mod:`matex.run.launcher_client`.
ARBITER = "MATEX_ARBITER"


#: The variable that identifies the processes of one start of the ranks.
JOB = "MATEX_JOB"

_PREFIX = "MATEX_"


#: The variable by which Python orders sets of text.
HASH_SEED = "PYTHONHASHSEED"
_RANDOM = "random"  # as if it were not set
_HASH_SEEDS = 2**32


def one_order_of_sets(seed: int) -> dict[str, str]:
    """Variable that gives sets of text the same order in all processes of a run.

    Empty where the user has set it.

    Args:
        seed: seed of the run.
    """
    if os.environ.get(HASH_SEED, _RANDOM) != _RANDOM:
        return {}
    return {HASH_SEED: str(seed % _HASH_SEEDS)}


def environment_of_started(temporary: Path) -> dict[str, str]:
    """Variables of the processes that this one starts: launchers of MPI, and plain programs.

    Open MPI keeps its sockets and files in TMPDIR, so that nothing is left behind in another place;
    and it starts nothing without HOME, which services and containers may lack.

    Args:
        temporary: directory for their temporary files, and their home where the user has none.
    """
    home = os.environ.get("HOME") or _home_of_user() or str(temporary)
    settings = launcher_settings(os.environ)
    return {**os.environ, "TMPDIR": str(temporary), "HOME": home, **settings}


def _home_of_user() -> str:
    """Home of this user in the password database; "" if there is none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return ""


def variable(name: str) -> str | None:
    """Text of the environment variable *name*; None if it is not set."""
    return os.environ.get(name)


def variables_of_options() -> list[str]:
    """Names of the variables that are set and meant as options of matex, in order."""
    return sorted(set(name for name in os.environ if name.startswith(_PREFIX)) - {ARBITER, JOB})


def user_cache() -> Path:
    """The directory for caches of this user's programs, by the XDG specification."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def batch_job() -> Allocation | None:
    """Allocation of this process's batch job; None outside of one."""
    return allocation(os.environ, lambda path: Path(path).read_text())


def segments_directory() -> Path | None:
    """Directory of the segments of this run's ranks, if ``matex run`` chose one."""
    path = Path(os.environ.get(SEGMENTS, ""))
    return path if path.name.startswith("matex-") else None


def arbiter_setting() -> str | None:
    """The address at which ranks ask the launcher which part of a run goes on, on several hosts."""
    return os.environ.get(ARBITER)


def starting_rank() -> int | None:
    """Number that Open MPI's launcher gave this process; None where another started it."""
    text = os.environ.get("PMIX_RANK", "")
    return int(text) if text.isdigit() else None


def visible_gpus() -> str:
    """The GPUs to which the environment restricts this process; equal text means the same GPUs."""
    names = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
    return " ".join(f"{name}={os.environ[name]}" for name in names if name in os.environ)
