"""Instruction set of a processor, on which TensorFlow's order of summation depends.

oneDNN chooses its kernels by it, so the bits of ``--deterministic`` are one set for each class.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

__all__ = ["LIMIT", "class_of", "instruction_set"]

#: Classes, the widest first, the flags of the kernel that each wants, and oneDNN's word for it.
CLASSES = (
    ("amx", frozenset(("amx_tile", "amx_int8")), "AVX512_CORE_AMX"),
    ("avx512", frozenset(("avx512f", "avx512bw", "avx512dq", "avx512vl")), "AVX512_CORE"),
    ("avx2", frozenset(("avx2", "fma")), "AVX2"),
    ("avx", frozenset(("avx",)), "AVX"),
    ("sse4.1", frozenset(("sse4_1",)), "SSE41"),
    ("sve", frozenset(("sve",)), ""),
    ("neon", frozenset(("asimd",)), ""),
)

#: Variable of the environment with the widest instruction set that oneDNN may use.
LIMIT = "ONEDNN_MAX_CPU_ISA"


def class_of(flags: str, *, machine: str, limit: str = "") -> str:
    """The name of the class of a processor; pure.

    Args:
        flags: flags of the processor, as in ``/proc/cpuinfo``.
        machine: name of its architecture, used if no class is known.
        limit: widest instruction set that oneDNN may use, in oneDNN's spelling; "" for any.
    """
    words = set(flags.split())
    names = [word for _, _, word in CLASSES]
    first = names.index(limit.upper()) if limit and limit.upper() in names else 0
    return next((name for name, wanted, _ in CLASSES[first:] if wanted <= words), machine)


def instruction_set(environment: Mapping[str, str] = os.environ) -> str:
    """The name of the class of this machine's processor. Local."""
    flags = ""
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else ():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            flags = value
            break
    return class_of(flags, machine=platform.machine(), limit=environment.get(LIMIT, ""))
