"""The first 512 bytes of a file: text that leaves no later byte unaccounted for.

HDF5 lets a file begin with a block of the user's own. Ours is a few lines that anybody can read
with `head`. They give the length of the file and the digest of its index: the HDF5 metadata and
the manifest, which lie together behind the block. The manifest holds the CRC of every array,
and the arrays fill the rest. So one pass over the bytes checks all of them. The digest covers the
numbers in the block, too, and only one text is right for these values.
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
    """Bytes of the whole file, where the manifest lies, the digest in hex."""

    file_bytes: int
    manifest_start: int
    manifest_end: int
    digest: str

    def block(self) -> bytes:
        """The 512 bytes: text, spaces, a last line feed."""
        text = _TEXT.format(
            start=SIZE,
            file_bytes=self.file_bytes,
            manifest_start=self.manifest_start,
            manifest_end=self.manifest_end,
            digest=self.digest,
        )
        return text.encode("ascii").ljust(SIZE - 1) + b"\n"

    def digest_of(self, *index: Buffer) -> str:
        """Digest over the bytes from 512 to `manifest_end`, which `digest` must equal."""
        numbers = f"{self.file_bytes} {self.manifest_start} {self.manifest_end}\n"
        digest = hashlib.blake2b(numbers.encode("ascii"), digest_size=32)
        for piece in index:
            digest.update(piece)
        return digest.hexdigest()


def make_seal(metadata: Buffer, manifest: Buffer, *, array_bytes: int) -> Seal:
    """The seal of a file of these metadata, this manifest and so many bytes of arrays."""
    start = SIZE + len(metadata)
    end = start + len(manifest)
    draft = Seal(file_bytes=end + array_bytes, manifest_start=start, manifest_end=end, digest="")
    return replace(draft, digest=draft.digest_of(metadata, manifest))


def resembles(block: bytes) -> bool:
    """Whether the first bytes of a file are those of a seal, or of a damaged one."""
    return any(line.split(b"{")[0] in block for line in _TEXT.encode().splitlines())


def parse_seal(block: bytes) -> Seal | None:
    """The seal in the first 512 bytes of a file; None if a single bit of them is wrong."""
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
