"""Users and films as vectors: a subclassed model, lookups, and what to recommend."""

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(67)
rng = np.random.default_rng(67)
USERS, FILMS = 30, 20

taste, style = rng.normal(size=(USERS, 2)), rng.normal(size=(FILMS, 2))
pairs = np.array([(user, film) for user in range(USERS) for film in range(FILMS)])
rng.shuffle(pairs)
pairs = pairs[:400]
rating = np.array([taste[user] @ style[film] for user, film in pairs])
rating = ((rating - rating.min()) / (rating.max() - rating.min())).astype("float32")
names = [f"film {number:02d}" for number in range(FILMS)]


class RecommenderNet(keras.Model):
    def __init__(self, users, films, width, **kwargs):
        super().__init__(**kwargs)
        self.user_vectors = layers.Embedding(
            users,
            width,
            embeddings_initializer="he_normal",
            embeddings_regularizer=keras.regularizers.l2(1e-6),
        )
        self.user_bias = layers.Embedding(users, 1)
        self.film_vectors = layers.Embedding(films, width, embeddings_initializer="he_normal")
        self.film_bias = layers.Embedding(films, 1)

    def call(self, inputs):
        user, film = inputs[:, 0], inputs[:, 1]
        likes = ops.sum(self.user_vectors(user) * self.film_vectors(film), axis=1, keepdims=True)
        return ops.sigmoid(likes + self.user_bias(user) + self.film_bias(film))


model = RecommenderNet(USERS, FILMS, 6)
model.compile(
    loss=keras.losses.BinaryCrossentropy(), optimizer=keras.optimizers.Adam(learning_rate=0.01)
)
history = model.fit(
    x=pairs[:360],
    y=rating[:360],
    batch_size=32,
    epochs=5,
    shuffle=False,
    verbose=0,
    validation_data=(pairs[360:], rating[360:]),
)
print("loss", np.round(history.history["loss"], 4))
print("val_loss", np.round(history.history["val_loss"], 4))

user = 7
seen = {film for who, film in pairs if who == user}
unseen = [film for film in range(FILMS) if film not in seen]
candidates = np.array([[user, film] for film in unseen])
ratings = model.predict(candidates, verbose=0).flatten()
print("unseen", len(unseen), "ratings of the first", np.round(ratings[:3], 3))
print("recommended", [names[unseen[place]] for place in ratings.argsort()[-1:][::-1]])
model.save_weights("recommender.weights.h5")
other = RecommenderNet(USERS, FILMS, 6)
other(candidates)
other.load_weights("recommender.weights.h5")
print(
    "same ratings:",
    bool(np.allclose(other.predict(candidates, verbose=0).flatten(), ratings, atol=1e-6)),
)
