"""``matex doctor`` and ``matex build``: what this machine has for matex."""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["add_command"]


def add_command(commands: Any) -> None:
    """Add ``doctor`` and ``build`` to the subparsers *commands*."""
    doctor = commands.add_parser("doctor", help="say what this machine has for matex")
    doctor.set_defaults(act=_doctor)
    build = commands.add_parser(
        "build",
        help="build the native exchange",
        description="Build the native exchange now, for nodes that have no compiler. "
        "Without this command the first run builds it, where it can.",
    )
    build.set_defaults(act=_build)


def _doctor(_: argparse.Namespace) -> int:
    from matex.cli import doctor_actions

    return doctor_actions.report()


def _build(_: argparse.Namespace) -> int:
    from matex.cli import doctor_actions

    return doctor_actions.build()
