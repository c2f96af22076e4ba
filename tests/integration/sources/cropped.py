"""Clips whose SPS crops the coded image at any side, and the same clips without a crop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import av
import numpy as np
import numpy.typing as npt
from av.bitstream import BitStreamFilterContext
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from sightline_plugins.codecs.sps import Crop

CODED_WH = (160, 96)
_FILTERS = {"libx264": "h264_metadata", "libx265": "hevc_metadata"}
_OPTIONS = {"preset": "ultrafast", "sc_threshold": "0"}
_PARAMETERS = {"libx264": ("x264-params", "keyint=10"), "libx265": ("x265-params", "log-level=none:open-gop=0")}


@dataclass(frozen=True, slots=True)
class Coding:
    """How a clip is encoded; `parameters` are those of the encoder's library."""

    codec: str = "libx264"
    pixel_format: str = "yuv420p"
    b_frames: int = 0
    size_wh: tuple[int, int] = CODED_WH
    parameters: str = ""


def write_cropped(path: Path, crop: Crop, *, coding: Coding = Coding(), count: int = 20, first_ms: int = 0) -> Path:
    """Write a clip with detail everywhere that crops this much; key frames are ten apart. `whole_of` has its images
    without the crop.
    """
    _write_whole(whole_of(path), coding=coding, count=count, first_ms=first_ms)
    return with_crop(path, crop, codec=coding.codec)


def with_crop(path: Path, crop: Crop, *, codec: str) -> Path:
    """Write the clip that `whole_of` names once more, with this crop."""
    sides = f"crop_left={crop.left}:crop_top={crop.top}:crop_right={crop.right}:crop_bottom={crop.bottom}"
    with av.open(whole_of(path)) as source, av.open(path, "w") as target:
        video = source.streams.video[0]
        stream = target.add_stream_from_template(video)
        cropping = BitStreamFilterContext(f"{_FILTERS[codec]}={sides}", video, stream)
        for packet in source.demux(video):
            for cropped in cropping.filter(packet) if packet.size else ():
                cropped.stream = stream
                target.mux(cast("Packet[VideoStream]", cropped))
    return path


def write_changing_crop(path: Path, *crops: Crop, coding: Coding = Coding(), count: int = 20) -> Path:
    """Write one transport stream that crops differently from part to part, with so many frames of each."""
    with path.open("wb") as joined:
        for number, crop in enumerate(crops):
            part = write_cropped(part_of(path, number), crop, coding=coding, count=count, first_ms=40 * count * number)
            joined.write(part.read_bytes())
    return path


def part_of(path: Path, number: int) -> Path:
    """The clip that became this part of a changing one."""
    return path.with_name(f"{path.stem}-{number}{path.suffix}")


def whole_of(path: Path) -> Path:
    """The clip without the crop that belongs to a cropped one."""
    return path.with_name(f"{path.stem}-whole.mkv")


def cut(path: Path, crop: Crop) -> Iterator[tuple[npt.NDArray[np.uint8], ...]]:
    """The planes of every image of the clip without the crop, cut by hand to what the crop leaves."""
    with av.open(whole_of(path)) as container:
        for frame in container.decode(video=0):
            yield tuple(_cut(plane, crop) for plane in _planes(frame))


def _cut(plane: npt.NDArray[np.uint8], crop: Crop) -> npt.NDArray[np.uint8]:
    step = 1 if plane.ndim == 2 else 2
    height, width = plane.shape[0], plane.shape[1]
    rows = slice(crop.top // step, height - crop.bottom // step)
    return plane[rows, crop.left // step : width - crop.right // step]


def _planes(frame: VideoFrame) -> list[npt.NDArray[np.uint8]]:
    """As `tests.reading.Seen` has them: chroma of 4:2:0 interleaved."""
    planes = cast("npt.NDArray[np.uint8]", frame.to_ndarray())
    if frame.format.name == "yuv444p":
        return list(planes)
    height, width = frame.height, frame.width
    luma, chroma = planes[:height], planes[height:].reshape(2, height // 2, width // 2)
    return [luma, np.stack(list(chroma), axis=-1)]


def _write_whole(path: Path, *, coding: Coding, count: int, first_ms: int) -> None:
    name, parameters = _PARAMETERS[coding.codec]
    options = {**_OPTIONS, "g": "10", "bf": str(coding.b_frames)}
    options[name] = ":".join(filter(None, (parameters, coding.parameters)))
    noise = np.random.default_rng(len(coding.codec)).integers(0, 256, (3, *coding.size_wh[::-1]), np.uint8)
    with av.open(path, "w") as container:
        stream = cast("VideoStream", container.add_stream(coding.codec, rate=25, options=options))
        stream.width, stream.height = coding.size_wh
        stream.pix_fmt = coding.pixel_format
        for number in range(count):
            image = VideoFrame.from_ndarray(np.roll(noise, 3 * number, axis=2), "yuv444p")
            frame = image.reformat(format=coding.pixel_format)
            frame.pts = first_ms // 40 + number
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
