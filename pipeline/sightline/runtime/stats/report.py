"""The report of a run: what was processed, how fast, where the time went, what was counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sightline.devices.cuda.budget import MemoryUse
from sightline.graph import StreamState
from sightline.runtime.stats.counters import (
    DeliveryStats,
    ElementStats,
    LinkStats,
    StreamStats,
    TelemetryStats,
    snapshot,
)

if TYPE_CHECKING:
    from sightline.devices.cuda.device import CudaDevice

_NS = 1e9
_MS = 1e6


@dataclass(frozen=True, slots=True)
class CudaTransfers:
    """How much crossed between host and GPUs in a run, in bytes and copies."""

    host_to_device_bytes: int
    device_to_host_bytes: int
    host_to_device_copies: int
    device_to_host_copies: int

    @classmethod
    def of(cls, gpus: Sequence[CudaDevice], *, since: CudaTransfers | None = None) -> CudaTransfers | None:
        """What all GPUs have counted, less what they had before; None where there is none."""
        if not gpus:
            return None
        counts = [gpu.transfers.counts for gpu in gpus]
        return cls(
            sum(one.host_to_device_bytes for one in counts) - (since.host_to_device_bytes if since else 0),
            sum(one.device_to_host_bytes for one in counts) - (since.device_to_host_bytes if since else 0),
            sum(one.host_to_device_copies for one in counts) - (since.host_to_device_copies if since else 0),
            sum(one.device_to_host_copies for one in counts) - (since.device_to_host_copies if since else 0),
        )

    def to_json(self, *, frames: int) -> dict[str, int]:
        """The counts as plain data, with what comes to each frame."""
        return {
            "host_to_device_bytes": self.host_to_device_bytes,
            "device_to_host_bytes": self.device_to_host_bytes,
            "host_to_device_copies": self.host_to_device_copies,
            "device_to_host_copies": self.device_to_host_copies,
            "host_to_device_bytes_per_frame": round(self.host_to_device_bytes / max(frames, 1)),
            "device_to_host_bytes_per_frame": round(self.device_to_host_bytes / max(frames, 1)),
        }


@dataclass(frozen=True, slots=True)
class Report:
    """The results of a run that is over. `to_json` gives the form of `--report`."""

    name: str
    device: str
    build_seconds: float
    """From the start to the first thread: models loaded and compiled."""
    wall_seconds: float
    """From then to the end of the last stage; frames per second are counted over it."""
    cpu_seconds: float
    """Of the whole process in that time."""
    streams: tuple[StreamStats, ...]
    elements: tuple[ElementStats, ...]
    links: Mapping[str, LinkStats]
    totals: Mapping[str, Mapping[str, Any]]
    outputs: tuple[str, ...]
    framework_cpu_seconds: float
    engine_cpu_seconds: float
    device_reason: str = ""
    """Why it ran on that device."""
    transfers: CudaTransfers | None = None
    """Copies between host and GPU; None when it ran on the CPU."""
    gpu_memory: tuple[MemoryUse, ...] = ()
    """What each GPU's pools have of its memory at the end, and the most they had."""
    lost_outputs: Mapping[str, str] = field(default_factory=dict)
    """Steps whose output is not whole, by id, with the first reason."""
    deliveries: tuple[DeliveryStats, ...] = ()
    """Destinations outside, and what was delivered there."""
    telemetry: TelemetryStats | None = None
    """What was sent to a collector of OpenTelemetry; None without one."""
    runs_on: Mapping[str, str] = field(default_factory=dict)
    """Where each element worked on images, in a run on a GPU: `cuda:0`, `cpu`, or either with `(reason)`;
    several places, with `; ` between them, where each GPU has its own."""

    @property
    def frames(self) -> int:
        """Frames of all streams that were processed completely."""
        return sum(stream.finished for stream in self.streams)

    @property
    def fps(self) -> float:
        """Those frames a second, all streams together."""
        return self.frames / self.wall_seconds if self.wall_seconds else 0.0

    @property
    def failed_streams(self) -> tuple[str, ...]:
        """Names of the streams that could not be read."""
        return tuple(stream.stream.name for stream in self.streams if stream.state is StreamState.FAILED)

    def to_json(self) -> dict[str, Any]:
        """The report as plain data."""
        on_gpus: dict[str, Any] = {}
        if self.transfers is not None:
            memory = {use.gpu: use.to_json() for use in self.gpu_memory}
            on_gpus = {"transfers": self.transfers.to_json(frames=self.frames), "gpu_memory": memory}
        return {
            "pipeline": self.name,
            "device": self.device,
            "device_reason": self.device_reason,
            "fps": round(self.fps, 3),
            "frames": self.frames,
            "build_seconds": round(self.build_seconds, 6),
            "wall_seconds": round(self.wall_seconds, 6),
            "cpu_seconds": round(self.cpu_seconds, 6),
            "framework_cpu_seconds": round(self.framework_cpu_seconds, 6),
            "engine_cpu_seconds": round(self.engine_cpu_seconds, 6),
            **on_gpus,
            "streams": {stream.stream.name: _stream_json(stream) for stream in self.streams},
            "elements": {element.element_id: self._element_json(element) for element in self.elements},
            "links": {name: snapshot(link) for name, link in self.links.items()},
            "totals": {name: dict(totals) for name, totals in self.totals.items() if totals},
            "deliveries": {one.destination: delivery_json(one) for one in self.deliveries},
            **({} if self.telemetry is None else {"telemetry": snapshot(self.telemetry)}),
            "outputs": list(self.outputs),
            "lost_outputs": dict(self.lost_outputs),
        }

    def _element_json(self, element: ElementStats) -> dict[str, Any]:
        frames = max(element.frames, 1)
        place = self.runs_on.get(element.element_id)
        return {
            "element": element.name,
            **({} if place is None else {"runs_on": place}),
            **snapshot(element),
            "cpu_ms_per_frame": round(element.cpu_ns / _MS / frames, 4),
        }


def delivery_json(stats: DeliveryStats) -> dict[str, Any]:
    """The state of a destination as plain data."""
    trouble = {} if stats.error is None else {"error": stats.error}
    return {"address": stats.address, "state": stats.state, **snapshot(stats), "waiting": stats.depth, **trouble}


def _stream_json(stream: StreamStats) -> dict[str, Any]:
    seconds = ((stream.ended_ns or 0) - (stream.started_ns or 0)) / _NS if stream.started_ns is not None else 0.0
    counts = snapshot(stream)
    plain = {
        "state": stream.state,
        "decoder": stream.decoded_by,
        "frames": counts.pop("received"),
        **counts,
        "fps": round(stream.finished / seconds, 3) if seconds > 0 else 0.0,
        "latency_ms": {
            "p50": round(stream.latency.percentile_ns(50) / _MS, 3),
            "p95": round(stream.latency.percentile_ns(95) / _MS, 3),
            "p99": round(stream.latency.percentile_ns(99) / _MS, 3),
            "max": round(stream.latency.maximum_ns / _MS, 3),
        },
        "objects": {
            label: {"objects": count.objects, "tracks": count.tracks} for label, count in sorted(stream.labels.items())
        },
    }
    return plain if stream.error is None else {**plain, "error": stream.error}
