"""Shared by all tests: a clean environment, MPI tests only under mpiexec, real data where it is."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from ci.core_sharing import core_sharing
from ci.patience import patience
from tests.train.forks import fork_server_for
from tests.train.runs import PATHS

ROOT = Path(__file__).resolve().parent.parent


def pytest_configure(config: pytest.Config) -> None:
    under_mpi = bool(config.getoption("--with-mpi"))
    gc.disable()  # what is imported from here on stays
    # A user's own settings must not change what is tested, here or in the children.
    for name in [name for name in os.environ if name.startswith("MATEX_")]:
        del os.environ[name]
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    os.environ.update(core_sharing())  # other tests run beside
    # A shell lets what it starts in the background ignore Ctrl-C; so would all that tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Ranks must draw the same examples, or their collectives do not match.
    fixed = under_mpi or "CI" in os.environ
    options = {"derandomize": True, "database": None} if fixed else {}
    # A virtual machine that stands still for a minute makes anything too slow.
    unhurried = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
    settings.register_profile("matex", **unhurried, **options)
    settings.load_profile("matex")


@pytest.hookimpl(tryfirst=True)  # before pytest-mpi skips what is marked mpi
def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kills", type=int, default=20, help="how many random kills tests/fault tries (default 20)"
    )
    parser.addoption(
        "--fork-ranks", action="store_true", help="TensorFlow is imported not once a rank"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Lengthen limits, mark tests/mpi as MPI tests, and refuse the others under mpiexec.

    Under mpiexec they would hang.
    """
    for item in items:
        if limit := item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(patience(*limit.args)), append=False)
        if ROOT / "tests" / "mpi" in item.path.parents:
            item.add_marker(pytest.mark.mpi)
        elif config.getoption("--with-mpi"):
            raise pytest.UsageError(
                f"--with-mpi is for tests/mpi alone. Received: {item.nodeid}; run it without"
            )


def pytest_collection_finish() -> None:
    """Spare the garbage collector the million objects of TensorFlow and Keras, in each test."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def fork_server(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """Start the server of ranks with the first test that needs it, if ``--fork-ranks`` is given."""
    if not request.config.getoption("--fork-ranks"):
        yield {}
        return
    with fork_server_for(PATHS) as variables:
        yield variables


@pytest.fixture(scope="module")
def forked_ranks(fork_server: dict[str, str]) -> Iterator[None]:
    """Have the ranks of this module forked from a process that has imported TensorFlow."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in fork_server.items():
            patch.setenv(name, value)
        yield


@pytest.fixture
def real_data() -> Callable[[str], Path]:
    """Return a function: name of a data file -> its path; the test is skipped where it is absent.

    Data lie in the folder named by TEST_DATA, or in shared/data beside the repository.
    """
    folder = Path(os.environ.get("TEST_DATA", ROOT.parent / "shared" / "data"))

    def find(name: str) -> Path:
        path = folder / name
        if not path.exists():
            pytest.skip(f"no {name} here; set TEST_DATA to a folder that has it")
        return path

    return find
