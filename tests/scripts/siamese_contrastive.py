"""Are two curves of one family? A twin network with a shared tower and a contrastive loss."""

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(6)
rng = np.random.default_rng(6)

time = np.linspace(0, 1, 20)
family = rng.integers(0, 3, 240)
curves = np.stack([np.sin(2 * np.pi * (k + 1) * time + rng.uniform(0, 0.5)) for k in family])
curves = (curves + rng.normal(0, 0.1, curves.shape)).astype("float32")

left, right, same = [], [], []
for index in range(len(curves)):
    friend = rng.choice(np.flatnonzero(family == family[index]))
    stranger = rng.choice(np.flatnonzero(family != family[index]))
    left += [curves[index]] * 2
    right += [curves[friend], curves[stranger]]
    same += [1.0, 0.0]
left, right, same = np.array(left), np.array(right), np.array(same, "float32")[:, None]


def contrastive(margin=1.0):
    def loss(y_true, y_pred):
        near = ops.square(y_pred)
        far = ops.square(ops.maximum(margin - y_pred, 0))
        return ops.mean(y_true * near + (1 - y_true) * far)

    return loss


@keras.saving.register_keras_serializable(package="twins")
class Distance(layers.Layer):
    def call(self, pair):
        a, b = pair
        return ops.sqrt(ops.sum(ops.square(a - b), axis=1, keepdims=True) + 1e-7)

    def compute_output_shape(self, shapes):
        return (shapes[0][0], 1)


tower = keras.Sequential(
    [keras.Input((20,)), layers.Dense(24, activation="relu"), layers.Dense(4)], name="tower"
)
a, b = keras.Input((20,), name="left"), keras.Input((20,), name="right")
model = keras.Model([a, b], Distance()([tower(a), tower(b)]))
model.compile(keras.optimizers.Adam(0.005), loss=contrastive())
history = model.fit(
    [left[:400], right[:400]],
    same[:400],
    batch_size=50,
    epochs=6,
    shuffle=False,
    verbose=0,
    validation_data=([left[400:], right[400:]], same[400:]),
)
print("loss", np.round(history.history["loss"], 3))
print("held out", np.round(history.history["val_loss"], 3))
distance = model.predict([left[400:], right[400:]], verbose=0)
print("accuracy at a half", round(float(((distance < 0.5) == (same[400:] > 0.5)).mean()), 3))
tower.save("tower.keras")
vectors = keras.models.load_model("tower.keras").predict(curves[:5], verbose=0)
print("vectors", vectors.shape)
model.save("twins.keras")
twins = keras.models.load_model("twins.keras", compile=False)
print(
    "same distances",
    bool(np.allclose(twins.predict([left[400:], right[400:]], verbose=0), distance, atol=1e-5)),
)
