"""Iterate two pipelines in one event loop.

python examples/async_frames.py
"""

from __future__ import annotations

import asyncio

from sightline import Pipeline


async def watch(name: str, *, frames: int) -> int:
    """Count the frames of a pipeline; the event loop stays free while it waits."""
    seen = 0
    async for frame in Pipeline(sources={name: {"pattern": "moving", "frames": frames}}):
        seen += 1
        assert frame.stream.name == name
    return seen


async def main() -> None:
    """Run both pipelines at once."""
    left, right = await asyncio.gather(watch("left", frames=40), watch("right", frames=60))
    print(f"left {left} frames, right {right} frames")


if __name__ == "__main__":
    asyncio.run(main())
