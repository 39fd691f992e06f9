"""The command line of the examples: bad input is answered with one line and exit status 2."""

import argparse
import math
from pathlib import Path
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """Answers bad input with one line and exit status 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"wants a whole number of at least 1. Received: {text}.")
    return int(text)


def seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"wants a whole number below 2^32. Received: {text}.")
    return int(text)


def positive_number(text: str) -> float:
    if not 0 < float(text) < math.inf:
        raise argparse.ArgumentTypeError(f"wants a number above 0. Received: {text}.")
    return float(text)


def existing(text: str) -> Path:
    path = Path(text)
    if not path.exists():
        raise argparse.ArgumentTypeError(f"wants an existing file or folder. Received: {text}.")
    return path


def course_parser(
    description: str, *, data: str, epochs: int, batch_size: int, learning_rate: float
) -> Parser:
    """What all examples take; `data` says what --data may be."""
    formatter = argparse.ArgumentDefaultsHelpFormatter
    parser = Parser(description=description, formatter_class=formatter)
    parser.add_argument("--data", type=existing, metavar="PATH", help=data)
    parser.add_argument("--epochs", type=count, default=epochs, help="passes over the data")
    parser.add_argument("--batch-size", type=count, default=batch_size, help="of a whole step")
    parser.add_argument(
        "--learning-rate", type=positive_number, default=learning_rate, help="of the optimizer"
    )
    parser.add_argument("--seed", type=seed, default=1, help="of weights, order and made-up data")
    return parser


def show_losses(losses: list[float]) -> None:
    """The last line of an example: the training loss of each epoch."""
    print("loss by epoch:", *(f"{loss:.6g}" for loss in losses), flush=True)
