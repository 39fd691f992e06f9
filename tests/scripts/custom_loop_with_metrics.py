"""A training loop written out: tf.function, metric objects, losses of layers, a loop for validation."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(107)
x = np.random.normal(size=(360, 8)).astype("float32")
y = (x[:, :3].argmax(axis=1)).astype("int64")
train_dataset = (
    tf.data.Dataset.from_tensor_slices((x[:300], y[:300])).shuffle(300, seed=8).batch(50)
)
val_dataset = tf.data.Dataset.from_tensor_slices((x[300:], y[300:])).batch(50)


class ActivityRegularization(layers.Layer):
    def call(self, inputs):
        self.add_loss(
            1e-3 * keras.ops.sum(inputs**2) / keras.ops.cast(keras.ops.shape(inputs)[0], "float32")
        )
        return inputs


inputs = keras.Input((8,))
hidden = ActivityRegularization()(layers.Dense(24, activation="relu")(inputs))
model = keras.Model(inputs, layers.Dense(3)(hidden))
optimizer = keras.optimizers.Adam(learning_rate=0.01)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
train_metric = keras.metrics.SparseCategoricalAccuracy()
val_metric = keras.metrics.SparseCategoricalAccuracy()


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        loss_value = loss_fn(y, logits) + sum(model.losses)
    grads = tape.gradient(loss_value, model.trainable_weights)
    optimizer.apply(grads, model.trainable_weights)
    train_metric.update_state(y, logits)
    return loss_value


@tf.function
def test_step(x, y):
    val_metric.update_state(y, model(x, training=False))


checkpoint = tf.train.Checkpoint(model=model, step=tf.Variable(0))
for epoch in range(4):
    for step, (x_batch, y_batch) in enumerate(train_dataset):
        loss_value = train_step(x_batch, y_batch)
        if step % 4 == 0:
            print(
                f"epoch {epoch} step {step}: loss {float(loss_value):.4f}, seen {(step + 1) * 50}"
            )
    accuracy = float(train_metric.result())
    train_metric.reset_state()
    for x_batch, y_batch in val_dataset:
        test_step(x_batch, y_batch)
    print(f"training accuracy {accuracy:.3f}, validation {float(val_metric.result()):.3f}")
    val_metric.reset_state()
    checkpoint.step.assign_add(1)

model.compile(optimizer, loss_fn, metrics=["accuracy"])
model.fit(x[:300], y[:300], batch_size=50, epochs=1, shuffle=False, verbose=0)
print("after one epoch of fit", np.round(model.evaluate(x[300:], y[300:], verbose=0), 3))
model.save("looped.keras")
print("optimizer went", int(optimizer.iterations), "steps")
