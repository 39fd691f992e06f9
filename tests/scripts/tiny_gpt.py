"""A miniature language model over words: causal attention, and a callback that writes sentences."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

keras.utils.set_random_seed(53)
rng = np.random.default_rng(53)

NOUNS, VERBS, PLACES = ["cat", "dog", "bird"], ["sits", "sleeps", "eats"], ["here", "there"]
lines = [
    f"the {rng.choice(NOUNS)} {rng.choice(VERBS)} {rng.choice(PLACES)} and then it {rng.choice(VERBS)}"
    for _ in range(240)
]
with open("lines.txt", "w") as file:
    file.write("\n".join(lines))

LONGEST, WIDTH = 8, 16
text = tf.data.TextLineDataset("lines.txt")
vectorize = layers.TextVectorization(output_sequence_length=LONGEST + 1)
vectorize.adapt(text.batch(60))
vocabulary = vectorize.get_vocabulary()


def inputs_and_labels(lines):
    tokens = vectorize(lines)
    return tokens[:, :-1], tokens[:, 1:]


dataset = text.shuffle(240, seed=3).batch(40).map(inputs_and_labels).prefetch(tf.data.AUTOTUNE)


class TokenAndPosition(layers.Layer):
    def __init__(self, longest, words, width):
        super().__init__()
        self.tokens = layers.Embedding(words, width)
        self.places = layers.Embedding(longest, width)

    def call(self, x):
        return self.tokens(x) + self.places(ops.arange(0, ops.shape(x)[-1]))


class Block(layers.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.attend = layers.MultiHeadAttention(heads, width // heads)
        self.forward = keras.Sequential(
            [layers.Dense(2 * width, activation="relu"), layers.Dense(width)]
        )
        self.norms = [layers.LayerNormalization(epsilon=1e-6) for _ in range(2)]

    def call(self, x):
        x = self.norms[0](x + self.attend(x, x, use_causal_mask=True))
        return self.norms[1](x + self.forward(x))


class Writer(keras.callbacks.Callback):
    """Continues a beginning greedily after every second epoch."""

    def __init__(self, beginning, vocabulary):
        super().__init__()
        self.beginning, self.vocabulary = beginning, vocabulary
        self.written = []

    def on_epoch_end(self, epoch, logs=None):
        if epoch % 2 == 0:
            return
        words = [self.vocabulary.index(word) for word in self.beginning.split()]
        while len(words) < LONGEST:
            padded = np.array([words + [0] * (LONGEST - len(words))])
            scores = self.model.predict(padded, verbose=0)[0][len(words) - 1]
            words.append(int(scores.argmax()))
        self.written.append(" ".join(self.vocabulary[word] for word in words))
        print(f"epoch {epoch}: {len(words)} words, begins with {self.written[-1].split()[0]!r}")


inputs = keras.Input((LONGEST,), dtype="int32")
x = Block(WIDTH, 2)(TokenAndPosition(LONGEST, len(vocabulary), WIDTH)(inputs))
model = keras.Model(inputs, layers.Dense(len(vocabulary))(x))
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
writer = Writer("the cat", [str(word) for word in vocabulary])
history = model.fit(dataset, epochs=4, callbacks=[writer], verbose=0)
print("vocabulary", len(vocabulary), "sentences", len(writer.written))
print("falls:", history.history["loss"][-1] < 0.95 * history.history["loss"][0])
