"""Convolutional networks that shrink: a plain CNN, a small ResNet, or ResNet50.

    python 07_apoptosis_images.py --data mnist.h5 --model cnn
    python 07_apoptosis_images.py --data cifar10_jpeg.h5 --model resnet
    matex run -n 8 07_apoptosis_images.py --data imagenet --side 224 --model resnet50

--data is digits as 02_mnist_cnn.py takes them, or pictures by class as 05_images_from_folders.py
does; the latter are decoded into memory. Without --data it draws shapes.
"""

from course import apoptosis, options, pictures

parser = apoptosis.parser(
    "Train a network on images with apoptosis.",
    data="digits, or pictures by class",
    epochs=12,
    batch_size=128,
    learning_rate=1e-3,
)
parser.add_argument("--model", choices=("cnn", "resnet", "resnet50"), default="resnet")
parser.add_argument("--side", type=options.count, default=32, help="of a picture, in pixels")
parser.add_argument("--images", type=options.count, help="take so many only")
args, data = parser.parse(pictures.load_pixels)
if args.model != "cnn":
    # Each removal costs a residual network more at once, and training gets it back: so more
    # at a time, and at every epoch's end.
    args.every = args.every or 1
    args.delta = args.delta or 0.02
if args.model == "resnet":
    args.ratio = args.ratio or 0.52  # it is small, and needs nearly half of what it is

import keras  # slow and talkative: by now bad input has had its one line
from course import networks

keras.utils.set_random_seed(args.seed)
make = {"cnn": networks.cnn, "resnet": networks.resnet, "resnet50": networks.resnet50}[args.model]
model = make(data.x_train.shape[1:], int(data.y_train.max()) + 1)
steps = args.epochs * -(-len(data.x_train) // args.batch_size)
rate = keras.optimizers.schedules.CosineDecay(args.learning_rate, steps)
model.compile(keras.optimizers.Adam(rate), "sparse_categorical_crossentropy", metrics=["accuracy"])
apoptosis.fit(model, args, data, metric="accuracy")
