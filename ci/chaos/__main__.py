"""Runs with random faults, each checked to the last sample: a line a run, and a table.

    python -m ci.chaos [--layer ft|loop|strategies|full|bits|updates|respawn|cold|resize]
                       [--runs 100]

The ft layer needs no TensorFlow: 2 to 16 ranks make random collectives and die in them;
a launch carries several runs, each on those that the last one left. In most launches some
members wait as spares, die so, and take the places of the dead. The loop layer is the loop of
ft's documentation on 8 ranks, with one result buffer. Nor does the strategies layer need it:
2 to 9 ranks move vectors by the strategies of matex and die between any two of their messages; a
launch carries several fits. The full layer trains small models with matex run on 2 to 8 ranks,
half of the launches by a strategy other than sync, others with spares; a launch carries several
trainings, and some go on from a checkpoint, also by another strategy, after all have died. The bits
layer does so with virtual workers on 1 to 8 ranks, and wants the very bits of one rank. The updates
layer makes steps of several updates (GANs, custom loops) and of losses that are no means over rows
on 2 to 4 ranks, and kills at any phase, or by the clock, between any two exchanges. The respawn
layer kills ranks of a training on 2 to 4 from outside, again and again: newcomers too, and while
others start, are admitted or take over; in the end as many ranks as at the start must be there. The
cold layer does so on two emulated hosts, and kills all ranks of one at times; the resize layer asks
for fewer and more ranks meanwhile.

A run is right when it ended, nobody died but those that a fault struck, the ranks agree on
every result, each item of work was counted once, and (full) the summary says finished, weights
and optimizer are equal after each epoch, the losses are those of one rank alone (by a strategy:
near them), as many ranks are left and as many spares used and lost as the faults say, nothing is
left in memory, as a file or a process, and what did not fire was reported.

Launches have the seeds S, S+1, ...: one that failed is made again by --seed with its own
and --runs 1. The status is 1 when any run failed.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from ci.chaos.ft import launch
from ci.chaos.ft.launch import Verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    layers = ("ft", "loop", "strategies", "full", "bits", "updates", "respawn", "cold", "resize")
    parser.add_argument("--layer", choices=layers, default="ft")
    parser.add_argument("--runs", type=int, default=100, help="at least so many (default: 100)")
    parser.add_argument("--seed", type=int, default=0, help="of the first launch (default: 0)")
    parser.add_argument(
        "--for", dest="limit_s", type=float, help="begin none after so many seconds"
    )
    arguments = parser.parse_args()
    runs_of: Callable[[int], list[Verdict]] = launch.runs_of
    if arguments.layer == "loop":
        from ci.chaos.loop import plan as loop_plan

        runs_of = loop_plan.runs_of
    elif arguments.layer == "strategies":
        from ci.chaos.strategies import plan

        runs_of = plan.runs_of
    elif arguments.layer == "updates":
        from ci.chaos.updates.launch import Updates

        runs_of = Updates().runs_of
    elif arguments.layer == "respawn":
        from ci.chaos.respawn import launch as respawn_launch

        runs_of = respawn_launch.runs_of
    elif arguments.layer == "cold":
        from ci.chaos.respawn import launch as respawn_launch

        runs_of = partial(respawn_launch.runs_of, hosts=2)
    elif arguments.layer == "resize":
        from ci.chaos.respawn import launch as respawn_launch

        runs_of = partial(respawn_launch.runs_of, resizes=True)
    elif arguments.layer in ("full", "bits"):
        from ci.chaos.training import judge

        runs_of = judge.Trainings(bits=arguments.layer == "bits").runs_of
    # Whatever tells it to end, what it started is ended too.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    verdicts: list[Verdict] = []
    seed = arguments.seed
    started = time.monotonic()
    while len(verdicts) < arguments.runs:
        if arguments.limit_s and time.monotonic() - started > arguments.limit_s:
            break
        made = runs_of(seed)
        verdicts += made
        for verdict in made:
            print(f"seed {seed}: {verdict.title}: {verdict.wrong or 'ok'}", flush=True)
        failed = [verdict for verdict in made if verdict.wrong]
        if failed:
            print(failed[0].output, flush=True)
            print(f"again: python -m ci.chaos --layer {arguments.layer} --seed {seed} --runs 1")
        seed += 1
    print_table(verdicts, seconds=time.monotonic() - started, launches=seed - arguments.seed)
    print(f"next: --seed {seed}")
    return int(any(verdict.wrong for verdict in verdicts))


def print_table(verdicts: list[Verdict], *, seconds: float, launches: int) -> None:
    """Print the verdicts by the number of ranks at the start of a run, and by kind of fault."""
    sizes = sorted({verdict.ranks[0] for verdict in verdicts})
    print(
        f"\n{'ranks':>6} {'runs':>6} {'faults':>7} {'joined':>7} {'failed':>7} "
        f"{'repair ms':>10} {'longest':>8}"
    )
    for name, mine in [
        *((str(n), [v for v in verdicts if v.ranks[0] == n]) for n in sizes),
        ("all", verdicts),
    ]:
        repairs = sorted(1e3 * r for v in mine for r in v.repairs_s) or [0.0]
        faults = sum(len(v.kinds) for v in mine)
        bad = sum(bool(v.wrong) for v in mine)
        joined = sum(v.joined for v in mine)
        median = statistics.median(repairs)
        print(
            f"{name:>6} {len(mine):>6} {faults:>7} {joined:>7} {bad:>7} "
            f"{median:>10.1f} {repairs[-1]:>8.1f}"
        )
    kinds = Counter(kind for verdict in verdicts for kind in verdict.kinds)
    print("faults:", ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()) or "none")
    print(f"{len(verdicts)} runs in {launches} launches, {seconds:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
