"""Lines that operations of graphs print (``tf.print``): where the script's own lines go.

They reach file descriptors without Python, and those of a rank lead to its log.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

from matex.records import console

__all__ = ["hear_prints"]

_LIBRARY = "libtensorflow_cc.*"


@ctypes.CFUNCTYPE(None, ctypes.c_char_p)
def _heard(text: bytes) -> None:
    console.write_printed(text.decode(errors="replace"))


def hear_prints(folder: str) -> None:
    """Hear what operations print, for the rest of the process, by TensorFlow's C API. Local.

    Of a TensorFlow without that function the lines stay in the log.

    Args:
        folder: folder of TensorFlow's libraries, which are loaded.
    """
    for path in Path(folder).glob(_LIBRARY):
        listen = getattr(ctypes.CDLL(str(path)), "TF_RegisterLogListener", None)
        if listen is not None:
            listen.restype = None
            listen(_heard)
            return
