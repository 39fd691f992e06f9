"""A plain Keras script: a convolutional network of a million parameters reads digits.

    python 02_mnist_cnn.py --data mnist.h5

takes an HDF5 file with the arrays x_train, y_train, x_test, y_test, or the folder of MNIST's idx
files. Without --data it draws digits from a font.
"""

import argparse

import digits
import options


def arguments(parser: options.Parser) -> argparse.Namespace:
    parser.add_argument("--images", type=options.count, default=6000, help="to draw without --data")
    return parser.parse_args()


def load(args: argparse.Namespace) -> digits.Digits:
    if args.data is not None:
        print(f"Reading {args.data} ...", flush=True)
        return digits.read(args.data)
    print(f"No --data: drawing {args.images:,} digits from a font ...", flush=True)
    return digits.draw(args.images, seed=args.seed)


def train(args: argparse.Namespace, data: digits.Digits) -> None:
    import keras  # slow and talkative: not before bad input has had its one line

    keras.utils.set_random_seed(args.seed)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((digits.SIDE, digits.SIDE)),
            layers.Rescaling(1 / 255),
            layers.Reshape((digits.SIDE, digits.SIDE, 1)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(600, activation="relu"),
            layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(args.learning_rate),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    print(f"{model.count_params():,} parameters", flush=True)
    history = model.fit(
        data.x_train,
        data.y_train,
        validation_data=(data.x_test, data.y_test),
        epochs=args.epochs,
        batch_size=args.batch_size,
        verbose=2,
    )
    options.show_losses(history.history["loss"])


def main() -> None:
    parser = options.course_parser(
        "Train a CNN of a million parameters on images of digits.",
        data="mnist.h5, or the folder of MNIST's idx files",
        epochs=3,
        batch_size=128,
        learning_rate=1e-3,
    )
    args = arguments(parser)
    try:
        data = load(args)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    print(f"{len(data.x_train):,} images to train on, {len(data.x_test):,} to test on", flush=True)
    train(args, data)


if __name__ == "__main__":
    main()
