"""Convolutional networks that shrink: a plain CNN, a small ResNet, or ResNet50.

    python 07_apoptosis_images.py --data mnist.h5 --model cnn
    python 07_apoptosis_images.py --data cifar-10-batches-bin --model resnet
    matex run -n 8 07_apoptosis_images.py --data imagenet --size 224 --model resnet50

--data is anything that matex reads: an HDF5 file with x_train, y_train, x_test, y_test (or with
JPEG streams and their offsets), MNIST and CIFAR files, or folders train/ and val/ of images, one
folder a class.
"""

import io
import itertools

import apoptosis_options
import numpy as np


def load(args):
    """Images (n, height, width, channels) and labels, to train and to test on."""
    import matex.data

    if args.data is None:
        raise SystemExit("07_apoptosis_images.py: --data is wanted. Received: none")
    size = {"size": (args.size, args.size)} if args.data.is_dir() and args.size else {}
    data = matex.data.open(args.data, **size)
    if hasattr(data, "jpeg_train"):
        parts = [decoded(data, part) for part in ("train", "test")]
        x_train, x_test = parts
    else:
        x_train, x_test = data.x_train, data.x_test
    y_train, y_test = np.asarray(data.y_train), np.asarray(data.y_test)
    if args.samples:
        x_train, y_train = x_train[: args.samples], y_train[: args.samples]
    if len(x_train.shape) == 3:
        x_train, x_test = np.asarray(x_train)[..., None], np.asarray(x_test)[..., None]
    return x_train, y_train, x_test, y_test


def decoded(data, part: str) -> np.ndarray:
    """JPEG streams that lie one after the other, as one array."""
    import tensorflow as tf

    stream = np.asarray(getattr(data, f"jpeg_{part}")).tobytes()
    offsets = np.asarray(getattr(data, f"offsets_{part}"))
    source = io.BytesIO(stream)
    images = [
        tf.io.decode_jpeg(source.read(int(end - start)), channels=3).numpy()
        for start, end in itertools.pairwise(offsets)
    ]
    return np.stack(images)


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
        return layers.BatchNormalization()(x)

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
        "Train a network on images with apoptosis.", epochs=12, batch_size=128
    )
    parser.add_argument("--model", choices=("cnn", "resnet", "resnet50"), default="resnet")
    parser.add_argument("--size", type=int, help="height and width of images from folders")
    parser.add_argument("--samples", type=int, help="train on so many images only")
    args = parser.parse_args()
    x_train, y_train, x_test, y_test = load(args)
    import keras

    keras.utils.set_random_seed(args.seed)
    make = {"cnn": cnn, "resnet": resnet, "resnet50": resnet50}[args.model]
    model = make(x_train.shape[1:], int(y_train.max()) + 1)
    model.compile(
        keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    apoptosis_options.fit(
        model, args, x_train, y_train, validation=(x_test, y_test), metric="accuracy"
    )


if __name__ == "__main__":
    main()
