"""Three small trainings with layers that draw, or whose numbers follow from how a batch is cut."""

import keras
import numpy as np
from keras import layers

ROWS, BATCH, EPOCHS = 190, 50, 2


def dense():
    return [layers.Dense(24, "relu"), layers.Dropout(0.3), layers.Dense(16, "relu")]


def convolution():
    shape, norm = layers.Reshape((4, 4, 1)), layers.BatchNormalization()
    return [shape, layers.RandomFlip(), layers.Conv2D(6, 2), norm, layers.ReLU(), layers.Flatten()]


def recurrent():
    return [layers.Reshape((8, 2)), layers.LSTM(8, dropout=0.2)]


keras.utils.set_random_seed(7)
generator = np.random.default_rng(1)
x = generator.normal(size=(ROWS, 16)).astype("float32")
y = (x[:, 0] * x[:, 1] + x[:, 2] > 0).astype("float32")
for hidden in (dense, convolution, recurrent):
    model = keras.Sequential([keras.Input((16,)), *hidden(), layers.Dense(1, "sigmoid")])
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy"])
    history = model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, validation_split=0.1, verbose=0)
    print(hidden.__name__, *(f"{loss:.9g}" for loss in history.history.get("val_loss", ())))
