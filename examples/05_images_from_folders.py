"""A plain Keras script: images from folders, one a class, through tf.data with augmentation.

    python 05_images_from_folders.py --data imagenet

takes a folder with train/CLASS/*.JPEG and val/CLASS/*.JPEG, or CLASS/*.png alone, or an HDF5 file
of JPEG files. The random numbers come with each image, so that many ranks decode and augment only
their own share. Without --data it draws shapes.
"""

from course import options, pictures

words, data = "Train on images, with augmentation in tf.data.", "folders by class, or HDF5 of JPEGs"
parser = options.Parser(words, data=data, epochs=5, batch_size=64, learning_rate=0.05)
parser.add_argument("--images", type=options.count, default=2000, help="images without --data")
parser.add_argument("--size", type=options.count, default=32, help="pixels of a side")
parser.add_argument("--width", type=options.multiple_of_8, default=32, help="first channels")
args, data = parser.parse(pictures.load)

import keras  # slow and talkative: by now bad input has had its one line
import tensorflow as tf
from course import networks


def decode(image, label, seed, margin=0):
    pixels = pictures.decode(image, data.in_files, args.size + margin) / 255
    return pixels, label, seed


def augment(image, label, seed):
    pixels, label, seed = decode(image, label, seed, margin=args.size // 8)
    pixels = tf.image.stateless_random_crop(pixels, (args.size, args.size, 3), seed)
    pixels = tf.image.stateless_random_flip_left_right(pixels, seed + 1)
    return tf.image.stateless_random_brightness(pixels, 0.1, seed + 2), label


train, test = (tf.data.Dataset.from_tensor_slices(tuple(part)) for part in (data.train, data.test))
train = train.shuffle(len(data.train.labels), seed=args.seed)
seeds = tf.data.Dataset.random(args.seed, rerandomize_each_iteration=True).batch(2)
train = tf.data.Dataset.zip(train, seeds).map(lambda row, seed: (*row, seed))
train = train.map(augment, tf.data.AUTOTUNE)
test = test.map(lambda image, label: decode(image, label, None)[:2], tf.data.AUTOTUNE)
train, test = (rows.batch(args.batch_size).prefetch(2) for rows in (train, test))

keras.utils.set_random_seed(args.seed)
model = networks.normalised_cnn(args.size, args.width, len(data.classes))
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.SGD(args.learning_rate, momentum=0.9)
model.compile(optimizer, loss, metrics=["accuracy"])
history = model.fit(train, validation_data=test, epochs=args.epochs, verbose=2)
options.show_losses(history.history["loss"])
