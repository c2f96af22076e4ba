"""Wait for a condition, with a limit that a slow and busy machine keeps."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable

import pytest

LIMIT_SECONDS = 300


def wait_until(condition: Callable[[], object]) -> None:
    """Return when the condition is true; fail when it is not after five minutes."""
    end = time.monotonic() + LIMIT_SECONDS
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"it did not come to that: {asked(condition)}")
        time.sleep(0.01)


def asked(condition: Callable[[], object]) -> str:
    """Return what a condition asks and about what, for the message of a wait that fails."""
    try:
        source, variables = inspect.getsource(condition).strip(), inspect.getclosurevars(condition).nonlocals
    except (OSError, TypeError):  # not a function of a file
        return repr(condition)
    return f"{source}, with {variables}"
