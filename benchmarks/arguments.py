"""Arguments of commands that several benchmarks take."""

from __future__ import annotations


def numbers(text: str) -> tuple[int, ...]:
    """Numbers, from `1,4,16`."""
    return tuple(int(one) for one in text.split(","))


def size_wh(text: str) -> tuple[int, int]:
    """Width and height, from `1920x1080`."""
    width, _, height = text.partition("x")
    return int(width), int(height)
