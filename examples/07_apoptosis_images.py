"""Networks for images that shrink: a plain CNN, a small ResNet, ResNet50, or a ViT.

    python 07_apoptosis_images.py --data mnist.h5 --model cnn
    python 07_apoptosis_images.py --data cifar10_jpeg.h5 --model resnet
    matex run -n 8 07_apoptosis_images.py --data imagenet --side 224 --model resnet50

--data is digits as 02_mnist_cnn.py takes them, or pictures by class: folders, tar shards, HDF5 of
JPEGs. A picture is read, decoded and augmented by the rank that trains on it, when its turn comes;
apoptosis reads its sample so, too: memory stays as it is. Without --data it draws shapes.
"""

from course import apoptosis, options, pictures

words, data = "Train a network on images with apoptosis.", "digits, or pictures by class"
parser = apoptosis.parser(words, data=data, epochs=12, batch_size=128, learning_rate=1e-3)
parser.add_argument("--model", choices=("cnn", "resnet", "resnet50", "vit"), default="resnet")
parser.add_argument("--side", type=options.count, default=32, help="pixels of a picture's side")
parser.add_argument("--images", type=options.count, help="pictures to take")
args, rows = parser.parse(pictures.open_rows)
if args.model != "cnn":
    # Each removal costs a residual network more at once, and training gets it back: so more
    # at a time, and at every epoch's end.
    args.every = args.every or 1
    args.delta = args.delta or 0.02
if args.model == "resnet":
    args.ratio = args.ratio or 0.52  # it is small, and needs nearly half of what it is

import keras  # slow and talkative: by now bad input has had its one line
from course import networks

from matex import data

random = {"crop": 0.6, "flip": True} if rows.are_photographs else {}
size = args.batch_size
train = data.as_dataset(rows.x_train, rows.y_train, batch_size=size, shuffle=args.seed, **random)
test = data.as_dataset(rows.x_test, rows.y_test, batch_size=size)

keras.utils.set_random_seed(args.seed)
model = getattr(networks, args.model)(rows.x_train.shape[1:], int(rows.y_train.max()) + 1)
rate = keras.optimizers.schedules.CosineDecay(args.learning_rate, args.epochs * len(train))
model.compile(keras.optimizers.Adam(rate), "sparse_categorical_crossentropy", metrics=["accuracy"])
apoptosis.fit(model, args, rows, metric="accuracy", stream=(train, test))
