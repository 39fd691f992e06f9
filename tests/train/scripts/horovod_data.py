"""The line that the scripts of horovod.py fit, and how."""

import numpy as np

ROWS, BATCH, EPOCHS, RATE = 64, 16, 2, 0.1
generator = np.random.default_rng(5)
X = generator.normal(size=(ROWS, 3)).astype(np.float32)
Y = (X @ np.array([[1.0], [-2.0], [0.5]]) + 0.1 * generator.normal(size=(ROWS, 1))).astype("f4")
