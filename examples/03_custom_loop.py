"""A loop of one's own: a variational autoencoder of digits (Kingma, Welling, arXiv:1312.6114).

    python 03_custom_loop.py --data mnist.h5

Its step is a function of tf.function, so many ranks share the rows of each batch, and the losses
are those of one. Without --data it draws digits from a font.
"""

from course import digits, options

words = "Train a variational autoencoder on images of digits, in a loop of one's own."
data = "as 02_mnist_cnn.py takes it"
parser = options.Parser(words, data=data, epochs=3, batch_size=128, learning_rate=1e-3)
parser.add_argument("--images", type=options.count, default=6000, help="images without --data")
parser.add_argument("--latent", type=options.count, default=8, help="numbers of an image")
args, images = parser.parse(digits.load_vectors)

import keras  # slow and talkative: by now bad input has had its one line
import tensorflow as tf

keras.utils.set_random_seed(args.seed)
dense, pixels = keras.layers.Dense, images.shape[1]
encoder = keras.Sequential([keras.Input((pixels,)), dense(256, "relu"), dense(2 * args.latent)])
decoder = keras.Sequential([keras.Input((args.latent,)), dense(256, "relu"), dense(pixels)])
weights = encoder.trainable_variables + decoder.trainable_variables
optimizer = keras.optimizers.Adam(args.learning_rate)


@tf.function
def step(batch, number):
    """One update on *batch*; its loss, the negative evidence bound in nats an image."""
    with tf.GradientTape() as tape:
        mean, log_variance = tf.split(encoder(batch), 2, axis=1)
        noise = tf.random.stateless_normal(tf.shape(mean), (args.seed, number))
        logits = decoder(mean + tf.exp(log_variance / 2) * noise)
        misfit = tf.nn.sigmoid_cross_entropy_with_logits(labels=batch, logits=logits)
        divergence = (mean**2 + tf.exp(log_variance) - log_variance - 1) / 2
        loss = tf.reduce_mean(tf.reduce_sum(misfit, 1) + tf.reduce_sum(divergence, 1))
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
    return loss


rows = tf.data.Dataset.from_tensor_slices(images).shuffle(len(images), seed=args.seed)
rows = rows.batch(args.batch_size, drop_remainder=len(images) >= args.batch_size)
losses = []
for epoch in range(args.epochs):
    numbered = rows.enumerate(epoch * len(rows))
    losses.append(sum(float(step(batch, number)) for number, batch in numbered) / len(rows))
    print(f"epoch {epoch + 1}/{args.epochs}: loss {losses[-1]:.3f}", flush=True)
options.show_losses(losses)
