"""Summaries of runs and measurements as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline.cli.text import columns
from sightline.devices import Device

_FULL = 0.85


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a pipeline: processor time per frame of the whole run, and how busy its thread was (0..1)."""

    name: str
    cpu_ms_per_frame: float
    busy: float | None


@dataclass(frozen=True, slots=True)
class Measurement:
    """The figures of one run. `fps` counts all streams; `cores` is what the process may use."""

    streams: int
    frames: int
    seconds: float
    fps: float
    cpu_ms_per_frame: float
    cores: int
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, report: Mapping[str, Any], *, cores: int | None = None) -> Measurement:
        """The measurement in a report in its plain form (`Report.to_json`)."""
        frames, seconds = max(report["frames"], 1), max(report["wall_seconds"], 1e-9)

        def part(name: str, cpu_seconds: float, busy_seconds: float | None) -> Part:
            return Part(name, 1000 * cpu_seconds / frames, None if busy_seconds is None else busy_seconds / seconds)

        reads = [stream["read_cpu_seconds"] for stream in report["streams"].values()]
        elements = [part(name, one["cpu_seconds"], one["busy_seconds"]) for name, one in report["elements"].items()]
        parts = [
            part("sources (read, decode)", sum(reads), max(reads, default=0.0)),
            *elements,
            part("threads of engines", report["engine_cpu_seconds"], None),
            part("framework", report["framework_cpu_seconds"], None),
        ]
        return cls(
            streams=len(report["streams"]),
            frames=report["frames"],
            seconds=report["wall_seconds"],
            fps=report["fps"],
            cpu_ms_per_frame=1000 * report["cpu_seconds"] / frames,
            cores=cores or Device().cores,
            parts=tuple(parts),
        )

    @property
    def limit_fps(self) -> float:
        """Frames a second if all cores did nothing but this work."""
        return 1000 * self.cores / self.cpu_ms_per_frame if self.cpu_ms_per_frame else 0.0

    @property
    def load(self) -> float:
        """Share of all cores that the run used, 0..1."""
        return self.fps / self.limit_fps if self.limit_fps else 0.0

    def bottleneck(self) -> str:
        """What holds the pipeline back, in one sentence."""
        costly = max(self.parts, key=lambda part: part.cpu_ms_per_frame)
        share = costly.cpu_ms_per_frame / self.cpu_ms_per_frame if self.cpu_ms_per_frame else 0.0
        most = f"{costly.name} takes the largest share, {share:.0%}"
        if self.load >= _FULL:
            return f"the processor: {self.load:.0%} of {self.cores} cores are used; {most}"
        busy = max(self.parts, key=lambda part: part.busy or 0.0)
        if (busy.busy or 0.0) >= _FULL:
            return f"{busy.name}: its thread is busy {busy.busy:.0%} of the time, all cores together {self.load:.0%}"
        return f"the pace of the sources or a wait: {self.load:.0%} of {self.cores} cores are used; {most}"


def measurement_text(measured: Measurement, *, title: str) -> str:
    """The measurement for people."""
    streams = f"{measured.streams} {'stream' if measured.streams == 1 else 'streams'}"
    rows = [("part", "CPU ms/frame", "share", "busy")]
    for part in measured.parts:
        share = part.cpu_ms_per_frame / measured.cpu_ms_per_frame if measured.cpu_ms_per_frame else 0.0
        busy = "" if part.busy is None else f"{part.busy:.0%}"
        rows.append((part.name, f"{part.cpu_ms_per_frame:.3f}", f"{share:.0%}", busy))
    rows.append(("all", f"{measured.cpu_ms_per_frame:.3f}", "100%", ""))
    limit = f"{measured.limit_fps:.1f} frames/s if {measured.cores} cores did nothing else"
    per_stream = f", {measured.fps / measured.streams:.1f} each" if measured.streams > 1 else ""
    return "\n".join(
        (
            f"{title}: {streams}, {measured.frames} frames in {measured.seconds:.1f} s",
            f"{measured.fps:.1f} frames/s{per_stream}",
            columns(rows, indent="  "),
            f"bottleneck: {measured.bottleneck()}",
            f"limit: {limit}; this run reached {measured.load:.0%} of it",
        )
    )


Plain = Mapping[str, Any]
_MOST_LABELS = 6


def summary(report: Plain) -> str:
    """The summary of a report in its plain form (`Report.to_json`)."""
    frames, seconds = report["frames"], report["wall_seconds"]
    head = f"{frames} frames in {seconds:.1f} s: {report['fps']:.1f} frames/s on {report['device']}"
    parts = [head, columns(_stream_rows(report["streams"]), indent="  ")]
    counts = columns(_total_rows(report["totals"]), indent="  ")
    if counts:
        parts += ["counted", counts]
    if report["deliveries"]:
        parts += ["delivered", columns(_delivery_rows(report["deliveries"]), indent="  ")]
    if report["outputs"]:
        parts += ["written", *(f"  {_shown(path)}" for path in report["outputs"])]
    if report["lost_outputs"]:
        parts += ["not written completely", *(f"  {name}: {text}" for name, text in report["lost_outputs"].items())]
    return "\n".join(part for part in parts if part)


def _stream_rows(streams: Mapping[str, Plain]) -> Iterator[tuple[str, ...]]:
    for name, stream in streams.items():
        yield name, f"{stream['processed']} frames", f"{stream['fps']:.1f} frames/s", _of_stream(stream)


def _of_stream(stream: Plain) -> str:
    parts = _seen(stream["objects"])
    parts += [f"{count} dropped ({reason})" for reason, count in stream["dropped"].items() if count]
    damaged = stream["damaged_packets"] + stream["damaged"]
    parts += [f"{damaged} damaged"] if damaged else []
    parts += [f"reconnected {stream['reconnects']} times"] if stream["reconnects"] else []
    parts += [f"{stream['state']}: {stream['error']}"] if stream.get("error") else []
    return ", ".join(parts) or "nothing found"


def _seen(labels: Mapping[str, Plain]) -> list[str]:
    """The labels seen most often: how many different objects where they were tracked, and how many boxes in all."""
    often = sorted(labels.items(), key=lambda item: (-item[1]["tracks"], -item[1]["objects"], item[0]))
    parts = [
        f"{label}: {count['tracks']} tracked in {count['objects']} boxes"
        if count["tracks"]
        else f"{label}: {count['objects']} boxes"
        for label, count in often[:_MOST_LABELS]
    ]
    return [*parts, f"{len(often) - _MOST_LABELS} more labels"] if len(often) > _MOST_LABELS else parts


def _total_rows(totals: Mapping[str, Plain]) -> Iterator[tuple[str, str]]:
    for element, counts in totals.items():
        for name, value in counts.items():
            yield f"{element} {name}", _flat(value)


def _delivery_rows(deliveries: Mapping[str, Plain]) -> Iterator[tuple[str, str, str]]:
    for name, one in deliveries.items():
        error = one.get("error", "")
        parts = [] if one["address"] in error else [f"to {one['address']}"]
        parts += [f"{one['waiting']} wait for the next run"] if one["waiting"] else []
        parts += [f"{one['refused']} refused"] if one["refused"] else []
        parts += [f"{count} dropped ({reason})" for reason, count in one["dropped"].items() if count]
        parts += [error] if error else []
        yield name, f"{one['delivered']} records", ", ".join(parts)


def _flat(value: object) -> str:
    """Nested counts on one line: `gate: in 3, out 2`."""
    if isinstance(value, list) and all(isinstance(one, Mapping) for one in value):
        return "; ".join(map(_flat, value))
    if not isinstance(value, Mapping):
        return str(value)
    nested = any(isinstance(inner, Mapping) for inner in value.values())
    parts = [
        f"{name}: {_flat(inner)}" if isinstance(inner, Mapping) else f"{name} {inner}" for name, inner in value.items()
    ]
    return ("; " if nested else ", ").join(parts)


def _shown(path: str) -> str:
    """A path as it is found from the working directory."""
    return str(Path(path).relative_to(Path.cwd())) if Path(path).is_relative_to(Path.cwd()) else path
