"""GStreamer decodes and resizes in its own threads; one Python loop takes images from its appsinks in turn.

Debian's `python3-gi` and plugins are used beside this environment's packages.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from benchmarks.pipelines.job import Job, Outcome, PartMissing, Window
from benchmarks.pipelines.plain_parts import SIDE, Floats, PlainStream, filtered_head, warm_up_tracker
from benchmarks.pipelines.ready_made import Engine, Session, open_session

SYSTEM_PACKAGES = "/usr/lib/python3/dist-packages"
GRAPH = (
    "filesrc location={clip} ! parsebin ! avdec_h264 max-threads=1 ! videoscale"
    " ! video/x-raw,width={side},height={side} ! videoconvert ! video/x-raw,format=BGR"
    " ! appsink name=sink max-buffers=3 sync=false"
)


def onnxruntime(job: Job) -> Outcome:
    """With ONNX Runtime."""
    return _run(job, "onnxruntime")


def openvino(job: Job) -> Outcome:
    """With OpenVINO."""
    return _run(job, "openvino")


def load() -> Any:
    """GStreamer's binding, initialised. Raises PartMissing."""
    sys.path.append(SYSTEM_PACKAGES)
    try:
        import gi

        gi.require_version("Gst", "1.0")
        gi.require_version("GstApp", "1.0")
        from gi.repository import Gst, GstApp  # noqa: F401  GstApp gives the sink its methods
    except (ImportError, ValueError) as error:
        raise PartMissing(f"install python3-gi and gir1.2-gst-plugins-base-1.0 ({error})") from error
    finally:
        sys.path.remove(SYSTEM_PACKAGES)
    Gst.init(None)
    missing = [name for name in ("avdec_h264", "parsebin", "appsink") if Gst.ElementFactory.find(name) is None]
    if missing:
        raise PartMissing(f"install the plugins with {', '.join(missing)}: gstreamer1.0-libav, -plugins-good")
    return Gst


def _run(job: Job, engine: Engine) -> Outcome:
    gst = load()
    session = open_session(job, engine)
    warm_up_tracker(job)
    size_wh = _size_wh(gst, job)
    window = Window()
    streams = [(PlainStream(name, job=job), _images(gst, job)) for name in job.names]
    while streams:
        for stream in list(streams):
            sink, images = stream
            taken = next(images, None)
            if taken is None:
                sink.close()
                streams.remove(stream)
                continue
            _finish(*taken, session=session, sink=sink, job=job, size_wh=size_wh)
    return window.close()


def _finish(
    image: Floats, pts_ms: float, *, session: Session, sink: PlainStream, job: Job, size_wh: tuple[int, int]
) -> None:
    cells = session(np.ascontiguousarray((image / np.float32(255)).transpose(2, 0, 1)[None]))
    found = filtered_head(cells, confidence=job.confidence, size_wh=size_wh)
    sink.finish(found, pts_ms=pts_ms, size_wh=size_wh)


def _images(gst: Any, job: Job) -> Iterator[tuple[Any, float]]:
    for _ in range(job.passes):
        graph = gst.parse_launch(GRAPH.format(clip=job.clip, side=SIDE))
        sink = graph.get_by_name("sink")
        graph.set_state(gst.State.PLAYING)
        while (sample := sink.pull_sample()) is not None:
            buffer = sample.get_buffer()
            good, info = buffer.map(gst.MapFlags.READ)
            assert good
            yield np.frombuffer(info.data, np.uint8).reshape(SIDE, SIDE, 3), buffer.pts / 1e6
            buffer.unmap(info)
        graph.set_state(gst.State.NULL)


def _size_wh(gst: Any, job: Job) -> tuple[int, int]:
    graph = gst.parse_launch(f"filesrc location={job.clip} ! parsebin ! avdec_h264 ! appsink name=sink sync=false")
    graph.set_state(gst.State.PLAYING)
    shape = graph.get_by_name("sink").pull_sample().get_caps().get_structure(0)
    size_wh = (int(shape.get_value("width")), int(shape.get_value("height")))
    graph.set_state(gst.State.NULL)
    return size_wh
