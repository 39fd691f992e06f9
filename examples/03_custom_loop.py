"""A loop of one's own: a variational autoencoder of digits (Kingma, Welling, arXiv:1312.6114).

    python 03_custom_loop.py --data mnist.h5

takes what 02_mnist_cnn.py takes, and without --data draws digits from a font. The step is a
tf.function around tf.GradientTape. Such a step may do anything with its batch, so on many ranks
each computes the whole of it: the result is exact and survives deaths, but nothing is faster.
"""

import argparse
from typing import Any

import digits
import numpy as np
import options


def arguments(parser: options.Parser) -> argparse.Namespace:
    parser.add_argument("--images", type=options.count, default=6000, help="to draw without --data")
    parser.add_argument("--latent", type=options.count, default=8, help="numbers to an image")
    return parser.parse_args()


def load(args: argparse.Namespace) -> np.ndarray:
    """Images (n, 784) float32 in 0..1."""
    if args.data is not None:
        print(f"Reading {args.data} ...", flush=True)
        pixels = digits.read(args.data).x_train[:]
    else:
        print(f"No --data: drawing {args.images:,} digits from a font ...", flush=True)
        pixels = digits.draw(args.images, seed=args.seed).x_train
    return np.reshape(pixels, (len(pixels), -1)).astype(np.float32) / 255


def networks(latent: int) -> tuple[Any, Any]:
    """Image -> (mean, log variance) of its code, and code -> logits of the image."""
    import keras

    pixels, dense = digits.SIDE**2, keras.layers.Dense
    encoder = [keras.Input((pixels,)), dense(256, activation="relu"), dense(2 * latent)]
    decoder = [keras.Input((latent,)), dense(256, activation="relu"), dense(pixels)]
    return keras.Sequential(encoder), keras.Sequential(decoder)


def train(args: argparse.Namespace, images: np.ndarray) -> None:
    import keras  # slow and talkative: not before bad input has had its one line
    import tensorflow as tf

    keras.utils.set_random_seed(args.seed)
    encoder, decoder = networks(args.latent)
    optimizer = keras.optimizers.Adam(args.learning_rate)
    weights = encoder.trainable_variables + decoder.trainable_variables

    @tf.function
    def step(batch: Any, number: Any) -> Any:
        """One update on *batch*; its loss, the negative evidence bound in nats an image."""
        with tf.GradientTape() as tape:
            mean, log_variance = tf.split(encoder(batch), 2, axis=1)
            noise = tf.random.stateless_normal(tf.shape(mean), (args.seed, number))
            logits = decoder(mean + tf.exp(log_variance / 2) * noise)
            misfit = tf.nn.sigmoid_cross_entropy_with_logits(labels=batch, logits=logits)
            divergence = (mean**2 + tf.exp(log_variance) - log_variance - 1) / 2
            loss = tf.reduce_mean(tf.reduce_sum(misfit, 1) + tf.reduce_sum(divergence, 1))
        gradients = tape.gradient(loss, weights)
        optimizer.apply_gradients(zip(gradients, weights, strict=True))
        return loss

    data = tf.data.Dataset.from_tensor_slices(images).shuffle(len(images), seed=args.seed)
    data = data.batch(args.batch_size, drop_remainder=len(images) >= args.batch_size)
    number, losses = 0, []
    for epoch in range(args.epochs):
        of_steps = []
        for batch in data:
            of_steps.append(float(step(batch, tf.constant(number))))
            number += 1
        losses.append(float(np.mean(of_steps)))
        print(f"epoch {epoch + 1}/{args.epochs}: loss {losses[-1]:.3f}", flush=True)
    options.show_losses(losses)


def main() -> None:
    parser = options.course_parser(
        "Train a variational autoencoder on images of digits, in a loop of one's own.",
        data="mnist.h5, or the folder of MNIST's idx files",
        epochs=3,
        batch_size=128,
        learning_rate=1e-3,
    )
    args = arguments(parser)
    try:
        images = load(args)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    print(f"{len(images):,} images", flush=True)
    train(args, images)


if __name__ == "__main__":
    main()
