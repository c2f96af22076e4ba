"""Free memory goes back to the system while a pipeline runs."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest

from sightline.runtime import memory
from sightline.runtime.watchdog import Watchdog
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="glibc only")
BLOCK = 60_000
"""Smaller than what glibc maps by itself."""


def resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def fragmented() -> list[ctypes.c_void_p]:
    """Allocate 100 MB in blocks of one size, and free nine of ten; return those that are still in use."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    blocks = [ctypes.c_void_p(libc.malloc(BLOCK)) for _ in range(100_000_000 // BLOCK)]
    for block in blocks:
        ctypes.memset(block, 1, BLOCK)
    for number, block in enumerate(blocks):
        if number % 10 != 9:
            libc.free(block)
    return blocks[9::10]


def test_pages_between_blocks_that_are_used_are_given_back() -> None:
    used = fragmented()
    before = resident_mib()

    memory.give_back()

    assert before - resident_mib() > 50
    for block in used:
        ctypes.CDLL(None).free(block)


def test_a_run_does_it_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[None] = []
    monkeypatch.setattr("sightline.runtime.watchdog._CHECK_SECONDS", 0.001)
    monkeypatch.setattr("sightline.runtime.memory.EVERY_SECONDS", 0.0)
    monkeypatch.setattr("sightline.runtime.memory.give_back", lambda: calls.append(None))
    watchdog = Watchdog(tuple, post=lambda message: None)
    watchdog.start()

    wait_until(lambda: len(calls) > 2)

    watchdog.stop()
