"""The seal: text in the first 512 bytes of a file, from which every later byte can be checked.

HDF5 allows a file to begin with a user block. The seal is a few lines in it that `head` shows. They
give the length of the file and the digest of its index: the HDF5 metadata and the manifest, which
follow the block. The manifest holds the CRC of every array, and the arrays fill the rest of the
file. So one pass over the bytes checks all of them. The digest also covers the numbers in the
block, and there is exactly one valid text for these values.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace

from checkpoints.image import Buffer

SIZE = 512

_TEXT = """\
A snapshot of a training run: HDF5 from byte {start} on, for h5ls, h5dump and h5py.
file: {file_bytes} bytes
manifest: bytes {manifest_start} to {manifest_end}
digest: these numbers and bytes {start} to {manifest_end}, blake2b-256 {digest}
arrays: the bytes behind them, each array with its own crc32
"""

_PATTERN = re.compile(
    rb"[^\n]+\nfile: (\d{1,18}) bytes\nmanifest: bytes (\d{1,18}) to (\d{1,18})\n"
    rb"digest: these numbers and bytes \d+ to \d+, blake2b-256 ([0-9a-f]{64})\n"
)


@dataclass(frozen=True, kw_only=True)
class Seal:
    """Length of the file, start and end of the manifest (bytes), and digest of the index in hex."""

    file_bytes: int
    manifest_start: int
    manifest_end: int
    digest: str

    def block(self) -> bytes:
        """Block of 512 bytes: text, spaces, a final line feed."""
        text = _TEXT.format(
            start=SIZE,
            file_bytes=self.file_bytes,
            manifest_start=self.manifest_start,
            manifest_end=self.manifest_end,
            digest=self.digest,
        )
        return text.encode("ascii").ljust(SIZE - 1) + b"\n"

    def digest_of(self, *index: Buffer) -> str:
        """Digest of the numbers and of the bytes from 512 to `manifest_end`, in hex."""
        numbers = f"{self.file_bytes} {self.manifest_start} {self.manifest_end}\n"
        digest = hashlib.blake2b(numbers.encode("ascii"), digest_size=32)
        for piece in index:
            digest.update(piece)
        return digest.hexdigest()


def make_seal(metadata: Buffer, manifest: Buffer, *, array_bytes: int) -> Seal:
    """Seal of a file with this metadata and manifest and *array_bytes* bytes of arrays."""
    start = SIZE + len(metadata)
    end = start + len(manifest)
    draft = Seal(file_bytes=end + array_bytes, manifest_start=start, manifest_end=end, digest="")
    return replace(draft, digest=draft.digest_of(metadata, manifest))


def resembles(block: bytes) -> bool:
    """Whether the first bytes of a file come from a seal, possibly a damaged one."""
    return any(line.split(b"{")[0] in block for line in _TEXT.encode().splitlines())


def parse_seal(block: bytes) -> Seal | None:
    """Seal in the first 512 bytes of a file; None if a single bit of them is wrong."""
    match = _PATTERN.match(block)
    if match is None:
        return None
    seal = Seal(
        file_bytes=int(match[1]),
        manifest_start=int(match[2]),
        manifest_end=int(match[3]),
        digest=match[4].decode(),
    )
    return seal if seal.block() == block else None
