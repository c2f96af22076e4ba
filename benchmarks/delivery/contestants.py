"""The destinations: a real server, the step that delivers there, and the plain loop beside it.

A plain loop gives the guarantee of the step: every record is acknowledged before it returns. It sends the body, and of
the rest what a receiver needs to order records or to drop doubles.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.integration.delivery.kafka_cluster import KafkaCluster
from tests.integration.delivery.mosquitto import Mosquitto
from tests.integration.delivery.nats_server import new_server
from tests.integration.delivery.postgresql import postgresql
from tests.integration.delivery.rabbitmq import RabbitMq
from tests.integration.delivery.redis_server import RedisServer
from tests.integration.delivery.servers import Server

from benchmarks.delivery.web import web_server
from sightline.graph.transport import Record
from sightline_plugins import Amqp, Kafka, Mqtt, Nats, Postgres, Redis, Webhook
from sightline_plugins.delivery.element import Delivery

AT_ONCE = 500
IN_A_REQUEST = 100
Started = TypeVar("Started", bound=Server)


@dataclass(frozen=True)
class Contestant:
    """A destination: the step that delivers there, and the plain loop beside it."""

    element: Delivery
    plain: Callable[[Sequence[Record]], None]


@contextmanager
def started(make: Callable[[Path], Started]) -> Iterator[Started]:
    """Run a server in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="sightline-delivery-", ignore_cleanup_errors=True) as folder:
        server = make(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.end() if isinstance(server, RabbitMq) else server.kill()


@contextmanager
def mqtt() -> Iterator[Contestant]:
    """Mosquitto: QoS 1, all published, then all awaited."""
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion

    with started(lambda folder: Mosquitto(folder, "allow_anonymous true", "log_type none")) as server:

        def plain(records: Sequence[Record]) -> None:
            client = Client(CallbackAPIVersion.VERSION2)
            client.connect("127.0.0.1", server.port)
            client.loop_start()
            for message in [client.publish(one.to, one.body, qos=1) for one in records]:
                message.wait_for_publish()
            client.disconnect()
            client.loop_stop()

        yield Contestant(Mqtt(url=f"mqtt://127.0.0.1:{server.port}"), plain)


@contextmanager
def nats() -> Iterator[Contestant]:
    """NATS: JetStream, 500 published before their acknowledgements are awaited, with ids against doubles."""
    from nats.aio.client import Client

    async def publish(url: str, records: Sequence[Record]) -> None:
        client = Client()
        await client.connect(url)
        stream = client.jetstream()
        await stream.add_stream(name="PLAIN", subjects=["plain.>"])
        for first in range(0, len(records), AT_ONCE):
            acknowledged = []
            for one in records[first : first + AT_ONCE]:
                headers = {"Nats-Msg-Id": f"{one.stream}/{one.epoch}/{one.seq}"}
                acknowledged.append(await stream.publish_async(f"plain.{one.to}", one.body, headers=headers))
            await asyncio.gather(*acknowledged)
        await client.close()

    with started(new_server) as server:
        url = f"nats://127.0.0.1:{server.port}"
        yield Contestant(Nats(url=url), lambda records: asyncio.run(publish(url, records)))


@contextmanager
def redis() -> Iterator[Contestant]:
    """Redis, which writes to disk once a second: XADD, 500 in a pipeline."""
    from redis import Redis as Client

    with started(RedisServer) as server:

        def plain(records: Sequence[Record]) -> None:
            with Client(port=server.port) as client:
                for first in range(0, len(records), AT_ONCE):
                    pipeline = client.pipeline(transaction=False)
                    for one in records[first : first + AT_ONCE]:
                        pipeline.xadd(f"plain:{one.to}", {"body": one.body})
                    pipeline.execute()

        yield Contestant(Redis(url=f"redis://127.0.0.1:{server.port}"), plain)


@contextmanager
def kafka() -> Iterator[Contestant]:
    """Kafka (the mock cluster of librdkafka, one broker): `acks=all`, idempotent, all produced, then flushed."""
    from confluent_kafka import Producer

    with started(KafkaCluster) as cluster:
        # Kept, as a careful user does: an idempotent producer takes up to a second until it may begin.
        producer = Producer({"bootstrap.servers": cluster.address, "acks": "all", "enable.idempotence": True})

        def plain(records: Sequence[Record]) -> None:
            failed: list[object] = []

            def report(error: object, _message: object) -> None:
                if error is not None:
                    failed.append(error)

            for one in records:
                while True:
                    try:
                        producer.produce(one.to, one.body, key=one.stream, on_delivery=report)
                        break
                    except BufferError:
                        producer.poll(0.1)
                producer.poll(0)
            producer.flush()
            if failed:
                raise SystemExit(f"the plain loop lost records: {failed[0]}")

        yield Contestant(Kafka(url=f"kafka://{cluster.address}"), plain)


@contextmanager
def amqp() -> Iterator[Contestant]:
    """RabbitMQ: persistent, into a durable queue; `BlockingChannel` waits for the confirm of each record."""
    from pika import BasicProperties

    with started(RabbitMq) as server:
        with server.connection() as connection:
            channel = connection.channel()
            channel.exchange_declare("sightline", "topic", durable=True)
            channel.queue_declare("all", durable=True)
            channel.queue_bind("all", "sightline", "#")

        def plain(records: Sequence[Record]) -> None:
            properties = BasicProperties(content_type="application/json", delivery_mode=2)
            with server.connection() as connection:
                channel = connection.channel()
                channel.queue_purge("all")
                channel.confirm_delivery()
                for one in records:
                    channel.basic_publish("sightline", one.to, one.body, properties)

        yield Contestant(Amqp(url=server.url()), plain)


@contextmanager
def postgres() -> Iterator[Contestant]:
    """PostgreSQL: rows by `executemany`, a transaction for each 500."""
    import psycopg

    with postgresql() as server:
        with psycopg.connect(server.url()) as connection:
            connection.execute("CREATE TABLE plain(stream text, epoch bigint, seq bigint, record jsonb)")

        def plain(records: Sequence[Record]) -> None:
            with psycopg.connect(server.url()) as connection, connection.cursor() as cursor:
                for first in range(0, len(records), AT_ONCE):
                    rows = [
                        (one.stream, one.epoch, one.seq, one.body.decode()) for one in records[first : first + AT_ONCE]
                    ]
                    cursor.executemany("INSERT INTO plain VALUES (%s, %s, %s, %s)", rows)
                    connection.commit()

        yield Contestant(Postgres(url=server.url()), plain)


@contextmanager
def webhook() -> Iterator[Contestant]:
    """A web service: 100 records in a request, on one connection."""
    with web_server() as url:
        yield Contestant(Webhook(url=url), lambda records: _post(url, records, size=IN_A_REQUEST))


@contextmanager
def webhook_single() -> Iterator[Contestant]:
    """A web service: one record in a request, on one connection."""
    with web_server() as url:
        yield Contestant(Webhook(url=url, batch=1), lambda records: _post(url, records, size=1))


def _post(url: str, records: Sequence[Record], *, size: int) -> None:
    import urllib3

    pool = urllib3.PoolManager()
    for first in range(0, len(records), size):
        bodies = [one.body for one in records[first : first + size]]
        body = bodies[0] if size == 1 else b"[" + b",".join(bodies) + b"]"
        answer = pool.request("POST", url, body=body, headers={"Content-Type": "application/json"})
        if answer.status != 200:
            raise SystemExit(f"the plain loop got {answer.status}")


DESTINATIONS: Mapping[str, Callable[[], AbstractContextManager[Contestant]]] = {
    "mqtt": mqtt,
    "nats": nats,
    "redis": redis,
    "kafka": kafka,
    "amqp": amqp,
    "postgres": postgres,
    "webhook": webhook,
    "webhook, one a request": webhook_single,
}
