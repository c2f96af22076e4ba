"""What the processor of this machine computes natively, by the flags that the kernel reports."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

NATIVE: Mapping[str, frozenset[str]] = {
    "bf16": frozenset({"avx512_bf16", "amx_bf16", "bf16"}),
    "int8": frozenset({"avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm"}),
}
"""CPU flags by precision: of instructions that multiply bfloat16, and that add products of bytes without overflow."""


@lru_cache(maxsize=1)
def processor_flags() -> frozenset[str]:
    """Return the instruction sets of this processor; empty where they are unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(flag for line in lines if line.startswith(("flags", "Features")) for flag in line.split())
