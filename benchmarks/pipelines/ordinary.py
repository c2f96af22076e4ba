"""The loop that most people write: OpenCV, ONNX Runtime as it comes, the model's own demo code, a library's tracker."""

from __future__ import annotations

import cv2
import onnxruntime
from benchmarks.pipelines.job import Job, Outcome, Window
from benchmarks.pipelines.plain_parts import PlainStream, captured, network_input, published_head, warm_up_tracker


def run(job: Job) -> Outcome:
    """All streams in turn, in one loop."""
    session = onnxruntime.InferenceSession(job.model, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    _, first = next(enumerate(captured(job)))
    for _ in range(10):
        session.run(None, {name: network_input(first[0])})
    warm_up_tracker(job)
    window = Window()
    streams = [(PlainStream(stream, job=job), captured(job)) for stream in job.names]
    while streams:
        for stream in list(streams):
            sink, frames = stream
            taken = next(frames, None)
            if taken is None:
                sink.close()
                streams.remove(stream)
                continue
            image, pts_ms = taken
            size_wh = (image.shape[1], image.shape[0])
            cells = session.run(None, {name: network_input(image, interpolation=cv2.INTER_AREA)})[0][0]
            found = published_head(cells, confidence=job.confidence, size_wh=size_wh)
            sink.finish(found, pts_ms=pts_ms, size_wh=size_wh)
    return window.close()
