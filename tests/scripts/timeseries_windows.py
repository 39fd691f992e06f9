"""Temperatures two hours ahead: windows of a series, GRU, early stopping, best weights from a file."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(21)
rng = np.random.default_rng(21)

hours = np.arange(900)
temperature = 10 + 8 * np.sin(hours * 2 * np.pi / 24) + 0.01 * hours + rng.normal(0, 0.6, 900)
pressure = 1000 + 6 * np.cos(hours * 2 * np.pi / 60) + rng.normal(0, 1.0, 900)
features = np.stack([temperature, pressure], axis=-1)

split = 700
mean, std = features[:split].mean(axis=0), features[:split].std(axis=0)
features = ((features - mean) / std).astype("float32")

past, ahead = 24, 2


def windows(part):
    start = part.start + past + ahead - 1
    return keras.utils.timeseries_dataset_from_array(
        features[part.start : part.stop - ahead],
        features[start : part.stop, :1],
        sequence_length=past,
        batch_size=64,
    )


train, held_out = windows(slice(0, split)), windows(slice(split, 900))
for batch, goal in train.take(1):
    print("batch", tuple(batch.shape), "goal", tuple(goal.shape))

inputs = keras.Input((past, 2))
x = layers.GRU(16)(inputs)
model = keras.Model(inputs, layers.Dense(1)(x))
model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse", metrics=["mae"])

history = model.fit(
    train,
    epochs=5,
    validation_data=held_out,
    verbose=0,
    callbacks=[
        keras.callbacks.EarlyStopping(monitor="val_loss", patience=2),
        keras.callbacks.ModelCheckpoint(
            "best.weights.h5", monitor="val_loss", save_weights_only=True, save_best_only=True
        ),
    ],
)
best = int(np.argmin(history.history["val_loss"]))
print("best epoch", best, "losses", np.round(history.history["val_loss"], 3))

model.load_weights("best.weights.h5")
loss, mae = model.evaluate(held_out, verbose=0)
print(f"again from the file: {loss:.3f}, off by {mae * std[0]:.2f} degrees")
for batch, goal in held_out.take(1):
    predicted = model.predict(batch, verbose=0)[:3, 0] * std[0] + mean[0]
    print(
        "predicted", predicted.round(1), "true", (goal[:3, 0].numpy() * std[0] + mean[0]).round(1)
    )
