"""Wait for a condition, with a limit that a slow and busy machine keeps."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")
LIMIT_SECONDS = 300
_REST = 4
"""Asking takes a fifth of the time at most: some conditions read a file, ask a server or start a program."""


def wait_until(condition: Callable[[], object]) -> None:
    """Return when the condition is true; fail when it is not after five minutes."""
    end = time.monotonic() + LIMIT_SECONDS
    while not holds(condition):
        if time.monotonic() > end:
            pytest.fail(f"it did not come to that: {asked(condition)}")


def holds(condition: Callable[[], T]) -> T:
    """Ask, and rest when it is not so: 10 ms, and longer after a condition that takes long to ask."""
    begun = time.monotonic()
    if not (answer := condition()):
        time.sleep(min(max(0.01, _REST * (time.monotonic() - begun)), 1.0))
    return answer


def asked(condition: Callable[[], object]) -> str:
    """Return what a condition asks and about what, for the message of a wait that fails."""
    try:
        source, variables = inspect.getsource(condition).strip(), inspect.getclosurevars(condition).nonlocals
    except (OSError, TypeError):  # not a function of a file
        return repr(condition)
    return f"{source}, with {variables}"
