"""The parts of the expert's loop that are not compiled: decoding, pre-processing, the network, lines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, Literal

import av
import cv2
import msgspec
import numpy as np
import numpy.typing as npt
import onnx
import openvino as ov
from benchmarks.pipelines.expert_head import detect
from benchmarks.pipelines.expert_tracker import Tracker
from benchmarks.pipelines.job import Job, PartMissing

SIDE = 352
COLUMNS = 22
CORES = len(os.sched_getaffinity(0))

Image = npt.NDArray[np.uint8]
Precision = Literal["f32", "bf16"]


def simplified(job: Job) -> bytes:
    """The model as onnxsim rewrites it."""
    import onnxsim

    model, _ = onnxsim.simplify(onnx.load(job.model))
    return bytes(model.SerializeToString())


def rewritten(job: Job) -> bytes:
    """The model as this project rewrites it for OpenVINO."""
    from sightline_plugins.onnx_graph.simplify import OPENVINO, rewrite

    return bytes(rewrite(onnx.load(job.model), OPENVINO).SerializeToString())


def compiled(content: bytes, precision: Precision) -> ov.CompiledModel:
    """The network for CPU, taking 8-bit NHWC images; one thread a request, as many streams as cores, unpinned.

    Without a hint, OpenVINO computes in bfloat16 where the processor does. Raises PartMissing where it does not.
    """
    core = ov.Core()
    wrapped = ov.preprocess.PrePostProcessor(core.read_model(content))
    wrapped.input().tensor().set_element_type(ov.Type.u8).set_layout(ov.Layout("NHWC"))
    wrapped.input().model().set_layout(ov.Layout("NCHW"))
    wrapped.input().preprocess().convert_element_type(ov.Type.f32).scale(255.0)
    options: dict[str, Any] = {
        "NUM_STREAMS": CORES,
        "INFERENCE_NUM_THREADS": CORES,
        "ENABLE_CPU_PINNING": False,
    }
    if precision == "f32":
        options["INFERENCE_PRECISION_HINT"] = "f32"
    network = core.compile_model(wrapped.build(), "CPU", options)
    if precision == "bf16" and network.get_property("INFERENCE_PRECISION_HINT") != ov.Type.bf16:
        raise PartMissing("OpenVINO does not choose bfloat16 on this processor")
    return network


class Slot:
    """A request with the memory it reads and writes, and the frame it works on."""

    def __init__(self, network: ov.CompiledModel) -> None:
        self.image: Image = np.zeros((1, SIDE, SIDE, 3), np.uint8)
        self.output = np.zeros((1, 85, COLUMNS, COLUMNS), np.float32)
        self.cells = self.output.reshape(85, -1)
        self.request = network.create_infer_request()
        self.request.set_input_tensor(ov.Tensor(self.image, shared_memory=True))
        self.request.set_output_tensor(ov.Tensor(self.output, shared_memory=True))
        self.stream: ExpertStream | None = None
        self.pts = 0


class Shrinker:
    """Resizes the planes of a frame to the network's size, then converts them there."""

    def __init__(self) -> None:
        self._small: Image = np.zeros((SIDE * 3 // 2, SIDE), np.uint8)
        quarter = SIDE * SIDE // 4
        flat, half = self._small.reshape(-1)[SIDE * SIDE :], SIDE // 2
        chroma = (flat[:quarter].reshape(half, half), flat[quarter:].reshape(half, half))
        self._parts = (self._small[:SIDE], *chroma)

    def fill(self, frame: av.VideoFrame, image: Image) -> None:
        """Write the network's input of a frame."""
        for plane, part in zip(frame.planes, self._parts, strict=True):
            rows = np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, plane.line_size)[:, : plane.width]
            cv2.resize(rows, part.shape[::-1], dst=part, interpolation=cv2.INTER_LINEAR)
        cv2.cvtColor(self._small, cv2.COLOR_YUV2BGR_I420, dst=image[0])


class Thing(msgspec.Struct, gc=False):
    """An object in a line."""

    label: str
    class_id: int
    confidence: float
    box: list[float]
    track_id: int


class Line(msgspec.Struct, gc=False):
    """A frame in a line."""

    stream: str
    frame: int
    pts_ns: int
    size: tuple[int, int]
    objects: list[Thing]


def no_lap(stage: str) -> None:
    """Measure nothing."""
    del stage


class ExpertStream:
    """One stream: its frames, its tracker, its file."""

    def __init__(self, name: str, *, job: Job) -> None:
        self.name = name
        self._job = job
        self._labels = job.label_names()
        self._file = job.path(name).open("wb", buffering=1 << 16)
        self._tracker = Tracker()
        self._encoder = msgspec.json.Encoder()
        self._found = np.zeros((COLUMNS * COLUMNS, 6), np.float32)
        self._identity = np.zeros(COLUMNS * COLUMNS, np.int64)
        self._index = 0
        self._size_wh = (0, 0)

    def frames(self) -> Iterator[av.VideoFrame]:
        """All frames, decoded in the calling thread."""
        for _ in range(self._job.passes):
            with av.open(str(self._job.clip)) as container:
                video = container.streams.video[0]
                video.codec_context.thread_count = 1
                video.codec_context.thread_type = "NONE"
                self._size_wh = (video.width, video.height)
                self._tick_ns = round(float(video.time_base or 0) * 1e9)
                for packet in container.demux(video):
                    yield from packet.decode()

    def finish(self, cells: npt.NDArray[np.float32], pts: int, lap: Callable[[str], None] = no_lap) -> None:
        """Detections, tracks and the line of a frame from the network's output; `lap` gets the stage that ends."""
        width, height = self._size_wh
        count = detect(cells, self._job.confidence, width, height, COLUMNS, self._found)
        lap("head")
        found, identity = self._found[:count], self._identity[:count]
        self._tracker.update(found, identity)
        lap("track")
        self._file.write(self._encoder.encode(self._line(found, identity, pts)))
        self._file.write(b"\n")
        lap("records")
        self._index += 1

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _line(self, found: npt.NDArray[Any], identity: npt.NDArray[Any], pts: int) -> Line:
        things = [
            Thing(self._labels[int(class_id)], int(class_id), score, [left, top, right, bottom], track)
            for (left, top, right, bottom, score, class_id), track in zip(
                found.astype(np.float64).round(3).tolist(), identity.tolist(), strict=True
            )
        ]
        return Line(self.name, self._index, pts * self._tick_ns, self._size_wh, things)


def warm_up(network: ov.CompiledModel, *, job: Job, runs: int = 10) -> None:
    """Run everything once or more, so that memory is there and code is compiled."""
    slot, found, identity = Slot(network), np.zeros((COLUMNS**2, 6), np.float32), np.zeros(1, np.int64)
    for _ in range(runs):
        slot.request.infer()
    detect(slot.cells, job.confidence, 8, 8, COLUMNS, found)
    Tracker().update(found[:1], identity)
