"""Support tickets: two texts and tags in, priority and department out; by lists, dicts and datasets."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(131)
rng = np.random.default_rng(131)
ROWS, WORDS, TAGS, DEPARTMENTS = 240, 60, 6, 3

title = rng.integers(1, WORDS, (ROWS, 5))
body = rng.integers(1, WORDS, (ROWS, 12))
tags = rng.integers(0, 2, (ROWS, TAGS)).astype("float32")
priority = (0.5 * tags[:, 0] + 0.5 * (title < 20).any(axis=1)).astype("float32")[:, None]
department = keras.utils.to_categorical(body.sum(axis=1) % DEPARTMENTS, DEPARTMENTS)

title_input = keras.Input((None,), name="title", dtype="int32")
body_input = keras.Input((None,), name="body", dtype="int32")
tags_input = keras.Input((TAGS,), name="tags")
title_features = layers.GRU(8)(layers.Embedding(WORDS, 8)(title_input))
body_features = layers.GlobalMaxPooling1D()(layers.Embedding(WORDS, 8)(body_input))
x = layers.concatenate([title_features, body_features, tags_input])
priority_pred = layers.Dense(1, name="priority")(x)
department_pred = layers.Dense(DEPARTMENTS, name="department")(x)
model = keras.Model(
    [title_input, body_input, tags_input],
    {"priority": priority_pred, "department": department_pred},
)


def compile_it():
    model.compile(
        optimizer=keras.optimizers.SGD(0.1),
        loss={
            "priority": keras.losses.BinaryCrossentropy(from_logits=True),
            "department": keras.losses.CategoricalCrossentropy(from_logits=True),
        },
        loss_weights={"priority": 1.0, "department": 0.2},
        weighted_metrics={"priority": ["mae"]},
    )


inputs = {"title": title, "body": body, "tags": tags}
targets = {"priority": priority, "department": department}
compile_it()
history = model.fit(inputs, targets, epochs=2, batch_size=32, shuffle=False, verbose=0)
print(sorted(history.history), np.round(history.history["loss"], 3))

weights = {"priority": np.where(tags[:, 0] > 0, 2.0, 1.0), "department": np.ones(ROWS)}
compile_it()
history = model.fit(
    inputs, targets, sample_weight=weights, epochs=2, batch_size=32, shuffle=False, verbose=0
)
print(
    "weighted", np.round(history.history["loss"], 3), np.round(history.history["priority_mae"], 3)
)

dataset = tf.data.Dataset.from_tensor_slices((inputs, targets)).batch(64)
history = model.fit(dataset, epochs=2, verbose=0)
print("dataset", np.round(history.history["loss"], 3))
print(
    "by list",
    {
        k: v.shape
        for k, v in sorted(model.predict([title[:7], body[:7], tags[:7]], verbose=0).items())
    },
)
results = model.evaluate(dataset, return_dict=True, verbose=0)
print({name: round(value, 3) for name, value in sorted(results.items())})
inner = keras.Model(model.inputs, model.get_layer("concatenate").output)
print("features", inner.predict(inputs, batch_size=100, verbose=0).shape)
