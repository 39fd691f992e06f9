"""Where the samples come from: rows by index, read only where they are needed."""

from matex.data.arrays import Table, as_table
from matex.data.batches import Batches

__all__ = ["Batches", "Table", "as_table"]
