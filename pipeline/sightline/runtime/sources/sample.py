"""Take a first image of a source, to see what an address gives: `take`, and a process of its own that does it.

What an address answers comes from a machine that nobody knows yet. A process of its own can be ended at any moment,
and what it reads can harm it alone. The source comes on standard input (`SampleRequest`, as JSON), so that no
password is in a list of processes, and prints what it found (`Sample`).
"""

from __future__ import annotations

import base64
import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from pydantic import BaseModel

from sightline.devices import Device
from sightline.errors import SightlineError, StreamError, StreamLost, StreamRefused, StreamStalled
from sightline.graph.registry import Registry
from sightline.graph.site import Site
from sightline.installed import installed
from sightline.media import Frame, Stream
from sightline.media.surface import Memory
from sightline.redaction import redact

ENCODERS = "sightline.images"
_RATE_FRAMES = 25
_RATE_SECONDS = 2.0
_NICE = 10


class SampleRequest(BaseModel):
    """A source as its kind and options, and how long it may be silent."""

    kind: str
    options: dict[str, Any]
    stream: str
    silence_seconds: float
    largest_wh: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What a source gives: the first image as JPEG in base64, its codec, size (width, height), images a second and
    sound; or the reason why there is none, and the same in a sentence. `seconds` is how long that took.
    """

    seconds: float
    image: str | None = None
    codec: str | None = None
    size: tuple[int, int] | None = None
    fps: float | None = None
    audio: str | None = None
    reason: str | None = None
    message: str | None = None


def take(request: SampleRequest) -> Sample:
    """Read a source until there is an image and its rate is known. It may take as long as the source does."""
    begun = time.monotonic()
    try:
        source = Registry().source(request.kind).model_validate(request.options)
        reader = source.build_to_test(Site(Device()), stream=Stream(request.stream))
        reader.silence_limit_ns = round(request.silence_seconds * 1e9)
        with closing(reader):
            frames = reader.frames()
            first = next(frames, None)
            seconds = time.monotonic() - begun
            if first is None:
                return Sample(seconds=seconds, reason="unreadable", message="it ended before an image came")
            image = _jpeg(first, largest_wh=request.largest_wh)
            fps = _rate(first, frames)
            reader.stop()
            return Sample(
                image=image,
                codec=reader.codec,
                size=first.surface.size_wh,
                fps=fps,
                audio=reader.audio,
                seconds=seconds,
            )
    except SightlineError as error:
        return Sample(seconds=time.monotonic() - begun, reason=_reason(error), message=_cause(error, request.stream))


def _jpeg(frame: Frame, *, largest_wh: tuple[int, int]) -> str | None:
    encoder = next(iter(installed(ENCODERS).select(name="jpeg")), None)
    if encoder is None:
        return None
    surface = frame.surface if frame.surface.memory is Memory.HOST else frame.surface.to_host()
    return base64.b64encode(encoder.load()(surface, largest_wh=largest_wh)).decode()


def _rate(first: Frame, frames: Iterator[Frame]) -> float | None:
    """Return the images a second, by the timestamps of those that come within a moment."""
    end, times = time.monotonic() + _RATE_SECONDS, [first.pts_ns]
    try:
        for frame in frames:
            times.append(frame.pts_ns)
            if len(times) >= _RATE_FRAMES or time.monotonic() > end:
                break
    except StreamError:  # there is an image, and that is what was asked for
        pass
    steps = [later - earlier for earlier, later in pairwise(times) if later > earlier]
    return round(1e9 / median(steps), 2) if len(steps) >= 2 else None


def _reason(error: SightlineError) -> str:
    if isinstance(error, StreamRefused):
        return "credentials" if error.credentials else "refused"
    if isinstance(error, StreamStalled):
        return "silent"
    return "unreachable" if isinstance(error, StreamLost) else "unreadable"


def _cause(error: SightlineError, stream: str) -> str:
    """Return the sentence without the name of the stream and its address, which whoever asks has given."""
    text = redact(str(error))
    return text.partition("): ")[2] if text.startswith(f"stream {stream!r} (") and "): " in text else text


def main() -> None:
    """Take the sample that standard input asks for."""
    os.nice(_NICE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    request = SampleRequest.model_validate_json(sys.stdin.read())
    json.dump(asdict(take(request)), sys.stdout)


if __name__ == "__main__":
    main()
