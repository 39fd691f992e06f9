"""Sources of samples: rows by index, read only when needed.

::

    from matex import data

    higgs = data.open("higgs.h5")
    model.fit(higgs.x_train, higgs.y_train)
"""

from __future__ import annotations

from typing import Any

from matex.data.arrays import Table, as_table
from matex.data.encoded_images import EncodedImages
from matex.data.opening import open
from matex.data.rows import Rows
from matex.data.source import Data

__all__ = ["Batches", "Data", "EncodedImages", "Rows", "Table", "as_dataset", "as_table", "open"]


def __getattr__(name: str) -> Any:
    # They bring TensorFlow, which takes seconds and most readers do not need.
    if name == "Batches":
        from matex.data.batches import Batches

        return Batches
    if name == "as_dataset":
        from matex.data.streaming import as_dataset

        return as_dataset
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
