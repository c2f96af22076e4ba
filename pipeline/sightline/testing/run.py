"""Run one element, or one source, without a pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from sightline.devices import Device, DeviceKind
from sightline.devices.cuda.device import CudaDevice
from sightline.graph import Element, Outputs, Pending, Site, SourceElement
from sightline.graph.messages import Message
from sightline.graph.transport import Outbox
from sightline.media import Batch, Frame, Stream
from sightline.testing.outbox import MemoryOutbox


def site_for(
    element_id: str,
    outputs: Path | None,
    messages: list[Message] | None = None,
    *,
    gpu: CudaDevice | None = None,
    outbox: Outbox | None = None,
    streams: Sequence[str] = (),
) -> Site:
    """A site on the CPU, or on `gpu`, whose outputs lie below a folder; what is delivered goes into `outbox`.
    `streams` are the names of the run's sources.
    """
    posted = [] if messages is None else messages
    device = Device() if gpu is None else Device(DeviceKind.CUDA, gpu.index)
    return Site(
        device=device,
        element_id=element_id,
        outputs=Outputs(outputs),
        post=posted.append,
        streams=tuple(streams),
        gpu=gpu,
        outbox=MemoryOutbox() if outbox is None else outbox,
    )


def run_element(
    element: Element,
    batches: Iterable[Batch],
    *,
    outputs: Path | None = None,
    messages: list[Message] | None = None,
    gpu: CudaDevice | None = None,
    outbox: Outbox | None = None,
) -> list[Batch]:
    """Build the element on the CPU, or on `gpu`, give it the batches, end all streams, close it; return what came out.

    `outputs` is the folder below which it may write; posted messages are appended to `messages`. What it delivers goes
    into `outbox`: give a `MemoryOutbox` to look at its `records`.
    """
    operator = element.build(site_for(element.name, outputs, messages, gpu=gpu, outbox=outbox))
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
