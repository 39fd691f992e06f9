"""The class of a processor, by the flags that the kernel lists."""

from __future__ import annotations

import pytest

from matex.config.instruction_set import class_of, instruction_set

AVX2 = "fpu sse sse2 sse4_1 avx avx2 fma"
AVX512 = f"{AVX2} avx512f avx512bw avx512dq avx512vl"


@pytest.mark.parametrize(
    ("flags", "limit", "name"),
    [
        (AVX2, "", "avx2"),
        (AVX512, "", "avx512"),
        (f"{AVX512} amx_tile amx_int8", "", "amx"),
        (AVX512, "AVX2", "avx2"),
        (AVX512, "avx", "avx"),
        (AVX2, "AVX512_CORE", "avx2"),
        (AVX2, "DEFAULT", "avx2"),
        ("fp asimd sve", "", "sve"),
        ("fp asimd", "", "neon"),
        ("", "", "riscv64"),
    ],
)
def test_the_widest_set_that_may_be_used_names_the_class(flags: str, limit: str, name: str) -> None:
    assert class_of(flags, machine="riscv64", limit=limit) == name


def test_this_machine_has_a_class_and_the_environment_limits_it() -> None:
    assert instruction_set({}) != ""
    if instruction_set({}) in ("amx", "avx512"):
        assert instruction_set({"ONEDNN_MAX_CPU_ISA": "AVX2"}) == "avx2"
