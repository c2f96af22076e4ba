"""Delivery: records a second through the outbox beside the plain client in a loop, and what it costs a pipeline.

    python -m benchmarks.delivery [--records 20000] [--rounds 3] [--only mqtt ...]
    python -m benchmarks.delivery --pipeline [--data ../shared/data] [--frames 2400] [--rounds 5]

Servers are the real ones, on this machine, except Kafka: librdkafka's mock cluster. Both ways send the same records of
300 bytes, in turn. The plain loop is what a careful user writes with the same client: it sends many records before it
waits for their acknowledgement, or as many in a request as ours; it keeps nothing on disk. `--pipeline` compares the
CPU time a frame of a pipeline (FastestDet, tracking, JSON lines, four files) without and with a step that delivers
every frame.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.integration.delivery.postgresql import postgresql
from tests.integration.delivery.web_server import web_server

from benchmarks.graph_passes import DATA
from benchmarks.pipelines.document import machine
from sightline import Pipeline
from sightline.devices import Device
from sightline.graph import Message, Outputs, Site
from sightline.graph.site import SystemClock
from sightline.graph.transport import Record
from sightline.runtime.delivery.outbox import RunOutbox
from sightline_plugins.delivery.element import Delivery

BODY = 300
AT_ONCE = 10
BATCH = 500
TARGET = 0.8
PLAIN = Callable[[Sequence[Record]], None]


@dataclass(frozen=True)
class Contestant:
    """A destination: the step that delivers there, and the plain loop beside it."""

    element: Delivery
    plain: PLAIN


@contextmanager
def postgres() -> Iterator[Contestant]:
    """PostgreSQL: rows by `executemany`, a transaction for each 500."""
    import psycopg

    from sightline_plugins import Postgres

    with postgresql() as server:
        with psycopg.connect(server.url()) as connection:
            connection.execute("CREATE TABLE plain(stream text, epoch bigint, seq bigint, record jsonb)")

        def plain(records: Sequence[Record]) -> None:
            with psycopg.connect(server.url()) as connection, connection.cursor() as cursor:
                for first in range(0, len(records), BATCH):
                    rows = [
                        (one.stream, one.epoch, one.seq, one.body.decode()) for one in records[first : first + BATCH]
                    ]
                    cursor.executemany("INSERT INTO plain VALUES (%s, %s, %s, %s)", rows)
                    connection.commit()

        yield Contestant(Postgres(url=server.url()), plain)


@contextmanager
def webhook() -> Iterator[Contestant]:
    """A web service: 100 records in a request, on one connection."""
    import urllib3

    from sightline_plugins import Webhook

    with web_server(lambda exchange, _: exchange.answer(200)) as asked:

        def plain(records: Sequence[Record]) -> None:
            pool = urllib3.PoolManager()
            for first in range(0, len(records), 100):
                body = b"[" + b",".join(one.body for one in records[first : first + 100]) + b"]"
                pool.request("POST", asked.url, body=body, headers={"Content-Type": "application/json"})
            asked.requests.clear()

        yield Contestant(Webhook(url=asked.url), plain)


DESTINATIONS: dict[str, Callable[[], Any]] = {"postgres": postgres, "webhook": webhook}


def records(count: int, element: Delivery, *, epoch: int) -> list[Record]:
    """Return records of two streams, in turn."""
    made, to = [], {name: element.address(name, "events", pipeline="benchmark") for name in ("gate", "yard")}
    for number in range(count):
        stream = ("gate", "yard")[number % 2]
        body = json.dumps({"stream": stream, "epoch": epoch, "seq": number // 2, "record": "events"})
        padded = f'{body[:-1]}, "text": "{"x" * (BODY - len(body) - 12)}"}}'.encode()
        made.append(Record(stream, epoch, number // 2, "events", to[stream], padded, time.time_ns()))
    return made


def through_outbox(element: Delivery, made: Sequence[Record], folder: Path) -> float:
    """Return the seconds from the first record put until the last is acknowledged."""
    messages: list[Message] = []
    outputs, clock = Outputs(folder), SystemClock()
    outbox = RunOutbox(folder / "run.outbox", outputs=outputs, clock=clock, post=messages.append)
    site = Site(Device(), element_id="delivery", pipeline="benchmark", outputs=outputs, outbox=outbox)
    mailbox = outbox.mailbox("delivery", address=element.destination(), transport=element.transport(site))
    began = time.perf_counter()
    for first in range(0, len(made), AT_ONCE):
        mailbox.put(made[first : first + AT_ONCE])
        while outbox.stats[0].depth > 10_000:
            time.sleep(0.001)
    while outbox.stats[0].depth:
        time.sleep(0.0005)
    seconds = time.perf_counter() - began
    outbox.linger(at_most_ns=0)
    outbox.close()
    if messages or outbox.stats[0].delivered != len(made):
        raise SystemExit(f"not everything was delivered: {[one.text for one in messages]}")
    return seconds


def throughput(asked: argparse.Namespace) -> Iterator[str]:
    """The lines of the table of throughput."""
    yield "| destination | records a second, plain loop | through the outbox | ratio |\n|---|---:|---:|---:|"
    epoch = int(time.time())
    for name in asked.only or DESTINATIONS:
        with DESTINATIONS[name]() as contestant:
            element, rounds = contestant.element, []
            for _ in range(asked.rounds):
                epoch += 1
                made = records(asked.records, element, epoch=epoch)
                with tempfile.TemporaryDirectory() as folder:
                    ours = through_outbox(element, made, Path(folder))
                began = time.perf_counter()
                contestant.plain(made)
                rounds.append((ours, time.perf_counter() - began))
        plain, own = (statistics.median(asked.records / one[index] for one in rounds) for index in (1, 0))
        ratio = statistics.median(one[1] / one[0] for one in rounds)
        verdict = "" if ratio >= TARGET else " (missed)"
        yield f"| {name} | {plain:,.0f} | {own:,.0f} | {ratio:.2f}{verdict} |"


def child(case: dict[str, Any]) -> None:
    """Run a pipeline without or with delivery, and print the CPU time a frame."""
    data = Path(case["data"])
    steps: list[Any] = [
        {"detect": {"model": str(data / "models/FastestDet.onnx"), "labels": str(data / "models/coco80.names")}},
        "track",
        {"jsonl": "{stream}.jsonl"},
    ]
    if case["url"]:
        steps.append({urlsplit(case["url"]).scheme.replace("http", "webhook"): {"url": case["url"]}})
    clip = str(data / "videos" / "street-cars-640x360.mp4")
    with tempfile.TemporaryDirectory() as folder:
        sources = {f"stream{number}": {"uri": clip, "loop": True} for number in range(4)}
        report = Pipeline(sources=sources, steps=steps, outputs=folder).run(frames=case["frames"] // 4)
    delivered = sum(one.delivered for one in report.deliveries)
    print(json.dumps({"cpu_ms": 1000 * report.cpu_seconds / report.frames, "fps": report.fps, "delivered": delivered}))


def in_pipeline(asked: argparse.Namespace) -> Iterator[str]:
    """The lines of the table of what delivery costs a pipeline."""
    yield "| destination | CPU ms a frame without | with | ratio | fps without | with |\n|---|---:|---:|---:|---:|---:|"
    for name in asked.only or DESTINATIONS:
        with DESTINATIONS[name]() as contestant:
            rounds = []
            for _ in range(asked.rounds):
                found = []
                for url in ("", contestant.element.url):
                    case = {"data": str(asked.data), "frames": asked.frames, "url": url}
                    command = [sys.executable, "-m", "benchmarks.delivery", "--child", json.dumps(case)]
                    done = subprocess.run(command, capture_output=True, text=True, check=True)
                    found.append(json.loads(done.stdout.splitlines()[-1]))
                rounds.append(found)
        middle = [
            [statistics.median(one[index][key] for one in rounds) for index in (0, 1)] for key in ("cpu_ms", "fps")
        ]
        ratio = statistics.median(one[1]["cpu_ms"] / one[0]["cpu_ms"] for one in rounds)
        (before, after), (fps_before, fps_after) = middle
        yield f"| {name} | {before:.3f} | {after:.3f} | {ratio:.3f} | {fps_before:.0f} | {fps_after:.0f} |"


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.delivery", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--frames", type=int, default=2_400, help="of all streams together, with --pipeline")
    parser.add_argument("--only", nargs="+", choices=DESTINATIONS)
    parser.add_argument("--pipeline", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child is not None:
        child(json.loads(asked.child))
        return
    print(f"{datetime.now(UTC):%Y-%m-%d}, {machine()}, {asked.rounds} rounds in turn\n")
    for line in in_pipeline(asked) if asked.pipeline else throughput(asked):
        print(line, flush=True)


if __name__ == "__main__":
    main()
