"""What the processor of this machine is, and computes natively, by what the kernel reports."""

from __future__ import annotations

import platform
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


def processor_name() -> str:
    """Return what the processor is called, or else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.machine()
