"""A file in memory that holds the HDF5 metadata, and discards the arrays written to it.

The HDF5 library works on this object and never on a disk. So its locks do not matter on network
file systems; a full disk, after which it cannot close a file (h5py issues 914 and 1120), affects
plain writes alone; and the arrays go from memory to the disk without a copy.
"""

from __future__ import annotations

import io
import os

Buffer = bytes | bytearray | memoryview


class MetadataImage(io.RawIOBase):
    """File-like object for h5py that holds the bytes below `limit` and drops the others.

    Attributes:
        data: bytes held, from offset 0; bytes behind them read as zeros.
        limit: offset from which writes are only recorded in `dropped`; None to hold all bytes.
        dropped: pairs (first, end) of the writes that were not held.
        end: length of the simulated file.
    """

    def __init__(self) -> None:
        super().__init__()
        self.data = bytearray()
        self.limit: int | None = None
        self.dropped: list[tuple[int, int]] = []
        self.end = 0
        self._place = 0

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self.end}[whence]
        self._place = start + offset
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: Buffer) -> int:  # type: ignore[override]
        target = memoryview(buffer).cast("B")
        found = self.data[self._place : self._place + len(target)]
        target[: len(found)] = found
        target[len(found) :] = bytes(len(target) - len(found))
        self._place += len(target)
        return len(target)

    def write(self, buffer: Buffer) -> int:  # type: ignore[override]
        source = memoryview(buffer).cast("B")
        first, end = self._place, self._place + len(source)
        if self.limit is not None and end > self.limit:
            self.dropped.append((max(first, self.limit), end))
            source = source[: max(self.limit - first, 0)]
        if len(source):
            self.data.extend(bytes(max(first - len(self.data), 0)))
            self.data[first : first + len(source)] = source
        self._place = end
        self.end = max(self.end, end)
        return end - first

    def truncate(self, size: int | None = None) -> int:
        self.end = self._place if size is None else size
        del self.data[self.end :]
        return self.end

    def flush(self) -> None:
        """Do nothing: there is no buffer."""
