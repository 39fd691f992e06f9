"""Few frauds among many payments: class weights, counts of errors, a model file for each epoch."""

import os

import keras
import numpy as np

keras.utils.set_random_seed(59)
rng = np.random.default_rng(59)

features = rng.normal(size=(1200, 8))
score = features[:, 0] + features[:, 1] * features[:, 2]
targets = (score > np.quantile(score, 0.95)).astype("uint8")[:, None]
validation = 300
train_x, val_x = features[:-validation].astype("float32"), features[-validation:].astype("float32")
train_y, val_y = targets[:-validation], targets[-validation:]

counts = np.bincount(train_y[:, 0])
print("positive in training", counts[1], f"({100 * counts[1] / len(train_y):.2f} %)")
class_weight = {0: 1.0 / counts[0], 1: 1.0 / counts[1]}
mean, std = train_x.mean(axis=0), train_x.std(axis=0)
train_x, val_x = (train_x - mean) / std, (val_x - mean) / std

model = keras.Sequential(
    [
        keras.Input((8,)),
        keras.layers.Dense(24, activation="relu"),
        keras.layers.Dense(24, activation="relu"),
        keras.layers.Dropout(0.3),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(1e-2),
    loss="binary_crossentropy",
    metrics=[
        keras.metrics.FalseNegatives(name="fn"),
        keras.metrics.FalsePositives(name="fp"),
        keras.metrics.TrueNegatives(name="tn"),
        keras.metrics.TruePositives(name="tp"),
        keras.metrics.Precision(name="precision"),
        keras.metrics.Recall(name="recall"),
    ],
)
history = model.fit(
    train_x,
    train_y,
    batch_size=256,
    epochs=6,
    verbose=0,
    callbacks=[keras.callbacks.ModelCheckpoint("fraud_model_at_epoch_{epoch}.keras")],
    validation_data=(val_x, val_y),
    class_weight=class_weight,
)
last = {name: values[-1] for name, values in history.history.items()}
print("names", sorted(last))
print("rows of validation", int(sum(last[f"val_{name}"] for name in ("fn", "fp", "tn", "tp"))))
print("rows of training", int(sum(last[name] for name in ("fn", "fp", "tn", "tp"))))
print(
    "frauds of validation",
    int(last["val_fn"] + last["val_tp"]),
    "most found:",
    last["val_recall"] > 0.5,
)
print(sorted(name for name in os.listdir() if name.startswith("fraud")))
last_saved = keras.models.load_model("fraud_model_at_epoch_6.keras")
same = np.allclose(last_saved.predict(val_x, verbose=0), model.predict(val_x, verbose=0), atol=1e-6)
print("the last file is the model:", bool(same))
