"""Records a second through the outbox, beside the plain client in a loop."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.delivery.contestants import DESTINATIONS, Contestant
from sightline.devices import Device
from sightline.graph import Message, Outputs, Site
from sightline.graph.site import SystemClock
from sightline.graph.transport import Record
from sightline.runtime.delivery.outbox import RunOutbox
from sightline_plugins.delivery.element import Delivery

TARGET = 0.8
_BODY_BYTES = 300
_PUT_AT_ONCE = 10
_MOST_WAITING = 10_000
_MOST_RECORDS = 100_000


def throughput(names: Sequence[str], *, count: int, rounds: int) -> Iterator[str]:
    """The lines of the table."""
    yield "| destination | records a second, plain loop | through the outbox | ratio |"
    yield "|---|---:|---:|---:|"
    epoch = int(time.time())
    for name in names:
        found = []
        with DESTINATIONS[name]() as contestant:
            element = contestant.element
            some = _enough(contestant, count=count, epoch=epoch)
            for _ in range(rounds):
                epoch += 1
                first, *made = records(some + 1, element, epoch=epoch)
                with tempfile.TemporaryDirectory() as folder:
                    ours = through_outbox(element, made, Path(folder), first=first)
                contestant.plain([first])
                began = time.perf_counter()
                contestant.plain(made)
                found.append((ours, time.perf_counter() - began))
        own, plain = (statistics.median(some / one[index] for one in found) for index in (0, 1))
        ratio = statistics.median(one[1] / one[0] for one in found)
        verdict = "met" if ratio >= TARGET else "missed"
        yield f"| {name} | {plain:,.0f} | {own:,.0f} | {ratio:.2f} ({verdict}) |"


def _enough(contestant: Contestant, *, count: int, epoch: int) -> int:
    """Return how many records the plain loop sends in about a second, `count` at least: the last records of a few
    wait up to 0.1 s for others, which would be most of the time of a fast destination.
    """
    made = records(count, contestant.element, epoch=epoch)
    began = time.perf_counter()
    contestant.plain(made)
    return min(max(count, round(count / (time.perf_counter() - began))), _MOST_RECORDS)


def records(count: int, element: Delivery, *, epoch: int) -> list[Record]:
    """Return records of two streams, in turn."""
    made, to = [], {name: element.address(name, "events", pipeline="benchmark") for name in ("gate", "yard")}
    for number in range(count):
        stream = ("gate", "yard")[number % 2]
        body = json.dumps({"stream": stream, "epoch": epoch, "seq": number // 2, "record": "events"})
        padded = f'{body[:-1]}, "text": "{"x" * (_BODY_BYTES - len(body) - 12)}"}}'.encode()
        made.append(Record(stream, epoch, number // 2, "events", to[stream], padded, time.time_ns()))
    return made


def through_outbox(element: Delivery, made: Sequence[Record], folder: Path, *, first: Record) -> float:
    """Return the seconds until the last record is acknowledged, from when the one before all others is."""
    messages: list[Message] = []
    outputs, clock = Outputs(folder), SystemClock()
    outbox = RunOutbox(folder / "run.outbox", outputs=outputs, clock=clock, post=messages.append)
    site = Site(Device(), element_id="delivery", pipeline="benchmark", outputs=outputs, outbox=outbox)
    mailbox = outbox.mailbox("delivery", address=element.destination(), transport=element.transport(site))
    mailbox.put([first])
    _wait_until_empty(outbox)
    began = time.perf_counter()
    for index in range(0, len(made), _PUT_AT_ONCE):
        mailbox.put(made[index : index + _PUT_AT_ONCE])
        while outbox.stats[0].depth > _MOST_WAITING:
            time.sleep(0.001)
    _wait_until_empty(outbox)
    seconds = time.perf_counter() - began
    outbox.linger(at_most_ns=0)
    outbox.close()
    if messages or outbox.stats[0].delivered != 1 + len(made):
        raise SystemExit(f"not everything was delivered: {[one.text for one in messages]}")
    return seconds


def _wait_until_empty(outbox: RunOutbox) -> None:
    while outbox.stats[0].depth:
        time.sleep(0.0005)
