"""A pipeline that publishes images which carry their own numbers, and what clients find in them."""

from __future__ import annotations

import io
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import av
import numpy as np
import numpy.typing as npt
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from sightline import Pipeline
from sightline.graph import Message
from sightline.media import Batch, Frame
from sightline.server import listen
from sightline_plugins.sources.pattern import CardPainter

SIZE_WH = (320, 176)
CELLS = 16
FPS = 25
_MIDDLE = 128
TOKEN = "correct-horse-battery"
_PATIENCE_SECONDS = 300.0
COUNTER: Mapping[str, object] = {
    "pattern": {"pattern": "counter", "size": list(SIZE_WH), "fps": FPS, "frames": None},
    "realtime": True,
}


class Published:
    """A pipeline that runs until the `with` block ends; `messages` are what it said, `report` is there afterwards.

    `port` is where its server listens, when it publishes for browsers.
    """

    def __init__(self, pipeline: Pipeline, *, port: int) -> None:
        self.pipeline = pipeline
        self.port = port
        self.messages: list[Message] = []
        self.frames = 0
        self.captured: list[int] = []
        self._begun: set[str] = set()
        self._ready = threading.Condition()
        pipeline.on_message(self.messages.append)
        pipeline.probe("publish-1", self._look)

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so, looked at with every batch that is published."""
        with self._ready:
            assert self._ready.wait_for(is_so, timeout=_PATIENCE_SECONDS)

    def wait_for_all(self, names: Iterable[str]) -> None:
        """Wait until these streams are published."""
        self.wait_for(lambda: self._begun >= set(names))

    def _look(self, batch: Batch) -> None:
        with self._ready:
            self.frames += len(batch)
            self.captured += [frame.capture_ns or 0 for frame in batch.frames]
            self._begun |= {frame.stream.name for frame in batch.frames}
            self._ready.notify_all()

    def url(self, path: str = "/", *, scheme: str = "http", token: str | None = TOKEN) -> str:
        """The address of something that the step serves to browsers."""
        query = "" if token is None else f"?token={token}"
        return f"{scheme}://127.0.0.1:{self.port}/steps/publish-1{path}{query}"

    @property
    def warnings(self) -> list[str]:
        """The warnings so far."""
        return [message.text for message in self.messages if message.kind == "warning"]

    def totals(self, stream: str = "gate", *, element: str = "publish-1") -> Mapping[str, Any]:
        """What was counted of a stream, when the run is over."""
        totals: Mapping[str, Any] = self.pipeline.wait().totals[element][stream]
        return totals


@contextmanager
def publishing(
    options: Mapping[str, object],
    *,
    sources: Mapping[str, object] | None = None,
    before: Sequence[object] = (),
    outputs: Path | None = None,
    port: int = 0,
) -> Iterator[Published]:
    """Publish from now on; every stream has begun. For browsers, its server listens on the port, or any free one."""
    streams = cast("dict[str, Any]", dict(sources or {"gate": COUNTER}))
    steps: list[Any] = [*before, {"publish": dict(options)}]
    pipeline = Pipeline(
        sources=streams,
        steps=steps,
        outputs=outputs,
    )
    with ExitStack() as stack:
        if options.get("web"):
            port = stack.enter_context(listen(pipeline, f"127.0.0.1:{port}", token=TOKEN)).port
        published = Published(pipeline, port=port)
        pipeline.start()
        try:
            published.wait_for_all(streams)
            yield published
        finally:
            pipeline.stop()
            pipeline.wait()


def number_in(luma: npt.NDArray[np.uint8]) -> int:
    """The number that an image of the counter shows."""
    height, width = luma.shape
    cell = width // CELLS
    bits = [luma[height // 2, number * cell + cell // 2] > _MIDDLE for number in range(CELLS)]
    return sum(1 << (CELLS - 1 - place) for place, bit in enumerate(bits) if bit)


def lumas(file: Path | io.BytesIO) -> list[npt.NDArray[np.uint8]]:
    """The luma planes of a file's images."""
    with av.open(file, "r") as container:
        return [np.asarray(frame.to_ndarray()[: frame.height], np.uint8) for frame in container.decode(video=0)]


def read_back(url: str, *, count: int, **options: object) -> list[Frame]:
    """The first frames that one of our own pipelines receives of what is published."""
    source = cast("Any", {"uri": url, **options})
    pipeline = Pipeline(sources={"back": source}, steps=[])
    return [view.frame for view in itertools.islice(pipeline, count)]


def numbers(frames: Sequence[Frame]) -> list[int]:
    """The numbers that frames show."""
    return [number_in(frame.surface.planes[0]) for frame in frames]


def write_counter(
    path: Path,
    *,
    encoder: str = "libx264",
    count: int = 200,
    key_every: int = 25,
    b_frames: int = 0,
    size_wh: tuple[int, int] = SIZE_WH,
) -> Path:
    """A clip of the counter."""
    painter = CardPainter("counter", size_wh=size_wh, color=(0, 0, 0), seed=0)
    chosen = {"g": str(key_every), "bf": str(b_frames)}
    if encoder == "libx265":
        chosen["x265-params"] = "log-level=none:scenecut=0"
    if encoder == "mjpeg":
        chosen = {"huffman": "default"}
    with av.open(path, "w") as container:
        stream = cast("VideoStream", container.add_stream(encoder, rate=FPS, options=chosen))
        stream.width, stream.height = size_wh
        stream.pix_fmt = "yuvj420p" if encoder == "mjpeg" else "yuv420p"
        for number in range(count):
            surface = painter.surface(number)
            rows = np.concatenate([plane.reshape(-1) for plane in surface.planes])
            frame = VideoFrame.from_ndarray(rows.reshape(size_wh[1] * 3 // 2, size_wh[0]), stream.pix_fmt)
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path
