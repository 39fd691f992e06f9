"""Save and load a model with custom parts: .keras, .h5, weights, JSON, clones, SavedModel, checkpoints."""

import json
import os
import shutil

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(157)
x = np.random.normal(size=(120, 5)).astype("float32")
y = x[:, :1] * x[:, 1:2]


@keras.saving.register_keras_serializable(package="own", name="Scale")
class Scale(layers.Layer):
    def __init__(self, factor=1.0, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor

    def build(self, shape):
        self.gain = self.add_weight(shape=(shape[-1],), initializer="ones", name="gain")

    def call(self, x):
        return x * self.gain * self.factor

    def get_config(self):
        return {**super().get_config(), "factor": self.factor}


def bent(x):
    return keras.ops.tanh(x) * x


inputs = keras.Input((5,))
hidden = layers.Dense(12, activation=bent)(Scale(0.5)(inputs))
model = keras.Model(inputs, layers.Dense(1)(hidden), name="bent")
model.compile(
    keras.optimizers.Adam(0.01),
    loss=keras.losses.MeanSquaredError(),
    metrics=[keras.metrics.MeanAbsoluteError()],
)
model.fit(x, y, batch_size=20, epochs=3, shuffle=False, verbose=0)
expected = model.predict(x, verbose=0)
custom = {"bent": bent}


def check(name, other):
    print(f"{name:22}", bool(np.allclose(other.predict(x, verbose=0), expected, atol=1e-5)))


model.save("model.keras")
check("keras", keras.models.load_model("model.keras", custom_objects=custom))
model.save("model.h5")
check("h5", keras.models.load_model("model.h5", custom_objects=custom))
model.save_weights("model.weights.h5")
with keras.saving.custom_object_scope(custom):
    clone = keras.models.clone_model(model)
clone.load_weights("model.weights.h5")
check("weights", clone)
with open("model.json", "w") as file:
    file.write(model.to_json())
with open("model.json") as file:
    rebuilt = keras.models.model_from_json(file.read(), custom_objects=custom)
rebuilt.set_weights(model.get_weights())
check("json", rebuilt)
with keras.saving.custom_object_scope(custom):
    again = keras.Model.from_config(model.get_config())
    again.load_weights("model.keras")
check("config", again)
model.export("exported", verbose=False)
exported = tf.saved_model.load("exported")  # its functions do not keep its variables
served = exported.serve(x)
print("served               ", bool(np.allclose(served, expected, atol=1e-5)))
layer = keras.layers.TFSMLayer("exported", call_endpoint="serving_default")
print("as a layer           ", type(layer(x)).__name__)

resumed = keras.models.load_model("model.keras", custom_objects=custom)
print("optimizer at", int(resumed.optimizer.iterations))
history = resumed.fit(x, y, batch_size=20, epochs=5, initial_epoch=3, shuffle=False, verbose=0)
more = model.fit(x, y, batch_size=20, epochs=5, initial_epoch=3, shuffle=False, verbose=0)
print(
    "goes on alike:",
    bool(np.allclose(history.history["loss"], more.history["loss"], rtol=1e-3)),
    history.epoch,
)
print(
    "losses", np.round(history.history["loss"], 3), json.load(open("model.json"))["config"]["name"]
)
if os.path.exists("exported"):
    shutil.rmtree("exported", ignore_errors=True)
print(sorted(os.listdir()))
