"""The picture of a run that loses a rank, drawn from what the run itself wrote.

    python -m docs.pictures.run REPORT       takes what the picture shows from a report directory

writes ``docs/pictures/run.json``, of which ``make pictures`` draws ``docs/pictures/run.svg``. The
run is the second one of ``make demo``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from docs.pictures.svg import Drawing

__all__ = ["draw", "taken_from"]

DATA = Path(__file__).with_name("run.json")
LEFT, RIGHT, WIDTH = 64, 20, 760
_COLOURS = ("blue", "green", "amber", "red")


def taken_from(report: Path) -> dict[str, Any]:
    """What the picture shows of the run in *report*: times in seconds after its first step."""
    events = [json.loads(line) for line in (report / "events.jsonl").read_text().splitlines()]
    summary = json.loads((report / "summary.json").read_text())
    progress = [e for e in events if e["event"] == "progress"]
    start = progress[0]["time_s"]
    epochs = {e["epoch"]: e for e in events if e["event"] == "epoch" and e["rank"] == 0}
    return {
        "ranks": summary["world_size_start"],
        "end_s": round(max(e["time_s"] for e in epochs.values()) - start, 3),
        "loss": [[round(e["time_s"] - start, 3), round(e["loss"], 4)] for e in progress],
        "val_loss": [
            [round(e["time_s"] - start, 3), round(e["val_loss"], 4)]
            for e in epochs.values()
            if "val_loss" in e
        ],
        "faults": [
            {**fault, "time_s": round(fault["time_s"] - start, 4)} for fault in summary["faults"]
        ],
        "samples_used": summary["samples_used"],
        "samples_expected": summary["samples_expected"],
    }


def draw(run: dict[str, Any]) -> Drawing:
    """The loss over time, a lane for each rank, and the death in milliseconds."""
    ranks, (fault,) = run["ranks"], run["faults"]
    drawing = Drawing(
        WIDTH, 420, f"Loss and living ranks of a run in which rank {fault['rank']} is killed"
    )
    _loss(drawing, run, top=40, height=140)
    _lanes(drawing, run, top=206)
    _death(drawing, fault, survivors=ranks - 1, top=318)
    return drawing


def _x(time_s: float, end_s: float) -> float:
    return LEFT + time_s / end_s * (WIDTH - LEFT - RIGHT)


def _loss(drawing: Drawing, run: dict[str, Any], *, top: float, height: float) -> None:
    values = [loss for _, loss in run["loss"]] + [loss for _, loss in run["val_loss"]]
    low, high = min(values), max(values)

    def place(time_s: float, loss: float) -> tuple[float, float]:
        return _x(time_s, run["end_s"]), top + (high - loss) / (high - low) * height

    drawing.text(LEFT, 24, "loss", style="bold")
    drawing.text(LEFT + 42, 24, "line: training, as Keras shows it · dots: held out", style="soft")
    for value in (low, high):
        drawing.text(LEFT - 8, place(0, value)[1] + 4, f"{value:.2f}", size=11, style="soft",
                     anchor="end")  # fmt: skip
        drawing.line([place(0, value), place(run["end_s"], value)], width=0.5)
    drawing.line([place(*point) for point in run["loss"]], colour="blue", width=2)
    for point in run["val_loss"]:
        drawing.dot(*place(*point), colour="green", radius=4.5)


def _lanes(drawing: Drawing, run: dict[str, Any], *, top: float) -> None:
    (fault,) = run["faults"]
    died = _x(fault["time_s"], run["end_s"])
    for rank in range(run["ranks"]):
        y = top + 20 * rank
        end = died if rank == fault["rank"] else WIDTH - RIGHT
        drawing.text(LEFT - 8, y + 4, f"rank {rank}", size=11, style="soft", anchor="end")
        drawing.line([(LEFT, y), (end, y)], colour=_COLOURS[0], width=7)
    drawing.line([(died, 34), (died, top + 20 * run["ranks"] - 8)], colour="red", dashed=True)
    drawing.cross(died, top + 20 * fault["rank"])
    drawing.text(died + 12, top + 20 * fault["rank"] + 4,
                 f"{fault['kind']} -9 in step {fault['step']}", size=12, colour="red")  # fmt: skip
    for second in range(0, int(run["end_s"]) + 1, 3):
        drawing.text(_x(second, run["end_s"]), top + 20 * run["ranks"] + 8, f"{second} s",
                     size=11, style="soft", anchor="middle")  # fmt: skip


def _death(drawing: Drawing, fault: dict[str, Any], *, survivors: int, top: float) -> None:
    total = fault["to_next_step_s"]
    parts = [
        ("noticed", fault["detect_s"], "red"),
        ("communicator repaired", fault["repair_s"], "amber"),
        (f"{fault['samples_recomputed']} samples recomputed by {survivors} ranks",
         total - fault["detect_s"] - fault["repair_s"], "green"),
    ]  # fmt: skip
    drawing.text(LEFT, top, "the death, enlarged", style="bold")
    drawing.text(LEFT + 156, top, f"{1e3 * total:.0f} ms from the signal to the next finished "
                 "step on all survivors", style="soft")  # fmt: skip
    start = 0.0
    for number, (what, seconds, colour) in enumerate(parts):
        x, end = _x(start, total), _x(start + seconds, total)
        drawing.box(x, top + 12, end - x, 18, fill=colour, edge="paper", radius=2)
        drawing.dot(LEFT + 5, top + 47 + 18 * number, colour=colour, radius=5)
        drawing.text(LEFT + 16, top + 51 + 18 * number, f"{1e3 * seconds:.0f} ms: {what}", size=12)
        start += seconds


def main() -> None:
    DATA.write_text(json.dumps(taken_from(Path(sys.argv[1])), indent=None) + "\n")
    print(f"{DATA}: now make pictures")


if __name__ == "__main__":
    main()
