"""Convolutional networks that shrink: a plain CNN, a small ResNet, or ResNet50.

    python 07_apoptosis_images.py --data mnist.h5 --model cnn
    python 07_apoptosis_images.py --data cifar10_jpeg.h5 --model resnet
    matex run -n 8 07_apoptosis_images.py --data imagenet --side 224 --model resnet50

--data is digits as 02_mnist_cnn.py takes them, or pictures by class as 05_images_from_folders.py
does; the latter are decoded into memory. Without --data it draws shapes.
"""

import apoptosis_options
import digits
import h5py
import numpy as np
import options
import pictures


def load(args):
    """Images (n, side, side, channels) uint8 and labels, to train and to test on."""
    if args.data is None:
        print(f"No --data: drawing {args.images or 2000:,} shapes ...", flush=True)
        return decoded(pictures.draw(args.images or 2000, args.side, seed=args.seed), args)
    print(f"Reading {args.data} ...", flush=True)
    if args.data.is_dir() or "jpeg_train" in h5py.File(args.data, locking=False):
        return decoded(pictures.read(args.data), args)
    found = digits.read(args.data)
    rows = slice(args.images)
    return (
        found.x_train[rows, ..., None],
        found.y_train[rows],
        found.x_test[..., None],
        found.y_test,
    )


def decoded(found: pictures.Pictures, args):
    import tensorflow as tf

    def pixels(image) -> np.ndarray:
        content = tf.io.read_file(image) if found.in_files else image
        tensor = tf.io.decode_image(content, channels=3, expand_animations=False)
        if tensor.shape[:2] != (args.side, args.side):
            tensor = tf.image.resize(tensor, (args.side, args.side), antialias=True)
        return tf.cast(tensor, tf.uint8).numpy()

    rows = slice(args.images)
    train, test = (np.stack([pixels(i) for i in p.images[rows]]) for p in (found.train, found.test))
    return train, found.train.labels[rows], test, found.test.labels[rows]


def cnn(shape, classes):
    import keras
    from keras import layers

    return keras.Sequential(
        [
            keras.Input(shape),
            layers.Rescaling(1 / 255),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(128, "relu"),
            layers.Dense(classes, "softmax"),
        ]
    )


def resnet(shape, classes):
    """Three stages of two residual blocks, 16 to 64 channels."""
    import keras
    from keras import layers

    def convolution(x, filters, strides=1, size=3):
        x = layers.Conv2D(filters, size, strides=strides, padding="same", use_bias=False)(x)
        # Keras's .99 takes some hundred steps to follow: longer than a short epoch has.
        return layers.BatchNormalization(momentum=0.9)(x)

    inputs = keras.Input(shape)
    x = layers.ReLU()(convolution(layers.Rescaling(1 / 255)(inputs), 16))
    for filters in (16, 32, 64):
        for block in range(2):
            strides = 2 if block == 0 and filters > 16 else 1
            inner = layers.ReLU()(convolution(x, filters, strides))
            inner = convolution(inner, filters)
            if strides == 2:
                x = convolution(x, filters, strides, 1)
            x = layers.ReLU()(layers.Add()([x, inner]))
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(classes, "softmax")(x))


def resnet50(shape, classes):
    import keras

    return keras.applications.ResNet50(weights=None, input_shape=shape, classes=classes)


def main() -> None:
    parser = apoptosis_options.parser(
        "Train a network on images with apoptosis.",
        data="digits, or pictures by class",
        epochs=12,
        batch_size=128,
        learning_rate=1e-3,
    )
    parser.add_argument("--model", choices=("cnn", "resnet", "resnet50"), default="resnet")
    parser.add_argument("--side", type=options.count, default=32, help="of a picture, in pixels")
    parser.add_argument("--images", type=options.count, help="take so many only")
    args = parser.parse_args()
    if args.model != "cnn":
        # Each removal costs a residual network more at once, and training gets it back: so more
        # at a time, and at every epoch's end.
        args.every = args.every or 1
        args.delta = args.delta or 0.02
    if args.model == "resnet":
        args.ratio = args.ratio or 0.52  # it is small, and needs nearly half of what it is
    try:
        x_train, y_train, x_test, y_test = load(args)
    except ValueError as error:
        parser.error(str(error))
    import keras

    keras.utils.set_random_seed(args.seed)
    make = {"cnn": cnn, "resnet": resnet, "resnet50": resnet50}[args.model]
    model = make(x_train.shape[1:], int(y_train.max()) + 1)
    steps = args.epochs * -(-len(x_train) // args.batch_size)
    rate = keras.optimizers.schedules.CosineDecay(args.learning_rate, steps)
    model.compile(
        keras.optimizers.Adam(rate),
        "sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    apoptosis_options.fit(
        model, args, x_train, y_train, validation=(x_test, y_test), metric="accuracy"
    )


if __name__ == "__main__":
    main()
