"""Word vectors from neighbours and drawn strangers; the vectors go into two TSV files."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(57)
rng = np.random.default_rng(57)

TOPICS = [
    ["sun", "rain", "wind", "snow"],
    ["bread", "salt", "oil", "milk"],
    ["drum", "flute", "harp", "horn"],
]
sentences = [" ".join(rng.choice(TOPICS[topic], 6)) for topic in rng.integers(0, 3, 60)]
vocabulary = ["[PAD]"] + sorted({word for sentence in sentences for word in sentence.split()})
index = {word: number for number, word in enumerate(vocabulary)}

targets, contexts, labels = [], [], []
for sentence in sentences:
    words = [index[word] for word in sentence.split()]
    for place, word in enumerate(words):
        for neighbour in words[max(0, place - 2) : place] + words[place + 1 : place + 3]:
            strangers = rng.choice(np.arange(1, len(vocabulary)), 3)
            targets.append(word)
            contexts.append([neighbour, *strangers])
            labels.append([1, 0, 0, 0])

dataset = tf.data.Dataset.from_tensor_slices(
    ((np.array(targets), np.array(contexts)), np.array(labels))
)
dataset = (
    dataset.shuffle(2000, seed=4).batch(64, drop_remainder=True).cache().prefetch(tf.data.AUTOTUNE)
)


class Word2Vec(keras.Model):
    def __init__(self, words, width):
        super().__init__()
        self.target = layers.Embedding(words, width, name="w2v_embedding")
        self.context = layers.Embedding(words, width)

    def call(self, pair):
        target, context = pair
        return tf.einsum("be,bce->bc", self.target(target), self.context(context))


word2vec = Word2Vec(len(vocabulary), 8)
word2vec.compile(
    optimizer=keras.optimizers.SGD(20.0),
    loss=keras.losses.BinaryCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
logs = keras.callbacks.TensorBoard(log_dir="logs", update_freq=10)
history = word2vec.fit(dataset, epochs=6, callbacks=[logs], verbose=0)
print("pairs", len(targets), "loss", np.round(history.history["loss"], 3))

weights = word2vec.get_layer("w2v_embedding").get_weights()[0]
with (
    open("vectors.tsv", "w", encoding="utf-8") as vectors,
    open("metadata.tsv", "w") as metadata,
):
    for number, word in enumerate(vocabulary):
        if number == 0:
            continue
        vectors.write("\t".join(f"{value:.2f}" for value in weights[number]) + "\n")
        metadata.write(word + "\n")
unit = weights / np.linalg.norm(weights, axis=1, keepdims=True)
nearest = vocabulary[1 + int(np.argsort(-(unit @ unit[index["rain"]])[1:])[1])]
print("nearest to rain is weather:", nearest in TOPICS[0])
