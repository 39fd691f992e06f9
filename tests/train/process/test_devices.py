"""TensorFlow's own ``tf.config`` does what matex asks, on GPUs that it only believes to have."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.train.runs import execute

SCRIPT = """
import tensorflow as tf
from tensorflow.python.eager import context
from matex.process.devices import Gpu, take_gpu
from matex.errors import InputError

known = context.context()
known._initialize_physical_devices()
gpus = [context.PhysicalDevice(f"/physical_device:GPU:{i}", "GPU") for i in range(3)]
known._physical_devices += gpus
known._visible_device_list += gpus

take_gpu(Gpu(1), tf.config)
print([gpu.name[-1] for gpu in tf.config.get_visible_devices("GPU")])
print(tf.config.experimental.get_memory_growth(gpus[1]))
tf.constant(1.0) + 1.0  # from now on devices are as they are
try:
    take_gpu(Gpu(2), tf.config)
except InputError as error:
    print(error)
"""


def test_one_gpu_is_seen_and_grows_and_later_it_is_too_late(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = execute([sys.executable, script], directory=tmp_path)
    assert done.returncode == 0, done.stderr
    seen, growth, refused = done.stdout.splitlines()
    assert seen == "['1']"
    assert growth == "True"
    assert "call matex.init() first" in refused
    assert "cannot be modified after being initialized" in refused
