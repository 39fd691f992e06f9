"""Fine-tune a frozen network through low-rank adapters, then quantize it to int8."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(151)
x = np.random.normal(size=(300, 16)).astype("float32")
old = np.sin(x @ np.random.normal(size=(16, 2)) * 0.3).astype("float32")
new = old + 0.5 * np.cos(x[:, :2])

model = keras.Sequential(
    [
        keras.Input((16,)),
        layers.Dense(32, activation="relu", name="wide"),
        layers.Dense(2, name="out"),
    ]
)
model.compile(keras.optimizers.Adam(0.01), "mse")
first = model.fit(x[:240], old[:240], batch_size=40, epochs=4, shuffle=False, verbose=0)
print("first task", np.round(first.history["loss"], 3))
kernel = model.get_layer("wide").get_weights()[0]


def count(variables):
    return sum(int(np.prod(variable.shape)) for variable in variables)


print("trainable before", count(model.trainable_variables))
model.get_layer("wide").enable_lora(2)
model.get_layer("out").trainable = False
print(
    "trainable now",
    count(model.trainable_variables),
    [v.path.split("/")[-1] for v in model.trainable_variables],
)
model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
second = model.fit(
    x[:240],
    new[:240],
    batch_size=40,
    epochs=3,
    shuffle=False,
    verbose=0,
    validation_data=(x[240:], new[240:]),
)
print("second task", np.round(second.history["loss"], 3), np.round(second.history["val_mae"], 3))
frozen = model.get_layer("wide")._kernel if hasattr(model.get_layer("wide"), "_kernel") else None
print("base unchanged:", frozen is not None and bool(np.array_equal(np.asarray(frozen), kernel)))

before = model.evaluate(x[240:], new[240:], verbose=0)
model.save("adapted.keras")
model.quantize("int8")
quantized = model.predict(x[240:], verbose=0)
print("int8", [str(layer.dtype_policy.name).split("_")[0] for layer in model.layers])
print(
    "error grows by less than 0.05:", bool(np.mean((quantized - new[240:]) ** 2) < before[0] + 0.05)
)
reloaded = keras.models.load_model("adapted.keras")
print("reloaded", np.round(reloaded.evaluate(x[240:], new[240:], verbose=0), 3))
