"""Tag words in sentences of different lengths: padding, masks, a bidirectional LSTM, masked accuracy."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(14)
rng = np.random.default_rng(14)
WORDS, TAGS, LONGEST = 40, 4, 10

sentences = [rng.integers(1, WORDS, size=rng.integers(3, LONGEST + 1)) for _ in range(300)]
tags = [1 + sentence % (TAGS - 1) for sentence in sentences]
x = keras.utils.pad_sequences(sentences, maxlen=LONGEST, padding="post")
y = keras.utils.pad_sequences(tags, maxlen=LONGEST, padding="post")
print("padded", x.shape, "real words", int((x > 0).sum()))

model = keras.Sequential(
    [
        keras.Input((LONGEST,), dtype="int32"),
        layers.Embedding(WORDS, 12, mask_zero=True),
        layers.Bidirectional(layers.LSTM(12, return_sequences=True)),
        layers.TimeDistributed(layers.Dense(TAGS, activation="softmax")),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(0.02),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
    weighted_metrics=[],
)
history = model.fit(x, y, validation_split=0.2, epochs=4, batch_size=40, shuffle=False, verbose=0)
for epoch, (loss, accuracy) in enumerate(
    zip(history.history["loss"], history.history["val_accuracy"])
):
    print(f"epoch {epoch}: {loss:.3f} {accuracy:.3f}")

predicted = model.predict(x[240:], verbose=0).argmax(axis=-1)
real = x[240:] > 0
print("right among real words", round(float((predicted == y[240:])[real].mean()), 3))
print("first sentence", x[240][real[0]], predicted[0][real[0]])
