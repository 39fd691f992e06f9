"""Border and inside pixels by a small U-Net with skip connections and BatchNormalization."""

import os

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(23)
rng = np.random.default_rng(23)

COUNT, SIZE = 96, 16
images = rng.random((COUNT, SIZE, SIZE, 3)).astype("float32") * 0.3
masks = np.zeros((COUNT, SIZE, SIZE, 1), "uint8")
for image, mask in zip(images, masks):
    top, left = rng.integers(1, 6, 2)
    bottom, right = np.array([top, left]) + rng.integers(6, 9, 2)
    mask[top:bottom, left:right] = 2
    mask[top + 1 : bottom - 1, left + 1 : right - 1] = 1
    image += 0.6 * (mask > 0)


class Pictures(keras.utils.PyDataset):
    def __init__(self, images, masks, batch_size, **kwargs):
        super().__init__(**kwargs)
        self.images, self.masks, self.batch_size = images, masks, batch_size

    def __len__(self):
        return -(-len(self.images) // self.batch_size)

    def __getitem__(self, index):
        part = slice(index * self.batch_size, (index + 1) * self.batch_size)
        return self.images[part], self.masks[part]


def block(x, filters):
    x = layers.SeparableConv2D(filters, 3, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return layers.Activation("relu")(x)


inputs = keras.Input((SIZE, SIZE, 3))
first = block(inputs, 12)
x = layers.MaxPooling2D()(first)
x = block(x, 16)
x = layers.UpSampling2D()(x)
x = layers.Concatenate()([x, first])
x = layers.Dropout(0.1)(block(x, 12))
model = keras.Model(inputs, layers.Conv2D(3, 1, activation="softmax")(x))
model.compile(
    optimizer=keras.optimizers.Adam(0.02),
    loss="sparse_categorical_crossentropy",
    metrics=[
        "accuracy",
        keras.metrics.MeanIoU(3, sparse_y_true=True, sparse_y_pred=False, name="iou"),
    ],
)
train, held_out = Pictures(images[:80], masks[:80], 16), Pictures(images[80:], masks[80:], 16)
history = model.fit(
    train,
    validation_data=held_out,
    epochs=8,
    verbose=0,
    callbacks=[
        keras.callbacks.ModelCheckpoint("segmentation.keras", save_best_only=True, monitor="loss")
    ],
)
print("keys", sorted(history.history))
print("accuracy of training above 0.8:", history.history["accuracy"][-1] > 0.8)
print("file", os.path.exists("segmentation.keras"))
predicted = model.predict(held_out, verbose=0)
print(
    "masks",
    predicted.argmax(-1).shape,
    "sums to one:",
    bool(np.allclose(predicted.sum(-1), 1, atol=1e-5)),
)
