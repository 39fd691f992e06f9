"""A plain Keras script: images from folders, one a class, through tf.data with augmentation.

    python 05_images_from_folders.py --data imagenet

takes a folder with train/CLASS/*.JPEG and val/CLASS/*.JPEG, or CLASS/*.png alone, or an HDF5 file
of JPEG files such as cifar10_jpeg.h5. Without --data it draws shapes.

The random numbers of the augmentation come with each image, so the maps give the same wherever they
run: many ranks then decode and augment only their own share. (Without augmentation matex.data.open
reads such folders, too, and any rank any row.)
"""

import argparse
from typing import Any

import options
import pictures


def arguments(parser: options.Parser) -> argparse.Namespace:
    parser.add_argument("--images", type=options.count, default=2000, help="to draw without --data")
    parser.add_argument("--size", type=options.count, default=32, help="pixels of a side")
    parser.add_argument("--width", type=options.count, default=32, help="channels to begin with")
    return parser.parse_args()


def load(args: argparse.Namespace) -> pictures.Pictures:
    if args.data is not None:
        print(f"Reading {args.data} ...", flush=True)
        return pictures.read(args.data)
    print(f"No --data: drawing {args.images:,} shapes ...", flush=True)
    return pictures.draw(args.images, args.size, seed=args.seed)


def dataset(part: pictures.Part, args: argparse.Namespace, *, in_files: bool, train: bool) -> Any:
    """Batches of images (n, size, size, 3) float32 in 0..1 and of labels."""
    import tensorflow as tf

    def decode(image: Any, label: Any, seed: Any) -> Any:
        content = tf.io.read_file(image) if in_files else image
        pixels = tf.io.decode_image(content, channels=3, expand_animations=False)
        pixels.set_shape((None, None, 3))
        margin = args.size // 8 if train else 0
        pixels = tf.image.resize(pixels, (args.size + margin, args.size + margin)) / 255
        return pixels, label, seed

    def augment(pixels: Any, label: Any, seed: Any) -> Any:
        shape = (args.size, args.size, 3)
        pixels = tf.image.stateless_random_crop(pixels, shape, seed)
        pixels = tf.image.stateless_random_flip_left_right(pixels, seed + 1)
        pixels = tf.image.stateless_random_brightness(pixels, 0.1, seed + 2)
        return pixels, label

    def as_it_is(pixels: Any, label: Any, seed: Any) -> Any:
        return pixels, label

    rows = tf.data.Dataset.from_tensor_slices((part.images, part.labels))
    if train:
        rows = rows.shuffle(len(part.labels), seed=args.seed)
    seeds = tf.data.Dataset.random(args.seed, rerandomize_each_iteration=True).batch(2)
    seeded = tf.data.Dataset.zip(rows, seeds).map(lambda row, seed: (*row, seed))
    decoded = seeded.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    finished = decoded.map(augment if train else as_it_is, num_parallel_calls=tf.data.AUTOTUNE)
    return finished.batch(args.batch_size).prefetch(2)


def network(args: argparse.Namespace, classes: int) -> Any:
    import keras

    layers = keras.layers
    body: list[Any] = []
    for stage in range(3):
        body += [
            layers.Conv2D(args.width << stage, 3, padding="same", use_bias=False),
            layers.GroupNormalization(8),  # unlike BatchNorm it asks no other image
            layers.ReLU(),
            layers.MaxPooling2D(),
        ]
    head = [layers.GlobalAveragePooling2D(), layers.Dense(classes)]
    return keras.Sequential([keras.Input((args.size, args.size, 3)), *body, *head])


def train(args: argparse.Namespace, data: pictures.Pictures) -> None:
    import keras

    keras.utils.set_random_seed(args.seed)
    model = network(args, len(data.classes))
    model.compile(
        optimizer=keras.optimizers.SGD(args.learning_rate, momentum=0.9),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    history = model.fit(
        dataset(data.train, args, in_files=data.in_files, train=True),
        validation_data=dataset(data.test, args, in_files=data.in_files, train=False),
        epochs=args.epochs,
        verbose=2,
    )
    options.show_losses(history.history["loss"])


def main() -> None:
    parser = options.course_parser(
        "Train a small network on images, with augmentation in tf.data.",
        data="folders of images by class, or an HDF5 file of JPEGs",
        epochs=5,
        batch_size=64,
        learning_rate=0.05,
    )
    args = arguments(parser)
    if args.width % 8:
        parser.error(f"--width must be a multiple of 8. Received: {args.width}.")
    try:
        data = load(args)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    counts = f"{len(data.train.labels):,} images to train on, {len(data.test.labels):,} to test on"
    print(f"{counts}, {len(data.classes)} classes", flush=True)
    train(args, data)


if __name__ == "__main__":
    main()
