"""A pipeline that reports events at a steady rate, and is served until standard input ends.

    python -m benchmarks.server.pipeline PER_SECOND TOKEN

It prints the port.
"""

from __future__ import annotations

import sys
import tempfile

from sightline import Batch, Pipeline
from sightline.media import Event
from sightline.server import listen


def report(batch: Batch) -> Batch:
    """Report an event on every frame, as `lines` does."""
    data: dict[str, str | int] = {"direction": "in", "track_id": 5}
    return batch.with_events([Event("line", "gate_in", row, data, "lines-1") for row in range(len(batch))])


def main() -> None:
    """See the module."""
    per_second, token = float(sys.argv[1]), sys.argv[2]
    source = {"pattern": "moving", "size": [64, 48], "frames": None, "fps": per_second, "realtime": True}
    with tempfile.TemporaryDirectory() as folder:
        steps = [{"apply": {"function": "benchmarks.server.pipeline:report"}}]
        pipeline = Pipeline(sources={"gate": source}, steps=steps, outputs=folder)
        with listen(pipeline, "127.0.0.1:0", token=token) as listener, pipeline:
            print(listener.port, flush=True)
            sys.stdin.read()


if __name__ == "__main__":
    main()
