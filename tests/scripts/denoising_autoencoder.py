"""Take the noise out of small pictures with a convolutional autoencoder."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(41)
rng = np.random.default_rng(41)


def shapes(count):
    images = np.zeros((count, 12, 12), "float32")
    for image in images:
        row, column = rng.integers(1, 6, size=2)
        image[row : row + 5, column : column + 5] = 1.0
    return images


def noisy(images):
    return np.clip(images + 0.4 * rng.normal(size=images.shape), 0.0, 1.0).astype("float32")


train, test = shapes(256), shapes(64)
noisy_train, noisy_test = noisy(train), noisy(test)

inputs = keras.Input((12, 12, 1))
x = layers.Conv2D(8, 3, activation="relu", padding="same")(inputs)
x = layers.MaxPooling2D(2, padding="same")(x)
x = layers.Conv2D(8, 3, activation="relu", padding="same")(x)
x = layers.Conv2DTranspose(8, 3, strides=2, activation="relu", padding="same")(x)
x = layers.Conv2D(1, 3, activation="sigmoid", padding="same")(x)
autoencoder = keras.Model(inputs, x, name="autoencoder")
autoencoder.compile(optimizer=keras.optimizers.Adam(0.005), loss="binary_crossentropy")
autoencoder.summary()

print("clean to clean")
history = autoencoder.fit(
    train, train, epochs=2, batch_size=64, shuffle=False, validation_data=(test, test), verbose=2
)
print("noisy to clean")
history = autoencoder.fit(
    noisy_train,
    train,
    epochs=3,
    batch_size=64,
    shuffle=False,
    validation_data=(noisy_test, test),
    verbose=2,
)
restored = autoencoder.predict(noisy_test, batch_size=48, verbose=0)[..., 0]
before, after = np.mean((noisy_test - test) ** 2), np.mean((restored - test) ** 2)
print(f"squared error before {before:.4f} after {after:.4f}")

best = int(np.argmin(np.mean((restored - test) ** 2, axis=(1, 2))))
panel = np.concatenate([noisy_test[best], restored[best], test[best]], axis=1)[..., None]
keras.utils.save_img("restored.png", panel)
print("panel", panel.shape)
np.savez("errors.npz", before=noisy_test - test, after=restored - test)
