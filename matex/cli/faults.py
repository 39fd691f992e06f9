"""The command line of ``matex faults``: plans are drawn and looked at, runs compared."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import ft
from matex.config import read_plan
from matex.errors import InputError

__all__ = ["add_command", "seconds"]

_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def add_command(commands: Any) -> None:
    """Add ``faults`` with its actions to the subparsers *commands*."""
    about = "Draw random fault plans for matex run --inject-file, and compare what they did."
    parser = commands.add_parser(
        "faults", help="draw and show fault plans, compare runs", description=about
    )
    actions = parser.add_subparsers(dest="action", required=True)
    _add_sample(actions)
    show = actions.add_parser("show", help="say what a plan holds")
    show.add_argument("plan", type=Path, metavar="PLAN.csv", help="fault plan")
    show.add_argument("--ranks", type=int, metavar="N", help="check that it fits N ranks")
    show.set_defaults(parser=show, act=_run)

    compared = actions.add_parser(
        "compare",
        help="two runs side by side",
        description="Compare the report directories of two runs, say of one without faults (A) "
        "and of its twin with them (B): losses, metrics, samples, time lost.",
    )
    compared.add_argument("a", type=Path, metavar="A", help="report directory of the one run")
    compared.add_argument("b", type=Path, metavar="B", help="report directory of the other")
    compared.set_defaults(parser=compared, act=_run)


def _add_sample(actions: Any) -> None:
    sample = actions.add_parser(
        "sample",
        help="print a random plan",
        description="Print a random fault plan as CSV, the same for the same seed. Intervals "
        "between failures are Weibull, or exponential with --shape 1; nobody is repaired.",
        epilog="Durations are numbers with s, m, h or d.",
    )
    add = sample.add_argument
    add(
        "--mtbf", type=seconds, required=True, metavar="2h",
        help="mean time between failures of the whole machine",
    )  # fmt: skip
    add("--ranks", type=int, required=True, metavar="N", help="ranks of the run")
    span = sample.add_mutually_exclusive_group(required=True)
    span.add_argument("--hours", type=float, metavar="H", help="how long the plan is")
    span.add_argument(
        "--for", dest="duration", type=seconds, metavar="90s", help="the same, as a duration"
    )
    add(
        "--shape",
        type=float,
        default=1.0,
        metavar="K",
        help="shape of the Weibull distribution (default: 1, exponential)",
    )
    add("--nodes", type=int, default=1, metavar="M", help="hosts, each with a block of ranks")
    add(
        "--node-share", type=float, metavar="P",
        help="the part of failures that take a whole host (default: 0.2 with --nodes, else 0)",
    )  # fmt: skip
    add(
        "--cascade", type=float, default=0.0, metavar="P",
        help="the probability of another failure inside a recovery (default: 0)",
    )  # fmt: skip
    add(
        "--kinds",
        type=_words,
        default=("kill",),
        metavar="kill,stop",
        help="kinds of faults (default: kill)",
    )
    add(
        "--at",
        type=_words,
        default=("compute",),
        metavar="compute,...",
        help="phases in which they strike (default: compute)",
    )
    add(
        "--step-time", type=seconds, metavar="80ms",
        help="write steps of this length in place of times",
    )  # fmt: skip
    add("--seed", type=int, default=0, metavar="S", help="seed of the plan (default: 0)")
    sample.set_defaults(parser=sample, act=_run)


def _run(arguments: argparse.Namespace) -> int:
    """Run the parsed action; return its exit status. Bad input ends it with one line."""
    action = {"sample": _sample, "show": _show, "compare": _compare}[arguments.action]
    try:
        action(arguments)
    except (InputError, ft.UsageError) as error:
        arguments.parser.error(str(error))
    return 0


def seconds(text: str) -> float:
    """Duration as written, such as 90s or 2h; a bare number is in seconds."""
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text[len(number) :] or "s"
    factor = 1e-3 if unit == "ms" else _UNITS.get(unit, 0.0)
    try:
        value = float(number) * factor
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(
            f"a duration such as 90s, 30m, 2h or 1d is wanted. Received: {text}"
        )
    return value


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _sample(arguments: argparse.Namespace) -> None:
    several = 0.2 if arguments.nodes > 1 else 0.0
    model = ft.FailureModel(
        mtbf_s=arguments.mtbf,
        ranks=arguments.ranks,
        nodes=arguments.nodes,
        shape=arguments.shape,
        node_share=several if arguments.node_share is None else arguments.node_share,
        cascade=arguments.cascade,
        kinds=arguments.kinds,
        phases=arguments.at,
    )
    duration_s = arguments.duration or 3600 * arguments.hours
    if not 0 < duration_s < float("inf") or arguments.seed < 0:
        raise InputError(
            f"hours must be above 0 and seed from 0. Received: hours={duration_s / 3600:g}, "
            f"seed={arguments.seed}"
        )
    faults = ft.sample(model, duration_s=duration_s, seed=arguments.seed)
    if arguments.step_time is not None:
        faults = ft.in_steps(faults, step_s=arguments.step_time)
    comment = f"{model}, duration_s={duration_s:g}, seed={arguments.seed}"
    sys.stdout.write(ft.write_plan(faults, comment=comment))


def _show(arguments: argparse.Namespace) -> None:
    faults = read_plan(arguments.plan)
    if arguments.ranks is not None:
        ft.check_faults(faults, ranks=arguments.ranks)
    lost: set[int] = set()
    for fault in faults:
        lost |= set(fault.ranks) if fault.lethal else set()
        who = f"host {fault.host}" if fault.kind == "node" else _ranks(fault.ranks)
        print(f"{_due(fault):>14}  {fault.kind:8} {who:16} {fault.at or 'with it':16}", end="")
        print(f" {len(lost)} lost" if fault.lethal else "")
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(f.kind for f in faults).items())
    print(f"{len(faults)} faults{': ' if kinds else ''}{kinds}")
    times = [fault.time_s for fault in faults if fault.time_s is not None]
    if len(times) > 1:
        between = (times[-1] - times[0]) / (len(times) - 1)
        print(f"first after {_span(times[0])}, then one in {_span(between)} on average")


def _compare(arguments: argparse.Namespace) -> None:
    from matex.report import read_run
    from matex.report.comparison import compare

    rows = compare(read_run(arguments.a), read_run(arguments.b))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for what, *values in rows:
        cells = (f"{v:>{width}}" for v, width in zip(values, widths[1:], strict=True))
        print(f"{what:{widths[0]}}  {'  '.join(cells)}".rstrip())


def _due(fault: ft.Fault) -> str:
    if fault.time_s is not None:
        return _span(fault.time_s)
    if fault.event:
        return f"{fault.event} {fault.count}"
    return f"step {fault.step}"


def _span(duration_s: float) -> str:
    """Seconds for a reader: 1:02:03 h from an hour on."""
    if duration_s < 60:
        return f"{duration_s:.1f} s"
    minutes, rest = divmod(round(duration_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d} h" if hours else f"{minutes}:{rest:02d} min"


def _ranks(ranks: tuple[int, ...]) -> str:
    return f"rank {'+'.join(map(str, ranks))}"
