"""Pictures of twice the size by depth_to_space; a callback that predicts and measures PSNR."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(19)
rng = np.random.default_rng(19)
FACTOR = 2

grid = np.stack(np.meshgrid(np.arange(16), np.arange(16)), -1) / 16
waves = rng.uniform(1, 5, (120, 2))
large = 0.5 + 0.5 * np.sin(2 * np.pi * np.einsum("hwc,nc->nhw", grid, waves))
large = large[..., None].astype("float32")
small = tf.image.resize(large, (8, 8), method="area").numpy()


class DepthToSpace(layers.Layer):
    def __init__(self, factor, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor

    def call(self, x):
        return tf.nn.depth_to_space(x, self.factor)

    def get_config(self):
        return {**super().get_config(), "factor": self.factor}


class PSNR(keras.callbacks.Callback):
    def __init__(self, small, large):
        super().__init__()
        self.small, self.large = small, large
        self.epoch_psnr = []

    def on_epoch_begin(self, epoch, logs=None):
        self.psnr = []

    def on_epoch_end(self, epoch, logs=None):
        print(f"mean PSNR of epoch {epoch}: {np.mean(self.psnr):.2f}")
        self.epoch_psnr.append(float(np.mean(self.psnr)))

    def on_test_batch_end(self, batch, logs=None):
        self.psnr.append(10 * np.log10(1 / logs["loss"]))


inputs = keras.Input((None, None, 1))
x = layers.Conv2D(12, 5, padding="same", activation="relu")(inputs)
x = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
outputs = DepthToSpace(FACTOR)(layers.Conv2D(FACTOR**2, 3, padding="same")(x))
model = keras.Model(inputs, outputs)
model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mean_squared_error")

train = tf.data.Dataset.from_tensor_slices((small[:96], large[:96])).batch(8).cache()
held_out = tf.data.Dataset.from_tensor_slices((small[96:], large[96:])).batch(8).cache()
watch = PSNR(small[96:], large[96:])
stop = keras.callbacks.EarlyStopping(monitor="loss", patience=3)
keep = keras.callbacks.ModelCheckpoint(
    "upscaler.weights.h5", save_weights_only=True, monitor="loss", mode="min", save_best_only=True
)
model.fit(train, epochs=4, validation_data=held_out, callbacks=[watch, stop, keep], verbose=0)
print("collected", np.round(watch.epoch_psnr, 2))

model.load_weights("upscaler.weights.h5")
upscaled = model.predict(small[96:100], verbose=0)
plain = tf.image.resize(small[96:100], (16, 16), method="bicubic").numpy()
print("upscaled", upscaled.shape, "error", np.round(np.mean((upscaled - large[96:100]) ** 2), 3))
print("bicubic error", np.round(np.mean((plain - large[96:100]) ** 2), 3))
