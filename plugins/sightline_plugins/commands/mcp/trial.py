"""The process in which a configuration of an assistant runs: `python -m sightline_plugins.commands.mcp.trial`.

It reads what to run as JSON from standard input and writes the results as JSON to standard output. What the run writes
goes to a folder that is gone afterwards.
"""

from __future__ import annotations

import base64
import json
import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from typing import Any

from sightline.errors import ConfigurationError, SightlineError
from sightline.graph import Message, PipelineDescription
from sightline.media import Batch, Event
from sightline.pipeline import Pipeline
from sightline.redaction import redact
from sightline.server.frames_shown import FramesShown
from sightline_plugins.commands.mcp.workbench import RunRequest, Workbench, problems_of
from sightline_plugins.draw.draw import Draw
from sightline_plugins.encode.images import encode_jpeg

_MOST_EVENTS = 100
_MOST_MESSAGES = 50
_HEAD_CHARACTERS = 1_500
_TEXTS = frozenset((".csv", ".json", ".jsonl", ".txt"))
_LARGEST_WH = (960, 540)
_LOOK_SECONDS = 0.05


class _Watch:
    """Notes what happens in a run, for the answer. Called from the pipeline's threads."""

    def __init__(self, wanted: RunRequest, streams: Sequence[str]) -> None:
        self.events: list[dict[str, Any]] = []
        self.event_counts: Counter[str] = Counter()
        self.messages: list[str] = []
        self.images: list[dict[str, Any]] = []
        self._lock = Lock()
        step = wanted.seconds / max(wanted.images, 1)
        self._due_seconds = {name: [(number + 0.5) * step for number in range(wanted.images)] for name in streams}

    def note_events(self, batch: Batch, events: Sequence[Event]) -> None:
        with self._lock:
            for event in events:
                self.event_counts[f"{event.step or event.kind}.{event.rule}"] += 1
                if len(self.events) < _MOST_EVENTS:
                    frame = batch.frames[event.frame]
                    at = {"stream": frame.stream.name, "frame": frame.index, "seconds": round(frame.pts_seconds, 3)}
                    self.events.append({**at, **event.to_json()})

    def note_message(self, message: Message) -> None:
        with self._lock:
            if len(self.messages) < _MOST_MESSAGES:
                self.messages.append(redact(message.text))

    def take(self, batch: Batch, arrivals_ns: Sequence[int]) -> None:
        """Keep the images that are due: evenly over the time that was asked for."""
        del arrivals_ns
        for frame in batch.frames:
            due = self._due_seconds.get(frame.stream.name)
            if due and frame.pts_seconds >= due[0]:
                del due[: sum(one <= frame.pts_seconds for one in due)]
                jpeg = encode_jpeg(frame.surface.to_host(), largest_wh=_LARGEST_WH)
                shown = {"stream": frame.stream.name, "frame": frame.index, "seconds": round(frame.pts_seconds, 3)}
                with self._lock:
                    self.images.append({**shown, "jpeg": base64.b64encode(jpeg).decode()})


def answer_of(wanted: RunRequest) -> dict[str, Any]:
    """Run, and return what happened as plain data: `problems` when nothing could run, else the results."""
    workbench = Workbench(wanted.root, policy=wanted.policy, variables=wanted.variables)
    with tempfile.TemporaryDirectory(prefix="sightline-mcp-") as folder:
        try:
            judged = workbench.judged_text(wanted.name, wanted.text, outputs=Path(folder))
            return _run(judged.description, wanted, Path(folder))
        except ConfigurationError as error:
            return {"problems": [asdict(one) for one in problems_of(error)]}


def _run(description: PipelineDescription, wanted: RunRequest, folder: Path) -> dict[str, Any]:
    if wanted.images and not any(isinstance(step, Draw) for step in description.steps):
        description = description.model_copy(update={"steps": (*description.steps, Draw())})
    pipeline = Pipeline.from_description(description, outputs=folder)
    watch = _Watch(wanted, tuple(description.sources))
    pipeline.on_message(watch.note_message)
    pipeline.on_events(watch.note_events)
    if wanted.images:
        FramesShown(pipeline, step=None).add(watch.take)
    begin, is_cut = monotonic(), False
    pipeline.start(duration_ns=round(wanted.seconds * 1e9), fresh=True)
    while pipeline.is_running and not is_cut:
        sleep(_LOOK_SECONDS)
        is_cut = monotonic() - begin > wanted.wall_seconds
    pipeline.stop()
    failure = None
    try:
        pipeline.wait()
    except SightlineError as error:
        failure = redact(str(error))
    report = pipeline.report
    results = {} if report is None else _results(report.to_json(), folder)
    return {
        "failure": failure,
        "cut_off": f"stopped after {wanted.wall_seconds:.0f} s on the clock" if is_cut else None,
        **results,
        "event_counts": dict(watch.event_counts),
        "events": watch.events,
        "messages": watch.messages,
        "images": sorted(watch.images, key=lambda one: (one["stream"], one["frame"])),
    }


def _results(report: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return what of a report says whether the pipeline does what it should, and how fast."""
    streams = {
        name: {key: one[key] for key in ("state", "frames", "dropped", "fps", "objects") if key in one}
        for name, one in report["streams"].items()
    }
    costs = {name: one["cpu_ms_per_frame"] for name, one in report["elements"].items() if "cpu_ms_per_frame" in one}
    return {
        "device": report["device"],
        "fps": report["fps"],
        "wall_seconds": report["wall_seconds"],
        "cpu_seconds": report["cpu_seconds"],
        "streams": streams,
        "totals": report["totals"],
        "cpu_ms_per_frame": costs,
        "written": [_written(Path(path), folder) for path in report["outputs"]],
    }


def _written(path: Path, folder: Path) -> dict[str, Any]:
    """Return what a run has written, by the name that the configuration gives it; the beginning of texts with it."""
    name = str(path.relative_to(folder)) if path.is_relative_to(folder) else path.name
    if not path.is_file():
        return {"name": name}
    found: dict[str, Any] = {"name": name, "bytes": path.stat().st_size}
    if path.suffix in _TEXTS:
        with path.open(encoding="utf-8", errors="replace") as file:
            found["beginning"] = file.read(_HEAD_CHARACTERS)
    return found


def main() -> None:
    """Answer one request."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    wanted = RunRequest.model_validate_json(sys.stdin.buffer.read())
    json.dump(answer_of(wanted), sys.stdout, default=str)


if __name__ == "__main__":
    main()
