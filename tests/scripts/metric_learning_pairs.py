"""Anchors and positives of a batch against each other: logits of all pairs, own train_step."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

keras.utils.set_random_seed(37)
rng = np.random.default_rng(37)
CLASSES = 6

centres = rng.normal(0, 2, (CLASSES, 12))
labels = np.repeat(np.arange(CLASSES), 40)
samples = (centres[labels] + rng.normal(0, 1.0, (240, 12))).astype("float32")


class AnchorPositivePairs(keras.utils.Sequence):
    """One anchor and one positive of each class to a batch."""

    def __init__(self, batches):
        super().__init__()
        draw = np.random.default_rng(1)
        picks = draw.integers(0, 40, (batches, 2, CLASSES))
        self.rows = picks + 40 * np.arange(CLASSES)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return samples[self.rows[index]]


class EmbeddingModel(keras.Model):
    def train_step(self, data):
        if isinstance(data, tuple):
            data = data[0]
        anchors, positives = data[0], data[1]
        with tf.GradientTape() as tape:
            anchor_vectors = self(anchors, training=True)
            positive_vectors = self(positives, training=True)
            similarities = ops.einsum("ae,pe->ap", anchor_vectors, positive_vectors) / 0.2
            sparse_labels = ops.arange(CLASSES)
            loss = self.compute_loss(y=sparse_labels, y_pred=similarities)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(sparse_labels, similarities)
        return {m.name: m.result() for m in self.metrics}


inputs = keras.Input((12,))
x = layers.Dense(16, activation="relu")(inputs)
vectors = layers.UnitNormalization()(layers.Dense(4)(x))
model = EmbeddingModel(inputs, vectors)
model.compile(
    optimizer=keras.optimizers.Adam(0.01),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)
history = model.fit(AnchorPositivePairs(20), epochs=4, shuffle=False, verbose=0)
print("loss", [f"{loss:.3f}" for loss in history.history["loss"]])

embeddings = model.predict(samples, verbose=0)
nearest = np.argsort(-embeddings @ embeddings.T, axis=1)[:, 1:6]
right = (labels[nearest] == labels[:, None]).mean()
print(f"neighbours of the same class: {right:.2f}")
