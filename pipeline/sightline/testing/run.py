"""Run one element, or one source, without a pipeline."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sightline.devices import Device, DeviceKind
from sightline.devices.cuda.device import CudaDevice
from sightline.graph import Element, Outputs, Pending, Site, SourceElement
from sightline.graph.messages import Message
from sightline.media import Batch, Frame, Stream


def site_for(
    element_id: str, outputs: Path | None, messages: list[Message] | None = None, *, gpu: CudaDevice | None = None
) -> Site:
    """A site on the CPU, or on `gpu`, whose outputs lie below a folder."""
    posted = [] if messages is None else messages
    device = Device() if gpu is None else Device(DeviceKind.CUDA, gpu.index)
    return Site(device=device, element_id=element_id, outputs=Outputs(outputs), post=posted.append, gpu=gpu)


def run_element(
    element: Element,
    batches: Iterable[Batch],
    *,
    outputs: Path | None = None,
    messages: list[Message] | None = None,
    gpu: CudaDevice | None = None,
) -> list[Batch]:
    """Build the element on the CPU, or on `gpu`, give it the batches, end all streams, close it; return what came out.

    `outputs` is the folder below which it may write; posted messages are appended to `messages`.
    """
    operator = element.build(site_for(element.name, outputs, messages, gpu=gpu))
    streams: dict[Stream, None] = {}
    results: list[Batch] = []
    try:
        for batch in batches:
            streams.update(dict.fromkeys(frame.stream for frame in batch.frames))
            result = operator.process(batch)
            results.append(result.result() if isinstance(result, Pending) else result)
        for stream in streams:
            operator.end_stream(stream)
        operator.drain()
    finally:
        operator.close()
    return results


def run_source(source: SourceElement, *, name: str = "cam", messages: list[Message] | None = None) -> list[Frame]:
    """Read one source to its end and return its frames."""
    reader = source.build(site_for(name, None, messages), stream=Stream(name, live=source.live))
    try:
        return list(reader.frames())
    finally:
        reader.close()
