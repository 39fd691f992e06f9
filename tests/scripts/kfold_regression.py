"""House prices with k folds: a fresh model for each, histories averaged, a final model."""

import json

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(61)
rng = np.random.default_rng(61)

data = rng.normal(size=(200, 7)).astype("float32") * np.arange(1, 8, dtype="float32") + 3
prices = (data @ np.array([3, -1, 0.5, 0, 2, 0.1, -0.3]) + np.abs(data[:, 0]) * 2 + 20).astype(
    "float32"
)
mean, std = data.mean(axis=0), data.std(axis=0)
data = (data - mean) / std


def build_model():
    model = keras.Sequential(
        [
            keras.Input((7,)),
            layers.Dense(16, activation="relu"),
            layers.Dense(16, activation="relu", kernel_regularizer=keras.regularizers.L2(1e-3)),
            layers.Dense(1),
        ]
    )
    model.compile(optimizer="rmsprop", loss="mse", metrics=["mae"])
    return model


FOLDS, EPOCHS = 4, 6
size = len(data) // FOLDS
scores, histories = [], []
for fold in range(FOLDS):
    print("fold", fold)
    part = slice(fold * size, (fold + 1) * size)
    x = np.concatenate([data[: part.start], data[part.stop :]])
    y = np.concatenate([prices[: part.start], prices[part.stop :]])
    model = build_model()
    history = model.fit(
        x,
        y,
        validation_data=(data[part], prices[part]),
        epochs=EPOCHS,
        batch_size=16,
        shuffle=False,
        verbose=0,
    )
    histories.append(history.history["val_mae"])
    _, mae = model.evaluate(data[part], prices[part], verbose=0)
    scores.append(mae)

print("scores", [round(score, 2) for score in scores], "mean", round(float(np.mean(scores)), 2))
average = [
    round(float(np.mean([history[epoch] for history in histories])), 2) for epoch in range(EPOCHS)
]
print("by epoch", average, "best", int(np.argmin(average)))
with open("folds.json", "w") as file:
    json.dump({"scores": scores, "average": average}, file, indent=1)

final = build_model()
final.fit(data, prices, epochs=int(np.argmin(average)) + 1, batch_size=32, shuffle=False, verbose=0)
print("prices", final.predict(data[:4], verbose=0)[:, 0].round(1))
with open("folds.json") as file:
    print("read again", len(json.load(file)["scores"]))
