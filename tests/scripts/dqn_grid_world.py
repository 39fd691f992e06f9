"""Deep Q-learning in a corridor: replay memory, target network, train_on_batch."""

from collections import deque

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(4)
rng = np.random.default_rng(4)
SIZE, ACTIONS, GAMMA = 6, 2, 0.9


def step(place, action):
    place = min(SIZE - 1, place + 1) if action == 1 else max(0, place - 1)
    done = place == SIZE - 1
    return place, 1.0 if done else -0.05, done


def one_hot(places):
    return np.eye(SIZE, dtype="float32")[np.asarray(places)]


def make_network():
    network = keras.Sequential(
        [keras.Input((SIZE,)), layers.Dense(16, activation="relu"), layers.Dense(ACTIONS)]
    )
    network.compile(optimizer=keras.optimizers.Adam(0.01), loss="huber")
    return network


network, target = make_network(), make_network()
target.set_weights(network.get_weights())
memory = deque(maxlen=400)
lengths, losses, epsilon = [], [], 1.0

for episode in range(12):
    place, done, length = 0, False, 0
    while not done and length < 30:
        if rng.random() < epsilon:
            action = int(rng.integers(ACTIONS))
        else:
            action = int(np.argmax(network(one_hot([place]), training=False)[0]))
        following, reward, done = step(place, action)
        memory.append((place, action, reward, following, done))
        place, length = following, length + 1
        if len(memory) >= 32 and length % 2 == 0:
            batch = [memory[i] for i in rng.integers(len(memory), size=32)]
            places, actions, rewards, followings, dones = map(np.array, zip(*batch))
            future = target.predict_on_batch(one_hot(followings)).max(axis=1)
            goals = network.predict_on_batch(one_hot(places))
            goals[np.arange(32), actions] = rewards + GAMMA * future * (1 - dones)
            losses.append(float(network.train_on_batch(one_hot(places), goals)))
    lengths.append(length)
    epsilon = max(0.1, epsilon * 0.8)
    if episode % 3 == 2:
        target.set_weights(network.get_weights())

print("updates", len(losses), "first loss", round(losses[0], 3))
print("episodes", len(lengths), "best", min(lengths))
policy = network.predict(one_hot(range(SIZE - 1)), verbose=0).argmax(axis=1)
print("policy", policy.tolist())
network.save("policy.keras")
again = keras.models.load_model("policy.keras")
print("same policy:", bool((again.predict(one_hot(range(5)), verbose=0).argmax(1) == policy).all()))
