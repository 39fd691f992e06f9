"""A subclassed siamese model: triplets, a loss computed in the step, one tracker."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

keras.utils.set_random_seed(43)
rng = np.random.default_rng(43)

groups = rng.normal(0, 1.5, (8, 10))
who = rng.integers(0, 8, 300)
others = (who + rng.integers(1, 8, 300)) % 8
anchor, positive, negative = (
    (groups[index] + rng.normal(0, 0.8, (300, 10))).astype("float32")
    for index in (who, who, others)
)

dataset = tf.data.Dataset.zip(
    tuple(tf.data.Dataset.from_tensor_slices(part) for part in (anchor, positive, negative))
)
dataset = dataset.map(lambda a, p, n: (a * 0.5, p * 0.5, n * 0.5))
train = dataset.take(240).batch(32, drop_remainder=False).prefetch(8)
held_out = dataset.skip(240).batch(32, drop_remainder=False).prefetch(8)

embedding = keras.Sequential(
    [keras.Input((10,)), layers.Dense(16, activation="relu"), layers.Dense(6)], name="Embedding"
)


class DistanceLayer(layers.Layer):
    def call(self, anchor, positive, negative):
        near = ops.sum(ops.square(anchor - positive), -1)
        far = ops.sum(ops.square(anchor - negative), -1)
        return near, far


inputs = [keras.Input((10,), name=name) for name in ("anchor", "positive", "negative")]
siamese = keras.Model(inputs, DistanceLayer()(*[embedding(part) for part in inputs]))


class SiameseModel(keras.Model):
    def __init__(self, network, margin=0.5):
        super().__init__()
        self.network, self.margin = network, margin
        self.loss_tracker = keras.metrics.Mean(name="loss")

    def call(self, inputs):
        return self.network(inputs)

    def train_step(self, data):
        with tf.GradientTape() as tape:
            loss = self._compute_loss(data)
        gradients = tape.gradient(loss, self.network.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.network.trainable_weights))
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}

    def test_step(self, data):
        self.loss_tracker.update_state(self._compute_loss(data))
        return {"loss": self.loss_tracker.result()}

    def _compute_loss(self, data):
        near, far = self.network(data)
        return ops.maximum(near - far + self.margin, 0.0)

    @property
    def metrics(self):
        return [self.loss_tracker]


model = SiameseModel(siamese)
model.compile(optimizer=keras.optimizers.Adam(0.003), weighted_metrics=[])
history = model.fit(train, epochs=4, validation_data=held_out, verbose=0)
print(
    "loss",
    np.round(history.history["loss"], 3),
    "held out",
    np.round(history.history["val_loss"], 3),
)
cosine = keras.losses.cosine_similarity
first = next(iter(held_out))
a, p, n = (embedding(part) for part in first)
print("positive nearer on average:", float(ops.mean(cosine(a, p))) < float(ops.mean(cosine(a, n))))
