"""`kafka` against librdkafka's mock cluster: what it accepts, refuses and loses, and what a consumer group reads.

No Kafka broker is to be had for tests (see `kafka_cluster.py`). What the mock cluster has not is not shown here against
a real broker: SASL, and TLS beyond its handshake.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message

from sightline.devices import Device
from sightline.errors import DestinationLost, DestinationRefused, RecordRefused
from sightline.graph import Site
from sightline.graph.transport import Record, Transport
from sightline.testing.transport_conformance import TransportConformance
from sightline_plugins import Kafka
from tests.integration.delivery.certificates import Certificates, make_certificates
from tests.integration.delivery.kafka_cluster import PRODUCE, KafkaCluster
from tests.integration.delivery.outages import STREAMS, Delivering, Identity, doubles, records, without_doubles
from tests.ports import free_port
from tests.waiting import LIMIT_SECONDS, wait_until

Make = Callable[..., Transport]
MSG_SIZE_TOO_LARGE, TOPIC_AUTHORIZATION_FAILED, NOT_LEADER = 10, 29, 6


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Three brokers for all tests of this module, each of which has topics of its own."""
    server = KafkaCluster(tmp_path_factory.mktemp("kafka"), brokers=3)
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture
def topic() -> str:
    return f"test.{uuid.uuid4()}"


@pytest.fixture
def make(cluster: KafkaCluster) -> Iterator[Make]:
    """Makes transports to the cluster; options may replace the URL."""
    made: list[Transport] = []

    def transport(**options: Any) -> Transport:
        url = f"kafka://{cluster.address}"
        made.append(Kafka(**{"url": url, "timeout": "20s", **options}).transport(Site(Device())))
        return made[-1]

    yield transport
    for one in made:
        one.close()


def read(cluster: KafkaCluster, topic: str, *, last: set[Identity]) -> list[Message]:
    """Return what a consumer group reads from a topic until it has these records, and nothing comes after them."""
    settings = {
        "bootstrap.servers": cluster.address,
        "group.id": str(uuid.uuid4()),
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    missing, messages, end = set(last), list[Message](), time.monotonic() + LIMIT_SECONDS
    try:
        while time.monotonic() < end:
            message = consumer.poll(1.0)
            if message is None and not missing:
                break
            if message is not None and message.error() is None:
                messages.append(message)
                missing.discard(identity(message))
    finally:
        consumer.close()
    assert not missing
    return messages


def identity(message: Message) -> Identity:
    headers = {name: value for name, value in dict(message.headers() or ()).items() if isinstance(value, bytes)}
    return headers["stream"].decode(), int(headers["epoch"]), int(headers["seq"])


def identities(some: list[Record]) -> list[Identity]:
    return [(record.stream, record.epoch, record.seq) for record in some]


def in_order(sent: list[Record]) -> dict[str, list[int]]:
    return {name: [record.seq for record in sent if record.stream == name] for name in STREAMS}


def test_a_consumer_group_reads_the_records_of_each_stream_in_order(
    cluster: KafkaCluster, make: Make, topic: str
) -> None:
    cluster.create(topic, partitions=4)
    transport, sent = make(), records(2000, to=topic)
    transport.connect()
    for start in range(0, len(sent), 500):
        transport.deliver(sent[start : start + 500])
    messages = read(cluster, topic, last=set(identities(sent)))
    assert len(messages) == len(sent)
    assert without_doubles(map(identity, messages)) == in_order(sent)


def test_a_message_holds_the_record(cluster: KafkaCluster, make: Make, topic: str) -> None:
    transport, (sent,) = make(), records(1, to=topic)
    transport.connect()
    transport.deliver([sent])
    (message,) = read(cluster, topic, last=set(identities([sent])))
    assert (message.key(), message.value()) == (b"gate", sent.body)
    assert message.timestamp()[1] == sent.time_ns // 1_000_000
    assert dict(message.headers() or []) == {
        "stream": b"gate",
        "epoch": b"7",
        "seq": b"0",
        "kind": b"events",
        "content-type": b"application/json",
    }


def test_a_stream_stays_in_one_partition(cluster: KafkaCluster, make: Make, topic: str) -> None:
    cluster.create(topic, partitions=4)
    transport, sent = make(), records(200, to=topic)
    transport.connect()
    transport.deliver(sent)
    messages = read(cluster, topic, last=set(identities(sent)))
    assert len({(identity(message)[0], message.partition()) for message in messages}) == len(STREAMS)


def test_messages_have_no_key_if_that_is_wanted(cluster: KafkaCluster, make: Make, topic: str) -> None:
    transport, sent = make(key="none"), records(5, to=topic)
    transport.connect()
    transport.deliver(sent)
    assert {message.key() for message in read(cluster, topic, last=set(identities(sent)))} == {None}


@pytest.mark.parametrize("compression", ["gzip", "lz4", "zstd", "snappy"])
def test_compressed_messages_are_read(compression: str, cluster: KafkaCluster, make: Make, topic: str) -> None:
    transport, sent = make(compression=compression), records(100, to=topic)
    transport.connect()
    transport.deliver(sent)
    assert len(read(cluster, topic, last=set(identities(sent)))) == 100


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_records_arrive_with_each_kind_of_acknowledgement(
    acks: str | int, cluster: KafkaCluster, make: Make, topic: str
) -> None:
    transport, sent = make(acks=acks), records(50, to=topic)
    transport.connect()
    transport.deliver(sent)
    assert len(read(cluster, topic, last=set(identities(sent)))) == 50


@pytest.mark.parametrize("name", ["gate.north", "two words", "a#b", "\N{PANDA FACE}", "../x", "", "n" * 255])
def test_any_name_of_a_stream_arrives(name: str, cluster: KafkaCluster, make: Make) -> None:
    element = Kafka(url="kafka://localhost", topic=f"{uuid.uuid4()}.{{stream}}")
    to = element.address(name, "events", pipeline="site")
    transport, sent = make(), records(1, to=to, streams=[name])
    transport.connect()
    transport.deliver(sent)
    assert [identity(message)[0] for message in read(cluster, to, last=set(identities(sent)))] == [name]


def test_a_record_that_is_too_large_is_refused_and_the_others_arrive(
    cluster: KafkaCluster, make: Make, topic: str
) -> None:
    transport, sent = make(), records(60, to=topic)
    sent[30] = sent[30]._replace(body=b"x" * 1_100_000)
    transport.connect()
    with pytest.raises(RecordRefused, match="1100000 bytes") as refused:
        transport.deliver(sent)
    assert refused.value.delivered == 30
    transport.deliver(sent[31:])
    rest = sent[:30] + sent[31:]
    assert len(read(cluster, topic, last=set(identities(rest)))) == len(rest)


def test_records_that_share_a_request_with_a_refused_one_are_tried_alone(
    cluster: KafkaCluster, make: Make, topic: str
) -> None:
    transport, sent = make(), records(20, to=topic)
    transport.connect()
    transport.deliver(sent[:1])
    cluster.fail_requests(PRODUCE, MSG_SIZE_TOO_LARGE)
    transport.deliver(sent[1:])
    assert len(read(cluster, topic, last=set(identities(sent)))) == len(sent)


def test_a_record_that_the_broker_refuses_alone_is_refused(cluster: KafkaCluster, make: Make, topic: str) -> None:
    transport, sent = make(), records(3, to=topic)
    transport.connect()
    transport.deliver(sent[:1])
    cluster.fail_requests(PRODUCE, MSG_SIZE_TOO_LARGE)
    with pytest.raises(RecordRefused, match="too large") as refused:
        transport.deliver(sent[1:2])
    assert refused.value.delivered == 0
    transport.deliver(sent[2:])
    assert len(read(cluster, topic, last=set(identities(sent[::2])))) == 2


def test_errors_that_pass_are_retried_and_deliver_nothing_twice(cluster: KafkaCluster, make: Make, topic: str) -> None:
    transport, sent = make(), records(200, to=topic)
    transport.connect()
    transport.deliver(sent[:1])
    cluster.fail_requests(PRODUCE, NOT_LEADER, NOT_LEADER)
    transport.deliver(sent[1:])
    assert len(read(cluster, topic, last=set(identities(sent)))) == len(sent)


def test_a_topic_that_we_may_not_write_is_refused(cluster: KafkaCluster, make: Make, topic: str) -> None:
    cluster.create(topic, partitions=1)
    cluster.fail_topic(topic, TOPIC_AUTHORIZATION_FAILED)
    transport = make()
    transport.connect()
    with pytest.raises(DestinationRefused, match="authorization failed"):
        transport.deliver(records(3, to=topic))


def test_a_topic_that_does_not_exist_is_named_if_the_cluster_creates_none(make: Make, topic: str) -> None:
    transport = make(options={"allow.auto.create.topics": False}, timeout="4s")
    transport.connect()
    with pytest.raises(DestinationRefused, match=f"has no topic '{topic}'"):
        transport.deliver(records(3, to=topic))


def test_what_goes_to_brokers_that_are_up_arrives_once_while_another_is_down(
    cluster: KafkaCluster, make: Make, topic: str
) -> None:
    cluster.create(topic, partitions=6)
    names = [f"camera {number}" for number in range(30)]
    transport, sent = make(timeout="5s"), records(300, to=topic, streams=names)
    transport.connect()
    waiting = sent
    cluster.set_down(2)
    try:
        for _ in range(2):
            with pytest.raises(DestinationLost) as lost:
                transport.deliver(waiting)
            waiting = waiting[lost.value.delivered :]
            transport.close()
            wait_until(lambda: connects(transport))
    finally:
        cluster.set_up(2)
    wait_until(lambda: connects(transport))
    transport.deliver(waiting)
    messages = read(cluster, topic, last=set(identities(sent)))
    assert len(messages) == len(sent)


@pytest.mark.parametrize("sasl", ["plain", "scram-sha-256", "scram-sha-512"])
def test_a_cluster_that_takes_no_login_refuses_and_the_password_is_not_shown(
    sasl: str, cluster: KafkaCluster, make: Make
) -> None:
    with pytest.raises(DestinationRefused, match=sasl.upper()) as refused:
        make(url=f"kafka://site:not-this-one@{cluster.address}", sasl=sasl).connect()
    assert "not-this-one" not in str(refused.value)


def test_a_cluster_that_is_not_there_is_lost(make: Make) -> None:
    with pytest.raises(DestinationLost, match="refused"):
        make(url=f"kafka://127.0.0.1:{free_port()}", timeout="1s").connect()


def test_a_cluster_that_hangs_is_lost_after_the_time_limit(cluster: KafkaCluster, make: Make, topic: str) -> None:
    transport, sent = make(timeout="3s"), records(600, to=topic)
    transport.connect()
    transport.deliver(sent[:100])
    cluster.hang()
    try:
        begin = time.monotonic()
        with pytest.raises(DestinationLost, match="within 3 s") as lost:
            transport.deliver(sent[100:])
        transport.close()
        with pytest.raises(DestinationLost, match="did not answer within 3 s"):
            transport.connect()
        assert time.monotonic() - begin >= 6
        assert lost.value.delivered == 0
    finally:
        cluster.go_on()
    transport = make()
    transport.connect()
    transport.deliver(sent[100:])
    received = map(identity, read(cluster, topic, last=set(identities(sent))))
    assert without_doubles(received) == in_order(sent)


def test_everything_arrives_in_order_when_the_cluster_stops_meanwhile(
    cluster: KafkaCluster, make: Make, topic: str
) -> None:
    cluster.create(topic, partitions=4)
    sent = records(4000, to=topic)
    delivering = Delivering(make(timeout="2s"), sent, per_second=400).start()
    wait_until(lambda: delivering.delivered > 500 or delivering.is_done)
    cluster.hang()
    wait_until(lambda: delivering.errors)
    cluster.go_on()
    wait_until(lambda: delivering.is_done)
    received = [identity(message) for message in read(cluster, topic, last=set(identities(sent)))]
    assert delivering.errors
    assert without_doubles(received) == in_order(sent)
    assert doubles(received) <= delivering.unconfirmed


def test_tls_checks_the_brokers_certificate_and_shows_ours(tmp_path: Path, make: Make) -> None:
    made = make_certificates(tmp_path)
    files = {"ca_file": made.authority, "cert_file": made.client, "key_file": made.client_key}
    with TlsServer(made) as server:
        with pytest.raises(DestinationLost, match="certificate verify failed"):
            make(url=f"kafkas://127.0.0.1:{server.port}", timeout="2s").connect()
        transport = make(url=f"kafkas://127.0.0.1:{server.port}", timeout="2s", **files)
        with pytest.raises(DestinationLost):
            transport.connect()  # it speaks no Kafka
        assert "(('commonName', 'client'),)" in server.clients[0]


class TestKafkaTransport(TransportConformance):
    @pytest.fixture
    def element(self, tmp_path: Path, topic: str) -> Iterator[Kafka]:
        self.cluster = KafkaCluster(tmp_path)
        self.cluster.start()
        self.cluster.create(topic, partitions=1)
        self.topic = topic
        yield Kafka(url=f"kafka://{self.cluster.address}", topic=topic, timeout="10s")
        self.cluster.kill()

    def received(self) -> list[bytes]:
        return [message.value() or b"" for message in read(self.cluster, self.topic, last=set())]

    def stop(self) -> None:
        self.cluster.kill()


def connects(transport: Transport) -> bool:
    try:
        transport.connect()
    except DestinationLost:
        return False
    return True


class TlsServer:
    """Accepts TLS connections of clients with a certificate, keeps their names, and closes at the first request."""

    def __init__(self, made: Certificates) -> None:
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=made.authority)
        self._context.load_cert_chain(made.server, made.server_key)
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)
        self.port = self._listener.getsockname()[1]
        self.clients: list[str] = []

    def __enter__(self) -> TlsServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            try:
                with self._context.wrap_socket(plain, server_side=True) as client:
                    self.clients.append(str((client.getpeercert() or {})["subject"]))
                    client.recv(100)
            except OSError:
                plain.close()
