"""One network, and the strategies by which ranks can share its training.

    matex run -n 4 --strategy gossip 09_strategies.py --data higgs.h5

takes what 01_higgs.py takes, and without --data simulates events. Nothing in the script depends
on the strategy but what it prints. Try each with the same epochs, and look at the held-out AUC and
at messages_per_step, bytes_per_step, step_s and staleness in --report's summary.json:

    --strategy sync                      exact: the result is that of one rank. Where the network
                                         carries the gradients in the time of a step, stay here.
    --strategy gossip                    one model to one other rank in each step, however many
                                         ranks there are, while they compute.
    --strategy daso                      ranks of a host are one model; hosts average now and then.
                                         For hosts of several ranks on a slow network.
    --strategy easgd                     a centre pulls all ranks every four steps. The fewest
                                         messages; ranks explore around it.
    --strategy easgd --asynchronous      the same one rank after another, so that nobody waits.
    --strategy downpour                  ranks push what they have moved, one after another, and go
                                         on from the centre. --staleness-bound 0: all at once.
    --strategy easgd --two-level         the same, or downpour, with a centre for each host and one
                                         above: a quarter of the traffic between hosts.

With all but sync a rank updates by the gradient of its own rows. It is noisier than that of the
batch; Adam then wants a larger rate: --lr-scaling sqrt --warmup-epochs 0.
"""

import argparse

import higgs_data
import higgs_simulation
import options

import matex

WHEN = {
    "sync": "exact; use it where the network carries the gradients in the time of a step",
    "gossip": "for many ranks, and a model that travels in the time of a step",
    "daso": "for hosts of several ranks that a slow network joins",
    "easgd": "for networks so slow that every exchange is dear",
    "downpour": "for slow networks, where nobody should wait for the others",
}


def arguments(parser: options.Parser) -> argparse.Namespace:
    parser.add_argument("--events", type=options.count, default=50_000, help="without --data")
    parser.add_argument("--width", type=options.count, default=200, help="units of a layer")
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
    history = model.fit(
        data.x_train,
        data.y_train,
        validation_data=(data.x_test, data.y_test),
        epochs=args.epochs,
        batch_size=args.batch_size,
        verbose=2,
    )
    print(f"held-out AUC by {matex.strategy()}: {history.history['val_auc'][-1]:.4f}", flush=True)
    options.show_losses(history.history["loss"])


def main() -> None:
    parser = options.course_parser(
        "Train the HIGGS classifier by the strategy that matex run --strategy names.",
        data="HIGGS.csv.gz or an HDF5 file",
        epochs=5,
        batch_size=512,
        learning_rate=3e-4,
    )
    args = arguments(parser)
    strategy = matex.strategy()
    print(f"{matex.size()} ranks by strategy {strategy}: {WHEN[strategy]}", flush=True)
    try:
        data = higgs_data.standardise(load(args))
    except higgs_data.DataError as error:
        parser.error(str(error))
    print(f"{len(data.x_train):,} events to train on, {len(data.x_test):,} to test on", flush=True)
    train(args, data)


if __name__ == "__main__":
    main()
