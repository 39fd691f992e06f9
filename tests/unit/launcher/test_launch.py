"""The mpiexec command line: exactly the options that were measured, and the user's own words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from matex.config import Config
from matex.errors import InputError
from matex.launcher.launch import Launch, mpiexec_command
from matex.launcher.mpiexec import Mpiexec, MpiexecKind, kind_of

CORES = len(os.sched_getaffinity(0))


def command(kind: MpiexecKind = MpiexecKind.OPEN_MPI, **more: Any) -> list[str]:
    given: dict[str, Any] = {
        "ranks": CORES, "script": Path("train.py"), "arguments": [], **more,
    }  # fmt: skip
    return mpiexec_command(
        Launch(**given), report=Path("/out"), mpiexec=Mpiexec("/x/mpiexec", kind)
    )


def settings(words: list[str]) -> dict[str, str]:
    """The --mca settings of a command."""
    return {words[i + 1]: words[i + 2] for i, word in enumerate(words) if word == "--mca"}


# Not the components that no death should meet.
COLL = "^han,cuda,accelerator"


def launcher_s(words: list[str]) -> list[str]:
    """Words that mpiexec itself reads."""
    return words[: words.index(sys.executable)]


def test_one_host_needs_no_list_of_hosts() -> None:
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    assert launcher_s(command()) == [
        *("/x/mpiexec", "--with-ft", "ulfm", "--oversubscribe", *root, "--output", ":raw"),
        *("--mca", "async_mpi_finalize", "1", "--mca", "coll", COLL, "-n", str(CORES)),
    ]


def test_without_ulfm_nothing_is_asked_for_that_needs_it() -> None:
    words = launcher_s(command(hosts="a:2,b:2", ulfm=False))
    assert "--with-ft" not in words
    assert settings(words) == {"async_mpi_finalize": "1", "coll": COLL}


def test_ranks_on_other_hosts_order_sets_alike() -> None:
    words = launcher_s(command(hosts="a:2,b:2"))
    assert words[words.index("-x") + 1] == "PYTHONHASHSEED"


def test_more_ranks_than_cores_leave_the_core_while_they_wait() -> None:
    assert settings(command(ranks=CORES + 1)) == {
        "async_mpi_finalize": "1", "coll": COLL, "mpi_yield_when_idle": "1",
    }  # fmt: skip


def test_spares_are_more_processes() -> None:
    words = command(ranks=CORES, config=Config(spares=2))
    assert launcher_s(words)[-2:] == ["-n", str(CORES + 2)]
    assert settings(words)["mpi_yield_when_idle"] == "1"
    rank_s = words[words.index(sys.executable) :]
    assert rank_s[rank_s.index("--spares") + 1] == "2"


def test_several_hosts_have_the_detector() -> None:
    words = launcher_s(command(hosts="a:2,b:2", ranks=CORES + 1))
    assert words[words.index("--host") + 1] == "a:2,b:2"
    assert settings(words) == {
        "async_mpi_finalize": "1",
        "coll": COLL,
        "mpi_ft_detector": "1",
        "mpi_ft_detector_period": "3",
        "mpi_ft_detector_timeout": "20",
        "mpi_ft_propagator_with_rbcast": "1",
        "coll_ftagree_era_topology": "2",
        "mpi_add_procs_cutoff": "1048576",
    }
    assert "--host" not in command()
    # With --oversubscribe all ranks would be on the first.
    assert words[words.index("--map-by") + 1] == "slot:OVERSUBSCRIBE"
    assert "--oversubscribe" not in words


@pytest.mark.parametrize("given", [{"hosts": "a:2,b:1"}, {"node_slots": {"a": 2, "b": 1}}])
def test_cold_spares_are_named_a_host_each_and_ranks_all_hosts(given: dict[str, Any]) -> None:
    """Slurm's slots would be filled host by host, and only hosts that are named would be used."""
    words = command(**given, nodes=2, ranks=3, config=Config(respawn=2))
    placed = [(words[i + 1], words[words.index("-n", i) + 1]) for i in _at(words, "--host")]
    assert placed == [("a:2,b:1", "3"), ("a:1", "1"), ("b:1", "1")]
    assert settings(words)["mpi_preconnect_mpi"] == "1"


def test_without_names_of_nodes_cold_spares_are_left_to_mpiexec() -> None:
    words = command(nodes=2, ranks=3, config=Config(respawn=2))
    assert "--host" not in words
    assert [words[i + 1] for i in _at(words, "-n")] == ["3", "2"]


def _at(words: list[str], word: str) -> list[int]:
    return [i for i, found in enumerate(words) if found == word]


def test_one_host_that_is_left_has_no_detector() -> None:
    """A rank that the system keeps waiting for ten seconds would be taken for dead."""
    words = launcher_s(command(hosts="a:2", ranks=2))
    assert words[words.index("--host") + 1] == "a:2"
    assert settings(words) == {"async_mpi_finalize": "1", "coll": COLL}


def test_ranks_get_their_options_the_report_and_the_script_s_arguments() -> None:
    words = command(
        config=Config(seed=3, inject=("kill:rank=0,step=1",), wall_time=90.5, report=Path("own")),
        script=Path("dir/my train.py"),
        arguments=["--epochs", "2", "-n", "9", "--report", "theirs", "a b", ""],
    )
    assert words[words.index(sys.executable) :] == [
        *(sys.executable, "-m", "matex", "--wall-time", "00:01:31"),
        *("--seed", "3", "--inject", "kill:rank=0,step=1"),
        *("--report", "/out", "dir/my train.py"),
        *("--epochs", "2", "-n", "9", "--report", "theirs", "a b", ""),
    ]


def test_a_module_is_named_as_python_takes_it() -> None:
    words = command(script=Path("package.train"), module=True, arguments=["-m", "mine"])
    assert words[words.index("--report") + 2 :] == ["-m", "package.train", "-m", "mine"]


def test_a_host_is_probed_in_the_way_that_ranks_start() -> None:
    words = Mpiexec("/x/mpiexec").probe("b", ["true"])
    assert words[0] == "/x/mpiexec"
    assert words[words.index("--host") :][:5] == ["--host", "b:1", "-n", "1", "sh"]
    assert subprocess.run([*words[words.index("sh") :]], check=False).returncode == 0
    failing = Mpiexec("/x/mpiexec").probe("b", ["sh", "-c", "exit 3"])
    assert subprocess.run(failing[failing.index("sh") :], check=False).returncode == 3
    hydra = Mpiexec("/x/mpiexec", MpiexecKind.HYDRA).probe("b", ["true"])
    assert hydra == ["/x/mpiexec", "-hosts", "b:1", "-n", "1", "true"]


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (
            "mpiexec (Open MPI) 5.0.11\n\nReport bugs to https://www.open-mpi.org",
            MpiexecKind.OPEN_MPI,
        ),
        ("mpirun (Open MPI) 4.1.4", MpiexecKind.OPEN_MPI),
        ("HYDRA build details:\n    Version:    5.0.2", MpiexecKind.HYDRA),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.13", MpiexecKind.HYDRA),
        ("mpiexec: unknown option --version", MpiexecKind.OTHER),
    ],
)
def test_an_mpiexec_is_known_by_what_it_says(said: str, kind: MpiexecKind) -> None:
    assert kind_of(said) is kind


def test_hydra_gets_options_of_its_own() -> None:
    assert launcher_s(command(MpiexecKind.HYDRA, ranks=CORES)) == ["/x/mpiexec", "-n", str(CORES)]
    words = launcher_s(command(MpiexecKind.HYDRA, hosts="a:2,b:2"))
    assert words == ["/x/mpiexec", "-hosts", "a:2,b:2", "-n", str(CORES)]
    crowded = launcher_s(command(MpiexecKind.HYDRA, ranks=CORES + 1))
    assert crowded[1:4] == ["-genv", "MPIR_CVAR_ENABLE_HEAVY_YIELD", "1"]


def test_an_unknown_mpiexec_gets_what_the_standard_has() -> None:
    assert launcher_s(command(MpiexecKind.OTHER, ranks=3)) == ["/x/mpiexec", "-n", "3"]
    with pytest.raises(InputError, match="--hosts wants"):
        command(MpiexecKind.OTHER, hosts="a:2")
