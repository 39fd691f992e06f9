"""Command line of ``matex doctor`` and ``matex build``."""

from __future__ import annotations

import argparse
import os
from typing import Any

import ft
from matex.cli.parser import Parser
from matex.errors import InputError

__all__ = ["add_command"]

_PARAMETERS = 25_000_000


def add_command(commands: Any) -> None:
    """Add ``doctor`` and ``build`` to the subparsers *commands*."""
    doctor = commands.add_parser(
        "doctor",
        help="say what this machine has for matex",
        description="Say what this machine has for matex, and what to do about the rest. With "
        "--network, measure the network between hosts instead, predict what the exchange of a "
        "step takes there, and say what to set. Under an existing mpiexec or srun each rank "
        "calls python -m matex doctor --network.",
    )
    doctor.add_argument(
        "--network",
        action="store_true",
        help="measure latency and bandwidth of each pair of hosts",
    )
    doctor.add_argument(
        "--hosts",
        metavar="a:2,b:2",
        help="with --network: hosts and their slots (default: those of the batch job)",
    )
    doctor.add_argument(
        "-n",
        "--ranks",
        metavar="N",
        help="with --network: how many ranks (default: one for each slot)",
    )
    doctor.add_argument(
        "--parameters",
        type=_count,
        metavar="N",
        help="with --network: parameters of the model that is asked about "
        f"(default: {_PARAMETERS})",
    )
    doctor.set_defaults(parser=doctor, act=_doctor)
    build = commands.add_parser(
        "build",
        help="build the native exchange",
        description="Build the native exchange now, for nodes that have no compiler. "
        "Without this command the first run builds it, where it can.",
    )
    build.set_defaults(parser=build, act=_build)


def _count(text: str) -> int:
    """Number such as 25000000 or 25e6, at least 1."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value < 1e15 or value != int(value):
        raise argparse.ArgumentTypeError(
            f"a whole number of at least 1 is wanted. Received: {text}"
        )
    return int(value)


def _doctor(arguments: argparse.Namespace) -> int:
    if arguments.network:
        return _network(arguments)
    given = [name for name in ("hosts", "ranks", "parameters") if getattr(arguments, name)]
    if given:
        arguments.parser.error(f"--{given[0]} wants --network. Received: none")
    from matex.cli import doctor_actions

    return doctor_actions.report()


def _network(arguments: argparse.Namespace) -> int:
    """Run one rank of the measurement if a launcher started several, else start them."""
    parser: Parser = arguments.parser
    parameters = arguments.parameters or _PARAMETERS
    words = {n: w for n in ("hosts", "ranks") if (w := getattr(arguments, n)) is not None}
    started = ft.started_by(os.environ)
    try:
        if started is None or started.processes == 1:
            from matex.cli import network_actions

            return network_actions.start(words, parameters)
        if words:
            raise InputError(
                f"--{min(words)} is for starting ranks. Received: one of {started.processes} that "
                f"{started.launcher} has started; leave it out"
            )
        from matex.network.session import attend

        return attend(parameters, os.environ)
    except (InputError, ft.Unrecoverable) as error:
        parser.error(str(error))


def _build(_: argparse.Namespace) -> int:
    from matex.cli import doctor_actions

    return doctor_actions.build()
