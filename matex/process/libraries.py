"""TensorFlow and Keras in the process of a rank: import, devices and seeds. Local."""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple

from matex.config import Config, visible_gpus
from matex.errors import InputError
from matex.process import devices, library_import
from matex.process.graph_prints import hear_prints
from matex.process.mpi_start import MpiStart

__all__ = [
    "DevicePlacement",
    "error_of_graphs",
    "import_libraries",
    "place_libraries",
    "seed_libraries",
]

_INSTALL = (
    "TensorFlow with Keras 3 was not found: install it with pip install 'matex[cpu]' "
    "or 'matex[gpu]'. Received: {error}"
)
_SEED_OF_TENSORFLOW = 87654321  # DEFAULT_GRAPH_SEED of tensorflow/python/framework/random_seed.py


class DevicePlacement(NamedTuple):
    """Devices of this rank, and the number of cores of its host."""

    cores: devices.Cores
    gpu: devices.Gpu
    host_cores: int


def place_libraries(config: Config, started: MpiStart) -> DevicePlacement:
    """Import TensorFlow on the cores and the GPU of this rank, and seed it; collective.

    Raises:
        InputError: TensorFlow is missing, or already uses a GPU.
    """
    communicator, joining = started.communicator, started.joining
    rank = communicator.world.rank
    host = devices.neighbours(communicator, visible_gpus())
    threads = config.threads or int(config.deterministic)  # kernels must add up alike everywhere
    if joining is None:
        working = communicator.initial_size - config.spares
        cores = devices.choose_cores(host, rank, threads=threads, working=working)
    else:
        cores = devices.Cores(joining.welcome.threads)
    overlaps = started.host_count > 1 and not config.deterministic
    devices.take_cores(cores, asked_for=threads > 0, operations=1 + overlaps)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        with library_import.quick():
            import tensorflow
    except ModuleNotFoundError as error:
        raise InputError(_INSTALL.format(error=error)) from None
    hear_prints(tensorflow.sysconfig.get_lib())
    gpus = tensorflow.config.list_physical_devices("GPU")
    gpu = devices.choose_gpu(len(gpus), host, rank)
    devices.take_gpu(gpu, tensorflow.config)
    seed_libraries(config.seed)
    if config.deterministic:
        # Maps of tf.data that draw, or run side by side, would do so in any order.
        tensorflow.config.experimental.enable_op_determinism()
    return DevicePlacement(cores, gpu, len(devices.cores_of(host, rank)))


def import_libraries() -> None:
    """Import TensorFlow in advance, and other modules that a rank needs.

    If there is none, the start of the rank reports it.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with contextlib.suppress(ModuleNotFoundError), library_import.quick():
        from matex.process import keras_adapter  # noqa: F401


def seed_libraries(seed: int) -> None:
    """Seed Keras, TensorFlow, NumPy and Python equally on every process of a run.

    Args:
        seed: seed of the run.
    """
    import keras
    import tensorflow

    keras.utils.set_random_seed(seed)
    if seed == 0:
        # Seed that operations with their own seed use if a script set no global seed.
        tensorflow.random.set_seed(_SEED_OF_TENSORFLOW)


def error_of_graphs() -> type[Exception]:
    """The class of errors out of operations of a graph."""
    import tensorflow

    error: type[Exception] = tensorflow.errors.OpError
    return error
