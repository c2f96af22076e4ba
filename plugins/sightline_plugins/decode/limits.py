"""What is too much to be decoded, unless somebody allows more."""

from __future__ import annotations

DEFAULT_MAX_PIXELS = 8192 * 4320
"""Of one image: 8K."""
