"""Models and kernels are compiled once for all comparisons, and for the processes that they start."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def _compiled_once(compiled_once: None) -> None:
    """For all of them."""
