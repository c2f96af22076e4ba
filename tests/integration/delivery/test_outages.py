"""Whole pipelines at 200 records a second while their destination is away: every record arrives, and nothing slows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka import Consumer
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from tests.integration.delivery.kafka_cluster import KafkaCluster
from tests.integration.delivery.mosquitto import broker
from tests.integration.delivery.nats_server import new_server
from tests.integration.delivery.postgresql import postgresql
from tests.integration.delivery.rabbitmq import RabbitMq
from tests.integration.delivery.redis_server import RedisServer
from tests.integration.delivery.servers import Server
from tests.integration.delivery.test_nats import read_all
from tests.integration.delivery.web_server import Exchange, Request, web_server
from tests.integration.figures import MEASURING, Record, form
from tests.integration.telemetry.collector import Collector, collector
from tests.ports import free_port
from tests.waiting import LIMIT_SECONDS, wait_until

Started = TypeVar("Started", bound=Server)
STREAMS = ("gate", "yard")
FPS = 100
AWAY_SECONDS = form(10.0 if MEASURING else 5.0, long=60.0)
_MB = 1e6
Identity = tuple[str, int, int]


@dataclass
class Destination:
    """A server that can go away and come back, the step that delivers there, and what it has received."""

    step: Mapping[str, object]
    away: Callable[[], None]
    back: Callable[[], None]
    received: Callable[[], Sequence[Identity]]


@contextmanager
def postgres(folder: Path) -> Iterator[Destination]:
    del folder
    with postgresql() as server:

        def rows() -> list[Identity]:
            lines = server.psql("SELECT stream, epoch, seq FROM sightline ORDER BY stream, epoch, seq")
            return [(stream, int(epoch), int(seq)) for stream, epoch, seq in (line.split("|") for line in lines)]

        yield Destination({"postgres": {"url": server.url(), "timeout": "2s"}}, server.kill, server.start, rows)


@contextmanager
def redis(folder: Path) -> Iterator[Destination]:
    with started(RedisServer(folder, "--appendfsync", "always")) as server:

        def entries() -> list[Identity]:
            keys = [f"sightline:outage:{name}:frames" for name in STREAMS]
            return [(one["stream"], int(one["epoch"]), int(one["seq"])) for key in keys for one in server.entries(key)]

        step = {"redis": {"url": f"redis://127.0.0.1:{server.port}", "timeout": "2s"}}
        yield Destination(step, server.kill, server.start, entries)


@contextmanager
def nats(folder: Path) -> Iterator[Destination]:
    with started(new_server(folder)) as server:

        def messages() -> list[Identity]:
            found = [json.loads(message.data) for message in read_all(server)]
            return [(one["stream"], one["epoch"], one["seq"]) for one in found]

        step = {"nats": {"url": f"nats://127.0.0.1:{server.port}", "timeout": "2s"}}
        yield Destination(step, server.kill, server.start, messages)


@contextmanager
def kafka(folder: Path) -> Iterator[Destination]:
    """The mock cluster keeps its messages in memory: it is stopped and goes on, and is not killed."""
    with started(KafkaCluster(folder)) as cluster, consumer_of(cluster, "sightline.frames") as read:
        step = {"kafka": {"url": f"kafka://{cluster.address}", "timeout": "2s"}}
        yield Destination(step, cluster.hang, cluster.go_on, read)


@contextmanager
def consumer_of(cluster: KafkaCluster, topic: str) -> Iterator[Callable[[], Sequence[Identity]]]:
    """A consumer group that reads a topic; the function returns what it has read so far.

    A long outage would end the session of the group, and a new one begins where offsets were committed last: what
    stands at one offset is one record, however often it is read.
    """
    settings = {"bootstrap.servers": cluster.address, "group.id": "outage", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "session.timeout.ms": 300_000, "max.poll.interval.ms": 600_000, "log_level": 0})
    consumer.subscribe([topic])
    received: dict[tuple[int | None, int | None], Identity] = {}

    def read() -> Sequence[Identity]:
        for message in consumer.consume(1000, timeout=0.2):
            if message.error() is None:
                one = json.loads(message.value() or b"")
                received[message.partition(), message.offset()] = one["stream"], one["epoch"], one["seq"]
        return [*received.values()]

    try:
        yield read
    finally:
        consumer.close()


@contextmanager
def amqp(folder: Path) -> Iterator[Destination]:
    server = RabbitMq(folder)
    with ExitStack() as stack:
        stack.callback(server.end)
        server.start()
        with server.connection() as connection:
            channel = connection.channel()
            channel.exchange_declare("sightline", "topic", durable=True)
            channel.queue_declare("all", durable=True)
            channel.queue_bind("all", "sightline", "#")
        received: list[Identity] = []

        def drain() -> list[Identity]:
            """Take what is there now: new records come all the time, on a busy machine faster than they are taken."""
            with server.connection() as connection:
                channel = connection.channel()
                channel.basic_qos(prefetch_count=500)
                count = channel.queue_declare("all", durable=True, passive=True).method.message_count
                for method, _, body in islice(channel.consume("all"), count):
                    one = json.loads(body)
                    received.append((one["stream"], one["epoch"], one["seq"]))
                    channel.basic_ack(method.delivery_tag)
                channel.cancel()
            return received

        yield Destination({"amqp": {"url": server.url(), "timeout": "2s"}}, server.kill, server.start, drain)


@contextmanager
def mqtt(folder: Path) -> Iterator[Destination]:
    """The broker writes the subscriber's session to disk when it ends, so that what it acknowledged is not lost with
    it. It is not killed: what it acknowledged in the last moment could then be lost, however often it writes.
    """
    kept = ("persistence true", f"persistence_location {folder}/")
    settings = ("allow_anonymous true", "max_inflight_messages 0", *kept)
    with broker(folder, *settings) as server:
        received: list[Identity] = []

        def keep(client: Client, userdata: object, message: MQTTMessage) -> None:
            del client, userdata
            one = json.loads(message.payload)
            received.append((one["stream"], one["epoch"], one["seq"]))

        reader = Client(CallbackAPIVersion.VERSION2, client_id="reader", clean_session=False)
        reader.on_connect = lambda client, *_: client.subscribe("sightline/+/+/frames", qos=1)
        reader.on_message = keep
        reader.reconnect_delay_set(1, 1)
        reader.connect("127.0.0.1", server.port)
        reader.loop_start()
        wait_until(lambda: "Sending SUBACK to reader" in server.log)
        try:
            step = {"mqtt": {"url": f"mqtt://127.0.0.1:{server.port}", "timeout": "2s"}}
            yield Destination(step, server.terminate, server.start, lambda: received)
        finally:
            reader.disconnect()
            reader.loop_stop()


@contextmanager
def webhook(folder: Path) -> Iterator[Destination]:
    """A web service whose port is closed for a while, and its connections broken off."""
    del folder
    received: list[Identity] = []

    def keep(exchange: Exchange, request: Request) -> None:
        received.extend((one["stream"], one["epoch"], one["seq"]) for one in json.loads(request.body))
        exchange.answer(200)

    port, running = free_port(), ExitStack()

    def back() -> None:
        running.enter_context(web_server(keep, port=port))

    back()
    try:
        step = {"webhook": {"url": f"http://127.0.0.1:{port}/{{stream}}", "timeout": "2s"}}
        yield Destination(step, running.close, back, lambda: received)
    finally:
        running.close()


@contextmanager
def otlp(folder: Path) -> Iterator[Destination]:
    """A collector whose port is closed for a while, and its connections broken off."""
    del folder
    found, port, running = Collector(), free_port(), ExitStack()

    def back() -> None:
        running.enter_context(collector(port=port, into=found))

    def received() -> list[Identity]:
        names = ("sightline.stream", "sightline.epoch", "sightline.seq")
        values = [[log.attributes[name] for name in names] for log in found.logs]
        return [(str(stream), int(epoch), int(seq)) for stream, epoch, seq in values]

    back()
    try:
        step = {"otlp": {"url": f"http://127.0.0.1:{port}", "timeout": "2s"}}
        yield Destination(step, running.close, back, received)
    finally:
        running.close()


@contextmanager
def started(server: Started) -> Iterator[Started]:
    """A server that runs while the context is open."""
    server.start()
    try:
        yield server
    finally:
        server.go_on()
        server.kill()


DESTINATIONS: Mapping[str, Callable[[Path], AbstractContextManager[Destination]]] = {
    "amqp": amqp,
    "kafka": kafka,
    "mqtt": mqtt,
    "nats": nats,
    "otlp": otlp,
    "postgres": postgres,
    "redis": redis,
    "webhook": webhook,
}


@dataclass
class Running:
    """`sightline run` with a record for each frame, watched from outside."""

    folder: Path
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, folder: Path, destination: Destination) -> Running:
        sources = {
            name: {"pattern": "counter", "size": [64, 48], "fps": FPS, "frames": None, "realtime": True}
            for name in STREAMS
        }
        steps: list[object] = [{"jsonl": "out/{stream}.jsonl"}, destination.step]
        document = {"name": "outage", "sources": sources, "outbox": {"linger": "60s"}, "pipeline": steps}
        (folder / "outage.yaml").write_text(json.dumps(document))  # JSON is YAML
        command = [sys.executable, "-m", "sightline.cli.main", "run", "outage.yaml", "--report", "report.json"]
        with (folder / "log").open("wb") as log:
            return cls(folder, subprocess.Popen(command, cwd=folder, stdout=log, stderr=log))

    def frames(self) -> int:
        paths = [self.folder / "out" / f"{name}.jsonl" for name in STREAMS]
        return sum(path.read_bytes().count(b"\n") for path in paths if path.exists())

    def resident_mb(self) -> float:
        resident = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(resident) * os.sysconf("SC_PAGE_SIZE") / _MB

    def wait_for(self, frames: int) -> None:
        wait_until(lambda: self.process.poll() is not None or self.frames() >= frames)
        assert self.process.poll() is None, (self.folder / "log").read_text()

    def stop(self) -> Mapping[str, Any]:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(LIMIT_SECONDS) == 0, (self.folder / "log").read_text()
        report: Mapping[str, Any] = json.loads((self.folder / "report.json").read_text())
        return report


@pytest.mark.row(id="C1", long=True)
@pytest.mark.parametrize("name", DESTINATIONS)
def test_every_record_arrives_after_an_outage(name: str, tmp_path: Path, figure: Record) -> None:
    (tmp_path / "server").mkdir()
    with ExitStack() as stack:
        destination = stack.enter_context(DESTINATIONS[name](tmp_path / "server"))
        running = Running.start(tmp_path, destination)
        stack.callback(running.process.kill)
        running.wait_for(2 * FPS)
        wait_until(lambda: len(destination.received()) > FPS)
        began, frames, memory = time.monotonic(), running.frames(), running.resident_mb()

        destination.away()
        running.wait_for(frames + round(AWAY_SECONDS * FPS * len(STREAMS)))
        seconds, during = time.monotonic() - began, running.frames() - frames
        memory_away = running.resident_mb()

        destination.back()
        back, there = time.monotonic(), running.frames()
        wait_until(lambda: len(set(destination.received())) >= there)
        caught_up = time.monotonic() - back
        report = running.stop()
        made = sum(stream["processed"] for stream in report["streams"].values())
        left = sum(one["waiting"] for one in report["deliveries"].values())
        wait_until(lambda: len(set(destination.received())) >= made - left)
        received = list(destination.received())

    kept = list(dict.fromkeys(received))
    assert made - left <= len(kept) <= made  # some that wait may have arrived: their acknowledgement came too late
    for stream in STREAMS:
        assert [seq for one, _, seq in kept if one == stream] == list(range(sum(one[0] == stream for one in kept)))
    figure(f"{name}: share of records that came twice", 1 - len(kept) / len(received), limit=0.01, unit="x")
    figure(f"{name}: memory during the outage", memory_away - memory, limit=20.0, unit="MB")
    figure(f"{name}: caught up", caught_up, limit=10.0, unit="s")
    figure(f"{name}: lost frame rate", 1 - during / seconds / FPS / len(STREAMS), limit=0.02, unit="x")
    assert not any(report["deliveries"][f"{name}-1"]["dropped"].values())
