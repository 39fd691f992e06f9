"""A plain Keras script: the HIGGS classifier of Baldi, Sadowski, Whiteson (arXiv:1402.4735).

    python 01_higgs.py --data HIGGS.csv.gz

takes the file of https://archive.ics.uci.edu/dataset/280/higgs, or an HDF5 file with the arrays
x_train, y_train, x_test, y_test (quicker to read). Without --data it simulates events.
"""

import argparse
from pathlib import Path

import higgs_data
import higgs_simulation
from options import Parser, count, positive_number, seed


def arguments(parser: argparse.ArgumentParser) -> argparse.Namespace:
    parser.add_argument("--data", type=Path, metavar="FILE", help="HIGGS.csv.gz or an HDF5 file")
    parser.add_argument("--events", type=count, default=100_000, help="to simulate without --data")
    parser.add_argument("--epochs", type=count, default=5)
    parser.add_argument("--batch-size", type=count, default=512)
    parser.add_argument("--width", type=count, default=300, help="units of each hidden layer")
    parser.add_argument("--learning-rate", type=positive_number, default=3e-4)
    parser.add_argument("--seed", type=seed, default=1)
    return parser.parse_args()


def load(args: argparse.Namespace) -> higgs_data.Split:
    if args.data is not None:
        print(f"Reading {args.data} ...", flush=True)
        return higgs_data.read(args.data)
    print(f"No --data: simulating {args.events:,} events ...", flush=True)
    return higgs_data.hold_out(*higgs_simulation.simulate(args.events, seed=args.seed))


def train(args: argparse.Namespace, data: higgs_data.Split) -> None:
    import keras  # slow and talkative: not before bad input has had its one line

    keras.utils.set_random_seed(args.seed)
    hidden = [keras.layers.Dense(args.width, activation="relu") for _ in range(3)]
    output = keras.layers.Dense(1, activation="sigmoid")
    model = keras.Sequential([keras.Input((28,)), *hidden, output])
    model.compile(
        optimizer=keras.optimizers.Adam(args.learning_rate),
        loss="binary_crossentropy",
        metrics=[keras.metrics.AUC(name="auc")],
    )
    model.fit(
        data.x_train,
        data.y_train,
        validation_data=(data.x_test, data.y_test),
        epochs=args.epochs,
        batch_size=args.batch_size,
        verbose=2,
    )
    test = model.evaluate(
        data.x_test, data.y_test, batch_size=args.batch_size, verbose=0, return_dict=True
    )
    print(f"test loss {test['loss']:.4f}, test AUC {test['auc']:.4f}", flush=True)


def main() -> None:
    parser = Parser(description="Train the HIGGS classifier 28-300-300-300-1.")
    args = arguments(parser)
    try:
        data = higgs_data.standardise(load(args))
    except higgs_data.DataError as error:
        parser.error(str(error))
    print(f"{len(data.x_train):,} events to train on, {len(data.x_test):,} to test on", flush=True)
    train(args, data)


if __name__ == "__main__":
    main()
