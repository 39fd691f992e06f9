"""A small search over width and learning rate: early stopping, a table of results, the best rebuilt."""

import csv
import itertools
import os

import keras
import numpy as np

keras.utils.set_random_seed(71)
x = np.random.uniform(-2, 2, size=(300, 2)).astype("float32")
y = (x[:, :1] ** 2 + x[:, 1:] ** 2 < 1.7).astype("float32")
train, valid, test = (x[:200], y[:200]), (x[200:250], y[200:250]), (x[250:], y[250:])


def make(width, rate):
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((2,)),
            keras.layers.Dense(width, activation="tanh"),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(keras.optimizers.Adam(rate), "binary_crossentropy", metrics=["accuracy"])
    return model


os.makedirs("trials", exist_ok=True)
rows = []
for number, (width, rate) in enumerate(itertools.product([4, 16], [0.003, 0.03, 0.1])):
    keras.backend.clear_session()
    model = make(width, rate)
    stopping = keras.callbacks.EarlyStopping(
        monitor="val_loss", patience=1, min_delta=0.01, restore_best_weights=True
    )
    history = model.fit(
        *train,
        validation_data=valid,
        epochs=6,
        batch_size=40,
        shuffle=False,
        callbacks=[stopping],
        verbose=0,
    )
    loss, accuracy = model.evaluate(*valid, verbose=0)
    model.save_weights(os.path.join("trials", f"{number}.weights.h5"))
    rows.append(
        {
            "trial": number,
            "width": width,
            "rate": rate,
            "epochs": len(history.epoch),
            "best_epoch": stopping.best_epoch,
            "loss": round(loss, 4),
            "accuracy": round(accuracy, 3),
        }
    )
    print(rows[-1])

with open("results.csv", "w", newline="") as file:
    writer = csv.DictWriter(file, fieldnames=rows[0])
    writer.writeheader()
    writer.writerows(rows)
best = min(rows, key=lambda row: row["loss"])
print("best trial", best["trial"])
model = make(best["width"], best["rate"])
model.load_weights(os.path.join("trials", f"{best['trial']}.weights.h5"))
print("test", [round(value, 3) for value in model.evaluate(*test, verbose=0)])
print(sorted(os.listdir("trials")))
