"""``matex resize`` and ``matex drain``: fewer or more ranks, while a run trains."""

from __future__ import annotations

import argparse
import socket
import time
from pathlib import Path
from typing import Any

from matex.errors import InputError

__all__ = ["add_command"]

_LOOK_S = 0.1
_WAIT_S = 120.0
# A launcher that starts all ranks again takes less.
_GONE_S = 10.0


def add_command(commands: Any) -> None:
    """Add ``resize`` and ``drain`` to the subparsers *commands*."""
    resize = commands.add_parser(
        "resize",
        help="let a run go on with fewer or more ranks",
        description="Let the run that writes into DIR go on with N ranks, between two steps and "
        "without a restart. The last ranks leave; with --respawn, processes come for those that "
        "are missing, also for more than there were at the start.",
    )
    _add_directory(resize)
    resize.add_argument("ranks", type=int, metavar="N", help="ranks that are to train, at least 1")
    resize.set_defaults(parser=resize, act=_act, host="")
    drain = commands.add_parser(
        "drain",
        help="let all ranks of a run leave a host",
        description="Let all ranks of the run that writes into DIR leave HOST, between two steps "
        "and without a restart. The others go on.",
    )
    _add_directory(drain)
    drain.add_argument("host", metavar="HOST", help="name of the host, as matex top shows it")
    drain.set_defaults(parser=drain, act=_act, ranks=0)
    for parser in (resize, drain):
        parser.add_argument(
            "--timeout",
            type=float,
            default=_WAIT_S,
            metavar="SECONDS",
            help=f"how long to wait for the answer, which comes after a step "
            f"(default: {_WAIT_S:.0f})",
        )


def _add_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="report directory of the run")


def _act(arguments: argparse.Namespace) -> int:
    """Write the request and wait for its answer; return the exit status, 1 without success."""
    parser = arguments.parser
    if not arguments.host and arguments.ranks < 1:
        parser.error(f"N must be at least 1. Received: {arguments.ranks}")
    try:
        answer = _asked(
            arguments.directory, arguments.ranks, arguments.host, timeout_s=arguments.timeout
        )
    except InputError as error:
        parser.error(str(error))
    except OSError as error:
        parser.error(
            f"a report directory that can be written is wanted. Received: {error.filename}: "
            f"{error.strerror}"
        )
    if answer is None:
        print(
            f"{parser.prog}: no answer within {arguments.timeout:g} s, and the request is taken "
            "back: a run answers after a step that its ranks share"
        )
        return 1
    if answer["refused"]:
        print(f"{parser.prog}: refused: {answer['refused']}")
        return 1
    print(_in_words(answer))
    return 0


def _in_words(answer: dict[str, Any]) -> str:
    leaving, size = answer["leaving"], answer["world_size"]
    if leaving:
        names = ", ".join(map(str, leaving))
        who = f"rank {names} leaves" if len(leaving) == 1 else f"ranks {names} leave"
        return f"{who} after step {answer['step'] - 1}; {size} go{'es' * (size == 1)} on"
    ranks = "1 rank is" if size == 1 else f"{size} ranks are"
    return f"{ranks} wanted from step {answer['step']} on"


def _asked(directory: Path, ranks: int, host: str, *, timeout_s: float) -> dict[str, Any] | None:
    """Event that answers the request; None if it does not come.

    Raises:
        InputError: no run is training, its processes have ended, or it has another request.
        OSError: the directory cannot be written.
    """
    from matex.records.events import EVENTS
    from matex.records.launcher_protocol.resize_request import RESIZE, Request, write_request
    from matex.records.summary import SUMMARY
    from matex.top.event_tail import EventTail
    from matex.top.processes import look, none_left
    from matex.top.run_view import view_of

    events = directory / EVENTS
    if not events.is_file() or (directory / SUMMARY).exists():
        has = "one that has ended" if events.is_file() else "none"
        raise InputError(
            f"the report directory of a run that trains is wanted. Received: {has} in {directory}"
        )
    tail = EventTail(events)
    view = view_of(tail.read().events)
    request = Request(time.time_ns(), ranks, host)
    write_request(directory, request)
    seen = time.monotonic()
    limit = seen + timeout_s
    while True:
        now = time.monotonic()
        is_late = now > limit
        for event in tail.read().events:
            view.add(event)
            if event["event"] == "resize" and event["number"] == request.number:
                return event
        views = list(view.ranks.values())
        if not none_left(views, look(views, socket.gethostname())):
            seen = now
        elif now > seen + _GONE_S:
            (directory / RESIZE).unlink(missing_ok=True)
            raise InputError(
                "the report directory of a run that trains is wanted. Received: one in "
                f"{directory} of which no process is left on this host"
            )
        if is_late or (directory / SUMMARY).exists():
            (directory / RESIZE).unlink(missing_ok=True)
            return None
        time.sleep(_LOOK_S)
