"""Good and bad reviews from raw strings: vectorise in tf.data, train, ship a model that eats strings."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(11)
rng = np.random.default_rng(11)

GOOD = ["lovely", "superb", "charming", "bright", "moving"]
BAD = ["dreary", "clumsy", "boring", "muddled", "flat"]
FILLER = ["the", "film", "was", "and", "plot", "actors", "felt", "quite", "rather", "in", "parts"]


def review(label):
    words = list(rng.choice(FILLER, size=8)) + list(rng.choice(GOOD if label else BAD, size=2))
    rng.shuffle(words)
    return " ".join(words) + rng.choice([".", "!", " ..."])


labels = rng.integers(0, 2, size=480).astype("float32")
texts = np.array([review(label) for label in labels])

raw_train = tf.data.Dataset.from_tensor_slices((texts[:400], labels[:400]))
raw_test = tf.data.Dataset.from_tensor_slices((texts[400:], labels[400:])).batch(32)

vectorize = layers.TextVectorization(max_tokens=60, output_sequence_length=12)
vectorize.adapt(raw_train.map(lambda text, label: text).batch(64))
print(
    "vocabulary",
    len(vectorize.get_vocabulary()),
    [str(word) for word in vectorize.get_vocabulary()[:4]],
)

train = raw_train.map(lambda text, label: (vectorize(text), label)).batch(32).prefetch(2)
test = raw_test.map(lambda text, label: (vectorize(text), label))

model = keras.Sequential(
    [
        keras.Input(shape=(12,), dtype="int64"),
        layers.Embedding(60, 8),
        layers.GlobalAveragePooling1D(),
        layers.Dense(8, activation="relu"),
        layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(0.005), loss="binary_crossentropy", metrics=["accuracy"]
)
history = model.fit(train, validation_data=test, epochs=6, verbose=0)
for epoch, (loss, accuracy) in enumerate(
    zip(history.history["loss"], history.history["val_accuracy"])
):
    print(f"epoch {epoch}: loss {loss:.4f}, held out {accuracy:.3f}")

end_to_end = keras.Sequential([keras.Input(shape=(1,), dtype="string"), vectorize, model])
end_to_end.compile(loss="binary_crossentropy", metrics=["accuracy"])
_, accuracy = end_to_end.evaluate(raw_test.map(lambda t, y: (tf.expand_dims(t, -1), y)), verbose=0)
print(f"from strings: {accuracy:.3f}")
samples = tf.constant([["the film was lovely and superb"], ["rather boring and flat plot"]])
print([f"{p:.2f}" for p in end_to_end.predict(samples, verbose=0)[:, 0]])
