"""Features of optimizers: accumulation, averaged weights, clipping, decays, schedules, warm restarts."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(109)
x = np.random.normal(size=(240, 10)).astype("float32")
y = np.tanh(x @ np.random.normal(size=(10, 1))).astype("float32")


def model_of(optimizer):
    keras.utils.set_random_seed(110)
    model = keras.Sequential(
        [keras.Input((10,)), layers.Dense(12, activation="relu"), layers.Dense(1)]
    )
    model.compile(optimizer, "mse")
    return model


OPTIMIZERS = {
    "accumulation": keras.optimizers.Adam(0.01, gradient_accumulation_steps=3),
    "average": keras.optimizers.SGD(0.05, momentum=0.9, use_ema=True, ema_momentum=0.8),
    "clip each": keras.optimizers.SGD(0.5, clipvalue=0.05),
    "clip all": keras.optimizers.SGD(0.5, global_clipnorm=0.1, nesterov=True, momentum=0.5),
    "cosine": keras.optimizers.RMSprop(keras.optimizers.schedules.CosineDecay(0.02, 30)),
    "decay": keras.optimizers.AdamW(
        keras.optimizers.schedules.ExponentialDecay(0.02, 10, 0.5), weight_decay=0.01
    ),
    "lion": keras.optimizers.Lion(0.002),
    "adagrad": keras.optimizers.Adagrad(0.1),
    "ftrl": keras.optimizers.Ftrl(0.1),
    "nadam": keras.optimizers.Nadam(0.01),
}
for name, optimizer in OPTIMIZERS.items():
    model = model_of(optimizer)
    callbacks = [keras.callbacks.SwapEMAWeights(swap_on_epoch=True)] if name == "average" else []
    history = model.fit(
        x[:200],
        y[:200],
        batch_size=25,
        epochs=3,
        shuffle=False,
        verbose=0,
        callbacks=callbacks,
        validation_data=(x[200:], y[200:]),
    )
    losses = np.round(history.history["loss"], 3).tolist()
    print(
        f"{name:13}",
        losses,
        round(history.history["val_loss"][-1], 3),
        "iterations",
        int(optimizer.iterations),
    )
    if name == "average":
        print("evaluated with", "averages", round(model.evaluate(x[200:], y[200:], verbose=0), 3))

rate = float(OPTIMIZERS["cosine"].learning_rate)
print(f"rate of the cosine now {rate:.4f}")
config = keras.optimizers.serialize(OPTIMIZERS["clip all"])
print(config["class_name"], config["config"]["global_clipnorm"], config["config"]["nesterov"])
