"""The command line of the examples: bad input is answered with one line and exit status 2."""

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """The options that all examples take; bad input gets one line and exit status 2.

    Args:
        data: words for the values of --data.
        epochs, batch_size, learning_rate: defaults.
    """

    def __init__(
        self, description: str, *, data: str, epochs: int, batch_size: int, learning_rate: float
    ) -> None:
        formatter = argparse.ArgumentDefaultsHelpFormatter
        super().__init__(description=description, formatter_class=formatter)
        add = self.add_argument
        add("--data", type=Path, metavar="PATH", help=data)
        add("--epochs", type=count, default=epochs, help="passes over the data")
        add("--batch-size", type=count, default=batch_size, help="rows of a step, of all ranks")
        add("--learning-rate", type=positive_number, default=learning_rate, help="initial rate")
        add("--seed", type=seed, default=1, help="seed of weights, order and data")

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")

    def parse(self, load: Callable[[argparse.Namespace], Any]) -> tuple[argparse.Namespace, Any]:
        """The options, and the data that *load* reads by them."""
        args = self.parse_args()
        if args.data is not None and not args.data.exists():
            self.error(f"--data wants an existing file or folder. Received: {args.data}.")
        if args.data is not None:
            print(f"Reading {args.data} ...", flush=True)
        try:
            return args, load(args)
        except (OSError, ValueError) as error:
            self.error(str(error))


def count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"wants a whole number of at least 1. Received: {text}.")
    return int(text)


def multiple_of_8(text: str) -> int:
    if count(text) % 8:
        raise argparse.ArgumentTypeError(f"wants a multiple of 8. Received: {text}.")
    return int(text)


def seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"wants a whole number below 2^32. Received: {text}.")
    return int(text)


def positive_number(text: str) -> float:
    if not 0 < float(text) < math.inf:
        raise argparse.ArgumentTypeError(f"wants a number above 0. Received: {text}.")
    return float(text)


def show_losses(losses: list[float]) -> None:
    """The last line of an example: the training loss of each epoch."""
    print("loss by epoch:", *(f"{loss:.6g}" for loss in losses), flush=True)
