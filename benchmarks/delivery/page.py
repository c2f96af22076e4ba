"""The page `docs/benchmarks/delivery.md`."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks.pipelines.document import machine

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "delivery.md"
_PACKAGES = ("paho-mqtt", "nats-py", "redis", "confluent-kafka", "pika", "psycopg", "urllib3", "pyarrow")
_SERVERS = {
    "Mosquitto": ("mosquitto", "-h"),
    "NATS": ("nats-server", "--version"),
    "Redis": ("redis-server", "--version"),
    "PostgreSQL": ("postgres", "--version"),
}
_RABBITMQ = Path("/usr/lib/rabbitmq/lib")
_TEXT = """\
# Delivery

The cost of network destinations: records a second through the outbox beside the plain client in a loop, rows a second
into SQLite and Parquet, and the CPU time that delivery adds to a pipeline.

    python -m benchmarks.delivery --write

{date}, {machine}, {rounds} rounds in turn; {records:,} records or rows a round (to a fast destination what the plain
loop sends in about a second, 100,000 at most), {frames:,} frames a run.
Clients: {clients}.
Servers, on the same machine: {servers}, librdkafka's mock cluster for Kafka, Python's `http.server` in a process of its
own for web services.

## Through the outbox

Both ways send the same records of 300 bytes, of two streams. Target: at least 0.8 times the records a second of the
plain loop.

{throughput}

- The plain loop is what a careful user writes with the same client. It returns when every record is acknowledged, and
  keeps nothing on disk. It sends many records before it waits for their acknowledgements, or as many in a request as
  the step; `pika`'s `BlockingChannel` waits for each.
- Through the outbox a record is written to disk as well, delivered by a thread of its own, and removed from the disk.
  It carries its stream, epoch, seq and kind also where the plain loop sends the body alone (MQTT, Redis, web services).
- Servers share the cores with the client. A slow server hides the cost of both ways: read the ratio with that in mind.

## Into files

Rows of objects, {objects} a frame, until the file is closed. Target: at least 20,000 rows a second.

{stores}

- The plain loops write what a person would write by hand, {at_once:,} rows at a time: `executemany` into a table with
  two indexes, and `ParquetWriter` with zstd. Ours have more columns: run, stream, time of day, attributes.
- `parquet` writes rows to an Arrow file first, which survives a kill, and makes a Parquet file of it at the end; both
  count here.

## In a pipeline

Four files, FastestDet, tracking, JSON lines, as fast as the cores allow; without and with a step that delivers every
frame. Target: less than 3 % more CPU time a frame, of the whole process.

{pipeline}
"""


def write(*, throughput: Iterable[str], stores: Iterable[str], pipeline: Iterable[str], **measured: int) -> None:
    """Write the page; `measured` are the numbers of rounds, records, frames, objects and rows at once."""
    text = _TEXT.format(
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        machine=machine(),
        clients=", ".join(f"{name} {version(name)}" for name in _PACKAGES),
        servers=", ".join(_servers()),
        throughput="\n".join(throughput),
        stores="\n".join(stores),
        pipeline="\n".join(pipeline),
        **measured,
    )
    PAGE.write_text(text, encoding="utf-8")


def _servers() -> list[str]:
    found = []
    for name, (program, option) in _SERVERS.items():
        path = shutil.which(program, path="/usr/local/bin:/usr/bin:/usr/sbin:/usr/local/sbin")
        if path is not None:
            said = subprocess.run([path, option], capture_output=True, text=True, check=False).stdout
            number = re.search(r"\d+(\.\d+)+", said)
            found.append(f"{name} {number[0]}" if number else name)
    rabbitmq = [path.name.partition("-")[2] for path in _RABBITMQ.glob("rabbitmq_server-*")]
    return [*found, *(f"RabbitMQ {number}" for number in rabbitmq)]
