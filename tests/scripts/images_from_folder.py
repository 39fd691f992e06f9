"""PNG files in a folder a class, read by image_dataset_from_directory, with augmentation."""

import os

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(3)
rng = np.random.default_rng(3)


def picture(kind):
    image = rng.integers(0, 60, size=(16, 16, 3))
    if kind == "stripes":
        image[::4] += 180
    else:
        row, column = rng.integers(2, 8, size=2)
        image[row : row + 6, column : column + 6] += 180
    return image.astype("uint8")


for kind in ("blocks", "stripes"):
    os.makedirs(os.path.join("pictures", kind), exist_ok=True)
    for number in range(60):
        keras.utils.save_img(
            os.path.join("pictures", kind, f"{number:03d}.png"), picture(kind), scale=False
        )

options = {"validation_split": 0.25, "seed": 7, "image_size": (16, 16), "batch_size": 20}
train = keras.utils.image_dataset_from_directory("pictures", subset="training", **options)
held_out = keras.utils.image_dataset_from_directory("pictures", subset="validation", **options)
print("classes", train.class_names)

augmentation = [layers.RandomFlip("horizontal"), layers.RandomTranslation(0.1, 0.1)]


def augment(images, labels):
    for layer in augmentation:
        images = layer(images, training=True)
    return images, labels


train = train.cache().map(augment, num_parallel_calls=2).prefetch(tf.data.AUTOTUNE)
held_out = held_out.cache().prefetch(tf.data.AUTOTUNE)

model = keras.Sequential(
    [
        keras.Input((16, 16, 3)),
        layers.Rescaling(1 / 255),
        layers.Conv2D(8, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(16, 3, activation="relu"),
        layers.Flatten(),
        layers.Dropout(0.2),
        layers.Dense(2),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(3e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
history = model.fit(train, validation_data=held_out, epochs=5, verbose=0)
print("epochs", len(history.history["loss"]), "keys", sorted(history.history))
print("learned:", history.history["val_accuracy"][-1] > 0.9)

image = keras.utils.load_img(os.path.join("pictures", "stripes", "004.png"), target_size=(16, 16))
array = np.expand_dims(keras.utils.img_to_array(image), 0)
scores = keras.ops.softmax(model.predict(array, verbose=0)[0])
print("004.png is", ["blocks", "stripes"][int(np.argmax(scores))])
