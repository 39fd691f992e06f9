"""A pole of one's own writing balanced by actor and critic: a GradientTape loop, one episode a step."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(103)
GAMMA, LONGEST = 0.95, 25
eps = np.finfo(np.float32).eps.item()


class Pole:
    """A needle that falls over unless it is pushed to the right side."""

    def reset(self):
        self.angle, self.speed = np.random.uniform(-0.05, 0.05, 2)
        return self.state()

    def state(self):
        return np.array([self.angle, self.speed], "float32")

    def step(self, action):
        self.speed += 0.25 * self.angle + (0.05 if action else -0.05)
        self.angle += 0.4 * self.speed
        done = abs(self.angle) > 0.6
        return self.state(), 0.0 if done else 1.0, done


inputs = keras.Input((2,))
common = layers.Dense(16, activation="tanh")(inputs)
model = keras.Model(
    inputs, [layers.Dense(2, activation="softmax")(common), layers.Dense(1)(common)]
)
optimizer = keras.optimizers.Adam(learning_rate=0.01)
huber = keras.losses.Huber()

pole, running_reward, rewards_of_episodes = Pole(), 0.0, []
for episode in range(8):
    state, rewards, probabilities, values = pole.reset(), [], [], []
    with tf.GradientTape() as tape:
        for _ in range(LONGEST):
            action_probs, critic_value = model(state[None])
            values.append(critic_value[0, 0])
            p = np.squeeze(np.asarray(action_probs, "float64"))
            action = np.random.choice(2, p=p / p.sum())
            probabilities.append(keras.ops.log(action_probs[0, action]))
            state, reward, done = pole.step(action)
            rewards.append(reward)
            if done:
                break
        running_reward = 0.1 * sum(rewards) + 0.9 * running_reward
        returns, discounted = [], 0.0
        for reward in rewards[::-1]:
            discounted = reward + GAMMA * discounted
            returns.insert(0, discounted)
        returns = (np.array(returns) - np.mean(returns)) / (np.std(returns) + eps)
        actor = [
            -log_prob * (ret - float(value))
            for log_prob, value, ret in zip(probabilities, values, returns)
        ]
        critic = [
            huber(keras.ops.expand_dims(value, 0), keras.ops.expand_dims(np.float32(ret), 0))
            for value, ret in zip(values, returns)
        ]
        loss_value = sum(actor) + sum(critic)
    grads = tape.gradient(loss_value, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    rewards_of_episodes.append(int(sum(rewards)))
    if episode % 4 == 3:
        print(
            f"running reward: {running_reward:.2f} at episode {episode + 1}, loss {float(loss_value):.1f}"
        )

print("rewards", rewards_of_episodes, "steps", int(optimizer.iterations))
model.save("actor_critic.keras")
