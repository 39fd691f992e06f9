"""The next frame of a moving square with ConvLSTM2D, reduced rates and early stopping."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(89)
rng = np.random.default_rng(89)

FRAMES, SIZE = 6, 10
films = np.zeros((60, FRAMES, SIZE, SIZE, 1), "float32")
for film in films:
    place, move = rng.integers(0, SIZE - 3, 2), rng.integers(-1, 2, 2)
    for frame in film:
        row, column = np.clip(place, 0, SIZE - 3)
        frame[row : row + 3, column : column + 3] = 1.0
        place = place + move

x, y = films[:, :-1], films[:, 1:]
x_train, y_train, x_val, y_val = x[:48], y[:48], x[48:], y[48:]
print("training", x_train.shape, "validation", x_val.shape)

inputs = keras.Input((None, SIZE, SIZE, 1))
hidden = layers.ConvLSTM2D(6, 3, padding="same", return_sequences=True, activation="relu")(inputs)
hidden = layers.LayerNormalization()(hidden)
outputs = layers.Conv3D(1, 3, activation="sigmoid", padding="same")(hidden)
model = keras.Model(inputs, outputs)
model.compile(loss="binary_crossentropy", optimizer=keras.optimizers.Adam(0.01))
history = model.fit(
    x_train,
    y_train,
    batch_size=12,
    epochs=4,
    shuffle=False,
    validation_data=(x_val, y_val),
    callbacks=[
        keras.callbacks.EarlyStopping(monitor="val_loss", patience=10),
        keras.callbacks.ReduceLROnPlateau(monitor="val_loss", patience=1, min_delta=0.05),
    ],
    verbose=0,
)
print("loss", np.round(history.history["loss"], 3))
print("rates", np.round(history.history["learning_rate"], 4))

frames = x_val[0][:3]
for _ in range(3):
    following = model.predict(frames[None], verbose=0)[0, -1:]
    frames = np.concatenate([frames, following])
print(
    "film",
    frames.shape,
    "last frame between",
    round(float(frames[-1].min()), 2),
    "and",
    round(float(frames[-1].max()), 2),
)
