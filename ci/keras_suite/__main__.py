"""The tests that the installed Keras ships, in plain pytest and on ranks of matex: do they differ?

    python -m ci.keras_suite [--ranks 1 2] [--part quick|all] [--report DIR] [file or folder ...]

In plain pytest only those run that did not pass on every rank. Each test has a line a rank in
DIR/outcomes.jsonl. A difference must be listed, with the reason why
it is by nature, in differences.toml: another one, or one listed that is none any more,
makes the status 1.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import signal
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ci.jobs import ROOT
from ci.keras_suite import compare
from ci.keras_suite.compare import Difference
from ci.keras_suite.launch import Way
from ci.testing import leftovers

LISTED = Path(__file__).resolve().with_name("differences.toml")
REPORT = ROOT / ".test-reports" / "keras"

# Where Keras trains, evaluates, predicts or saves; of the layers those whose tests call fit.
FOLDERS = ("trainers", "callbacks", "models", "saving", "optimizers", "metrics", "losses", "layers")
_FITS = ("run_layer_test", ".fit(", "train_on_batch", ".evaluate(", ".predict(")
# Seconds of the longest test: 13 on idle cores, 53 beside six other ways.
TEST_S = 300.0
# Some minutes on two cores; trainer_test.py alone takes as long again.
QUICK = (
    "trainers/data_adapters",
    "callbacks",
    "models/functional_test.py",
    "saving/saving_api_test.py",
)


def keras_folder() -> Path:
    """The folder in which the installed Keras has its tests."""
    found = importlib.util.find_spec("keras")
    if found is None or found.submodule_search_locations is None:
        raise SystemExit("Keras 3 was wanted and was not found: pip install '.[cpu,openmpi,test]'")
    return Path(found.submodule_search_locations[0]) / "src"


def files_of(root: Path, names: list[str]) -> list[str]:
    """The test files below *names*, relative to *root*; of the layers those that train."""
    files: list[str] = []
    for name in names:
        path = root / name
        found = sorted(path.rglob("*_test.py")) if path.is_dir() else [path]
        if not found or not all(file.exists() for file in found):
            raise SystemExit(f"a file or folder of tests in {root} was wanted. Received: {name}")
        if name.startswith("layers"):
            found = [file for file in found if any(word in file.read_text() for word in _FITS)]
        files += [str(file.relative_to(root)) for file in found]
    return list(dict.fromkeys(files))


def write_outcomes(path: Path, ways: list[Way]) -> None:
    """One line a test, way and rank."""
    with path.open("w", encoding="utf-8") as file:
        for way in ways:
            for rank, outcomes in enumerate(way.outcomes):
                for test, outcome in sorted(outcomes.items()):
                    line = {"test": test, "way": way.name, "rank": rank, **outcome._asdict()}
                    file.write(json.dumps(line) + "\n")


def figures(way: Way, files: int) -> str:
    """A line about *way*: a test counts by its worst rank."""
    order = ("skipped", "passed", "failed", "hung", "lost")
    worst: dict[str, str] = {}
    for outcomes in way.outcomes:
        for test, outcome in outcomes.items():
            worst[test] = max(worst.get(test, outcome.outcome), outcome.outcome, key=order.index)
    counts = Counter(worst.values())
    told_counts = "".join(f"{counts[name]:8}" for name in order)
    return f"{way.name:6}{files:6}{len(worst):7}{told_counts}{way.launches:9}{way.seconds:8.0f}"


def print_groups(found: list[Difference]) -> None:
    """The differences by what they have in common."""
    for cause, group in compare.causes(found).items():
        print(f"{len(group):4}  {cause}")
        for one in group:
            ranks = ", ".join(one.ranks)
            print(f"        {one.way}: {one.test}: {one.plain} in plain pytest; {ranks}")


def run(arguments: argparse.Namespace, token: str) -> int:
    """All ways; the exit status."""
    root = keras_folder()
    names = arguments.files or (QUICK if arguments.part == "quick" else FOLDERS)
    files = files_of(root, list(names))
    report: Path = arguments.report
    shutil.rmtree(report, ignore_errors=True)
    report.mkdir(parents=True)
    plain, *others = ways = [
        Way(ranks, root, report, arguments.test_s) for ranks in (0, *arguments.ranks)
    ]
    began = time.monotonic()
    with ThreadPoolExecutor(arguments.at_once) as pool:
        try:
            for done in [pool.submit(way.run, files) for way in others]:
                done.result()
            plain.outcomes[0] |= compare.passed([way.outcomes for way in others])
            plain.run(files)
        except BaseException:
            for way in ways:
                way.stopped = True
            leftovers.kill(leftovers.processes(token))
            raise
    write_outcomes(report / "outcomes.jsonl", ways)

    known = compare.read_known(LISTED)
    found = [
        one
        for way in others
        for one in compare.differences(way.name, plain.outcomes[0], way.outcomes)
    ]
    ran = {way.name: set().union(*way.outcomes) for way in others}
    unlisted, gone = compare.judge(found, known, ran)
    print("way    files  tests skipped  passed  failed    hung    lost launches       s")
    for way in ways:
        print(figures(way, len(files)))
    trouble = [line for way in ways for line in way.trouble]
    print(
        f"{len(found)} differences from plain pytest, {len(found) - len(unlisted)} of them by "
        f"nature; {time.monotonic() - began:.0f} s; {report / 'outcomes.jsonl'}"
    )
    if unlisted:
        print("\nNot listed:")
        print_groups(unlisted)
    for entry in gone:
        print(f"listed, and no difference any more: {entry.ways[0]}: {entry.test}")
    print(*trouble, sep="\n")
    return int(bool(unlisted or gone or trouble))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="*", help="of keras/src; without: what --part says")
    parser.add_argument("--part", choices=("quick", "all"), default="all")
    parser.add_argument("--ranks", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--report", type=Path, default=REPORT)
    parser.add_argument("--test-s", type=float, default=TEST_S, help="a test that takes more hangs")
    parser.add_argument("--at-once", type=int, default=2, help="ways that run side by side")
    arguments = parser.parse_args()
    token = leftovers.begin()
    segments = leftovers.shared_memory()
    tmp = leftovers.private_tmp()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run(arguments, token)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        leftovers.kill(leftovers.processes(token))
        leftovers.stray_shared_memory(segments)
        leftovers.stray_tmp(tmp)


if __name__ == "__main__":
    sys.exit(main())
