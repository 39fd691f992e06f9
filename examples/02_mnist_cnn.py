"""A plain Keras script: a convolutional network of a million parameters reads digits.

    python 02_mnist_cnn.py --data mnist.h5

Without --data it draws digits from a font.
"""

from course import digits, options

parser = options.Parser(
    "Train a CNN of a million parameters on images of digits.",
    data="HDF5 with x_train, y_train, x_test, y_test, or the folder of MNIST's idx files",
    epochs=3,
    batch_size=128,
    learning_rate=1e-3,
)
parser.add_argument("--images", type=options.count, default=6000, help="images without --data")
args, data = parser.parse(digits.load)
print(f"{len(data.x_train):,} images to train on, {len(data.x_test):,} to test on", flush=True)

import keras  # slow and talkative: by now bad input has had its one line
from keras import layers

keras.utils.set_random_seed(args.seed)
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
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(args.learning_rate), loss, metrics=["accuracy"])
print(f"{model.count_params():,} parameters", flush=True)
validation = (data.x_test, data.y_test)
passes = {"epochs": args.epochs, "batch_size": args.batch_size}
history = model.fit(data.x_train, data.y_train, validation_data=validation, verbose=2, **passes)
options.show_losses(history.history["loss"])
