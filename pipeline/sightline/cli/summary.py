"""What a run has done, for people: frames and speed, what was seen on each stream, counts of rules, files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sightline.cli.text import columns

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
    if report["outputs"]:
        parts += ["written", *(f"  {_shown(path)}" for path in report["outputs"])]
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


def _flat(value: object) -> str:
    """Nested counts on one line: `gate: in 3, out 2`."""
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
