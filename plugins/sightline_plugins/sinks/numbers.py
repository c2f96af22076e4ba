"""Numbers as they are written: free of the noise of 32-bit floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Values = list[Any]

BOX_STEPS = 100.0
"""Boxes and points are written to a hundredth of a pixel."""
CONFIDENCE_STEPS = 1000.0
"""Confidences are written to a thousandth."""
EMBEDDING_STEPS = 1e6
"""Embeddings are written to a millionth."""


def rounded(values: npt.NDArray[np.floating[Any]], *, steps: float) -> Values:
    """Each value as the double next to a whole number of steps (100: two decimals), in nested lists of its shape."""
    scaled = np.multiply(values, steps, dtype=np.float64)
    np.rint(scaled, out=scaled)
    scaled /= steps
    scaled += 0.0  # no negative zero
    return scaled.tolist()  # type: ignore[no-any-return]
