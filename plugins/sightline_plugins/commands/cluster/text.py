"""A cluster as text."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from sightline.cli.text import columns
from sightline.cluster.model import ClusterStatus, WorkerStatus
from sightline.cluster.wire import status_from
from sightline.redaction import redact

_SHOWN_EVENTS = 20


def status_text(answer: Mapping[str, Any]) -> str:
    """What a controller answered: workers, their streams with epochs, what moves or waits, and the last events."""
    status = status_from(answer["status"])
    streams: defaultdict[str, list[str]] = defaultdict(list)
    for name, (worker, epoch) in sorted(status.assignment.items()):
        streams[worker].append(f"{name}@{epoch}")
    rows = [("worker", "state", "streams", "load", "capacity", "labels")]
    rows += [_row(one) for one in status.workers]
    present = sum(one.is_present for one in status.workers)
    parts = [
        f"term {status.term}: {len(status.assignment)} streams on {present} workers, imbalance {status.imbalance:.0%}",
        columns(rows, indent="  ")
        if status.workers
        else "  no worker has joined yet: start `sightline cluster worker`",
    ]
    if streams:
        parts += [
            "streams and their epochs",
            columns([(name, "  ".join(own)) for name, own in sorted(streams.items())], indent="  "),
        ]
    parts += _notes(status)
    if status.rollout.wanted:
        parts.append(_rollout(status))
    if answer["events"]:
        parts += ["events", columns(map(_event, answer["events"][-_SHOWN_EVENTS:]), indent="  ")]
    return redact("\n".join(parts))


def _rollout(status: ClusterStatus) -> str:
    """How far a changed configuration has come."""
    one = status.rollout
    if one.wanted == one.accepted:
        return f"configuration {one.accepted}"
    if one.problem:
        return (
            f"configuration {one.accepted}; {one.wanted} was rolled back: {one.problem}\n"
            "  change the file, or remove the cause and give `sightline cluster retry`"
        )
    present = sum(worker.is_present for worker in status.workers)
    trying = f"; {one.trying} has it on probation" if one.trying else ""
    which = f" ({', '.join(one.proved)})" if one.proved else ""
    text = f"configuration {one.wanted} is rolled out: {len(one.proved)} of {present} workers have proved it{which}"
    return f"{text}{trying}; the others run {one.accepted}"


def _row(worker: WorkerStatus) -> tuple[str, str, str, str, str, str]:
    state = "lost" if not worker.is_present else "draining" if worker.is_draining else "present"
    labels = ", ".join(f"{name}={value}" for name, value in sorted(worker.labels.items()))
    return worker.name, state, str(worker.streams), f"{worker.load:.0f} fps", f"{worker.capacity:.0f} fps", labels


def _notes(status: ClusterStatus) -> Iterator[str]:
    if status.moving:
        yield f"moving: {', '.join(status.moving)}"
    for title, found in (
        ("waiting", status.waiting),
        ("refused streams", status.refused),
        ("refused workers", status.refused_workers),
    ):
        if found:
            yield title
            yield columns(sorted(found.items()), indent="  ")


def _event(event: Mapping[str, Any]) -> tuple[str, str, str]:
    return time.strftime("%H:%M:%S", time.localtime(event.get("time_ns", 0) / 1e9)), event["kind"], event["text"]
