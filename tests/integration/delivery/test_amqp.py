"""`amqp` against RabbitMQ: what it accepts, refuses and loses, and what another client reads from a queue."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from sightline.devices import Device
from sightline.errors import DestinationLost, DestinationRefused, RecordRefused
from sightline.graph import Site
from sightline.graph.transport import Record, Transport
from sightline.testing.transport_conformance import TransportConformance
from sightline_plugins import Amqp
from tests.integration.delivery import rabbitmq
from tests.integration.delivery.certificates import Certificates, make_certificates
from tests.integration.delivery.outages import STREAMS, Delivering, Identity, doubles, records, without_doubles
from tests.integration.delivery.rabbitmq import (
    MAX_BYTES,
    NARROW,
    NARROW_PASSWORD,
    READER,
    READER_PASSWORD,
    VHOST,
    RabbitMq,
)
from tests.integration.delivery.servers import listens
from tests.ports import free_port
from tests.waiting import wait_until

Make = Callable[..., Transport]
TO = "pipeline.gate.events"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def tls_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def _broker(tmp_path_factory: pytest.TempPathFactory, tls: Certificates, tls_port: int) -> Iterator[RabbitMq]:
    settings = {
        "heartbeat": 1,
        "listeners.ssl.1": f"127.0.0.1:{tls_port}",
        "ssl_options.cacertfile": tls.authority,
        "ssl_options.certfile": tls.server,
        "ssl_options.keyfile": tls.server_key,
        "ssl_options.verify": "verify_peer",
        "ssl_options.fail_if_no_peer_cert": "true",
    }
    server = RabbitMq(tmp_path_factory.mktemp("rabbitmq"), settings=settings)
    try:
        yield server
    finally:
        server.end()


@pytest.fixture
def broker(_broker: RabbitMq) -> RabbitMq:
    """One broker for all tests of this module, started again after those that end it."""
    if not listens(_broker.port):
        _broker.start()
    return _broker


@pytest.fixture
def make(broker: RabbitMq) -> Iterator[Make]:
    """Makes transports to the broker; options may replace the URL."""
    made: list[Transport] = []

    def transport(**options: Any) -> Transport:
        made.append(Amqp(**{"url": broker.url(), "timeout": "10s", **options}).transport(Site(Device())))
        return made[-1]

    yield transport
    for one in made:
        one.close()


class Queue:
    """A durable queue bound to an exchange, as another program reads it."""

    def __init__(self, broker: RabbitMq, *, exchange: str, key: str = "#") -> None:
        self._broker = broker
        self._name = f"for {exchange}"
        with broker.connection() as connection:
            channel = connection.channel()
            channel.exchange_declare(exchange, "topic", durable=True)
            channel.queue_declare(self._name, durable=True)
            channel.queue_bind(self._name, exchange, key)

    def read(self) -> list[tuple[pika.BasicProperties, str, bytes]]:
        """Return the properties, routing key and body of all messages in the queue."""
        messages = []
        with self._broker.connection() as connection:
            channel = connection.channel()
            for method, properties, body in channel.consume(self._name, auto_ack=True, inactivity_timeout=1):
                if method is None:
                    break
                messages.append((properties, method.routing_key, body))
        return messages

    def identities(self) -> list[Identity]:
        """Return stream, epoch and seq of all messages in the queue."""
        headers = [properties.headers for properties, _, _ in self.read()]
        return [(one["stream"], one["epoch"], one["seq"]) for one in headers]


def identities(some: list[Record]) -> list[Identity]:
    return [(record.stream, record.epoch, record.seq) for record in some]


def test_records_arrive_in_order_with_their_headers(broker: RabbitMq, make: Make) -> None:
    queue, transport, sent = Queue(broker, exchange="plain"), make(exchange="plain"), records(1000, to=TO)
    transport.connect()
    transport.deliver(sent[:600])
    transport.deliver(sent[600:])
    received = queue.read()
    assert [body for _, _, body in received] == [record.body for record in sent]
    properties, key, _ = received[0]
    assert key == TO
    assert properties.headers == {"stream": "gate", "epoch": 7, "seq": 0, "kind": "events"}
    assert (properties.message_id, properties.content_type) == ("gate/7/0", "application/json")
    assert properties.delivery_mode == 2


def test_a_queue_gets_the_kinds_it_is_bound_to(broker: RabbitMq, make: Make) -> None:
    queue = Queue(broker, exchange="kinds", key="*.*.tracks")
    transport = make(exchange="kinds")
    transport.connect()
    transport.deliver([*records(5, to="site.gate.events"), *records(5, to="site.gate.tracks", kind="tracks")])
    assert [properties.type for properties, _, _ in queue.read()] == ["tracks"] * 5


@pytest.mark.parametrize("name", ["gate.north", "two words", "a#b*c", "\N{PANDA FACE}", "../x", "n" * 255])
def test_any_name_of_a_stream_becomes_one_word_of_the_key(name: str, broker: RabbitMq, make: Make) -> None:
    queue = Queue(broker, exchange="names", key="site.*.events")
    transport = make(exchange="names")
    to = Amqp(url=broker.url()).address(name, "events", pipeline="site")
    transport.connect()
    transport.deliver(records(1, to=to, streams=[name]))
    assert queue.identities() == [(name, 7, 0)]


def test_an_id_that_is_too_long_is_left_out(broker: RabbitMq, make: Make) -> None:
    name = "\N{PANDA FACE}" * 64
    queue, transport = Queue(broker, exchange="long"), make(exchange="long")
    transport.connect()
    transport.deliver(records(1, to=TO, streams=[name]))
    ((properties, _, _),) = queue.read()
    assert (properties.message_id, properties.headers["stream"]) == (None, name)


def test_a_record_that_is_too_large_is_refused_and_the_others_arrive(broker: RabbitMq, make: Make) -> None:
    queue, transport, sent = Queue(broker, exchange="large"), make(exchange="large"), records(60, to=TO)
    sent[30] = sent[30]._replace(body=b"x" * (MAX_BYTES + 1))
    transport.connect()
    with pytest.raises(RecordRefused, match=f"{MAX_BYTES + 1} bytes") as refused:
        transport.deliver(sent)
    assert refused.value.delivered == 30
    transport.deliver(sent[31:])
    expected = identities(sent)
    assert queue.identities() == expected[:30] + expected[31:]


def test_a_large_record_that_the_broker_takes_arrives(broker: RabbitMq, make: Make) -> None:
    queue, transport, sent = Queue(broker, exchange="largest"), make(exchange="largest"), records(9, to=TO)
    sent[4] = sent[4]._replace(body=b"x" * MAX_BYTES)
    transport.connect()
    transport.deliver(sent)
    assert queue.identities() == identities(sent)


def test_a_routing_key_that_is_too_long_is_refused(make: Make) -> None:
    transport, sent = make(), records(3, to=TO)
    sent[1] = sent[1]._replace(to="k" * 256)
    transport.connect()
    with pytest.raises(RecordRefused, match="255") as refused:
        transport.deliver(sent)
    assert refused.value.delivered == 1


def test_records_that_no_queue_takes_are_dropped_by_the_broker(make: Make) -> None:
    transport = make(exchange="nobody")
    transport.connect()
    transport.deliver(records(10, to=TO))


def test_mandatory_records_that_no_queue_takes_are_refused(broker: RabbitMq, make: Make) -> None:
    queue = Queue(broker, exchange="mandatory", key="*.gate.*")
    transport, sent = make(exchange="mandatory", mandatory=True), records(9, to=TO)
    sent[5] = sent[5]._replace(to="site.yard.events")
    transport.connect()
    with pytest.raises(RecordRefused, match="no queue takes") as refused:
        transport.deliver(sent)
    assert refused.value.delivered == 5
    transport.deliver(sent[6:])
    assert queue.identities() == identities(sent[:5] + sent[6:])


def test_a_virtual_host_is_the_path_of_the_url(broker: RabbitMq, make: Make) -> None:
    transport = make(url=broker.url(VHOST))
    transport.connect()
    with broker.connection(VHOST) as connection:
        connection.channel().exchange_declare("sightline", passive=True)


@pytest.mark.parametrize("wrong", ["password", "vhost"])
def test_a_login_that_is_refused_shows_no_password(wrong: str, broker: RabbitMq, make: Make) -> None:
    url = broker.url(password="not-this-one") if wrong == "password" else broker.url("nowhere")
    with pytest.raises(DestinationRefused) as refused:
        make(url=url).connect()
    assert "not-this-one" not in str(refused.value)
    assert rabbitmq.PASSWORD not in str(refused.value)


def test_a_user_who_may_not_write_is_refused(broker: RabbitMq, make: Make) -> None:
    make(exchange="guarded").connect()
    transport = make(url=broker.url(user=READER, password=READER_PASSWORD), exchange="guarded", declare=False)
    transport.connect()
    with pytest.raises(DestinationRefused, match="access to exchange 'guarded'"):
        transport.deliver(records(3, to=TO))


def test_an_exchange_that_does_not_exist_is_named(make: Make) -> None:
    transport = make(exchange="absent", declare=False)
    transport.connect()
    with pytest.raises(DestinationRefused, match="no exchange 'absent'"):
        transport.deliver(records(3, to=TO))


def test_an_exchange_of_another_type_is_refused(broker: RabbitMq, make: Make) -> None:
    with broker.connection() as connection:
        connection.channel().exchange_declare("direct", "direct", durable=True)
    with pytest.raises(DestinationRefused, match="inequivalent arg 'type'"):
        make(exchange="direct").connect()


def test_a_broker_that_is_not_there_is_lost(make: Make) -> None:
    with pytest.raises(DestinationLost, match="refused"):
        make(url=f"amqp://127.0.0.1:{free_port()}").connect()


def test_a_queue_that_is_full_loses_nothing(broker: RabbitMq, make: Make) -> None:
    with broker.connection() as connection:
        channel = connection.channel()
        channel.exchange_declare("full", "topic", durable=True)
        arguments = {"x-max-length": 5, "x-overflow": "reject-publish"}
        channel.queue_declare("for full", durable=True, arguments=arguments)
        channel.queue_bind("for full", "full", "#")
        transport, sent = make(exchange="full"), records(8, to=TO)
        transport.connect()
        with pytest.raises(DestinationLost, match="queue is full") as lost:
            transport.deliver(sent)
        channel.queue_purge("for full")
        transport.deliver(sent[lost.value.delivered :])


def test_a_connection_that_the_broker_closed_meanwhile_is_lost_and_comes_back(broker: RabbitMq, make: Make) -> None:
    queue, transport, sent = Queue(broker, exchange="closed"), make(exchange="closed"), records(20, to=TO)
    transport.connect()
    transport.deliver(sent[:10])
    broker.control("close_all_connections", "maintenance")
    with pytest.raises(DestinationLost, match="maintenance") as lost:
        transport.deliver(sent[10:])
    assert lost.value.delivered == 0
    transport.close()
    transport.connect()
    transport.deliver(sent[10:])
    assert queue.identities() == identities(sent)


def test_a_connection_lasts_while_nothing_is_sent(broker: RabbitMq, make: Make) -> None:
    queue, transport, sent = Queue(broker, exchange="idle"), make(exchange="idle"), records(20, to=TO)
    transport.connect()
    transport.deliver(sent[:10])
    threading.Event().wait(4)  # twice as long as the broker waits for a heartbeat
    transport.deliver(sent[10:])
    assert queue.identities() == identities(sent)


def test_a_record_that_is_refused_alone_is_refused_at_once(make: Make) -> None:
    transport, (sent,) = make(timeout="1h"), records(1, to="k" * 256)
    transport.connect()
    with pytest.raises(RecordRefused):
        transport.deliver([sent])


def test_a_broker_that_hangs_is_lost_after_the_time_limit(broker: RabbitMq, make: Make) -> None:
    queue = Queue(broker, exchange="hang")
    transport, sent = make(exchange="hang", timeout="3s"), records(4000, to=TO)
    sent = [record._replace(body=b"x" * 10_000) for record in sent]
    transport.connect()
    transport.deliver(sent[:20])
    broker.hang()
    try:
        begin = time.monotonic()
        with pytest.raises(DestinationLost, match="did not answer within 3 s") as lost:
            transport.deliver(sent[20:])
        transport.close()
        with pytest.raises(DestinationLost, match="did not answer within 3 s"):
            transport.connect()
        assert time.monotonic() - begin >= 6
        assert lost.value.delivered == 0
    finally:
        broker.go_on()
    transport = make(exchange="hang")
    wait_until(lambda: connects(transport))
    transport.deliver(sent[20:100])
    assert without_doubles(queue.identities()) == in_order(sent[:100])


def test_everything_arrives_in_order_when_the_broker_is_killed_meanwhile(broker: RabbitMq, make: Make) -> None:
    queue, sent = Queue(broker, exchange="killed"), records(3000, to=TO)
    delivering = Delivering(make(exchange="killed", timeout="5s"), sent, per_second=400).start()
    wait_until(lambda: delivering.delivered > 500 or delivering.is_done)
    broker.kill()
    broker.start()
    wait_until(lambda: delivering.is_done)
    received = queue.identities()
    assert delivering.errors
    assert without_doubles(received) == in_order(sent)
    assert doubles(received) <= delivering.unconfirmed


@pytest.mark.parametrize("may_probe", [True, False], ids=["all exchanges", "one exchange"])
def test_a_broker_with_an_alarm_is_lost_and_gets_no_record_twice_for_each_attempt(
    may_probe: bool, tmp_path: Path
) -> None:
    broker = RabbitMq(tmp_path, settings={"vm_memory_high_watermark.absolute": "1MB"})
    try:
        broker.start()
        queue, sent = Queue(broker, exchange="sightline"), records(100, to=TO)
        url = broker.url() if may_probe else broker.url(user=NARROW, password=NARROW_PASSWORD)
        transport = Amqp(url=url, timeout="2s").transport(Site(Device()))
        for _ in range(3):
            with pytest.raises(DestinationLost, match="short of memory or disk"):
                connect_and_deliver(transport, sent)
            transport.close()
        broker.control("set_vm_memory_high_watermark", "0.9")
        wait_until(lambda: connects(transport))
        transport.deliver(sent)
        transport.close()
        received = queue.identities()
        assert without_doubles(received) == in_order(sent)
        assert doubles(received) <= len(sent)
    finally:
        broker.end()


def test_tls_with_a_client_certificate(broker: RabbitMq, make: Make, tls: Certificates, tls_port: int) -> None:
    queue, sent = Queue(broker, exchange="tls"), records(10, to=TO)
    files = {"ca_file": tls.authority, "cert_file": tls.client, "key_file": tls.client_key}
    transport = make(url=rabbitmq.address("amqps", tls_port), exchange="tls", **files)
    transport.connect()
    transport.deliver(sent)
    assert queue.identities() == identities(sent)


def test_a_broker_whose_certificate_is_not_trusted_is_lost(make: Make, tls_port: int) -> None:
    with pytest.raises(DestinationLost, match="certificate verify failed"):
        make(url=rabbitmq.address("amqps", tls_port)).connect()


def test_a_client_without_the_certificate_that_the_broker_wants_is_lost(
    make: Make, tls: Certificates, tls_port: int
) -> None:
    with pytest.raises(DestinationLost):
        make(url=rabbitmq.address("amqps", tls_port), ca_file=tls.authority).connect()


def test_no_thread_is_left(make: Make) -> None:
    before = threading.active_count()
    transport = make()
    transport.connect()
    transport.deliver(records(10, to=TO))
    transport.close()
    transport.close()
    assert threading.active_count() <= before


class TestAmqpTransport(TransportConformance):
    @pytest.fixture
    def element(self, broker: RabbitMq) -> Amqp:
        self.broker = broker
        self.exchange = f"conformance {uuid.uuid4()}"
        self.queue = Queue(broker, exchange=self.exchange)
        self.bodies: list[bytes] = []
        return Amqp(url=broker.url(), exchange=self.exchange)

    def received(self) -> list[bytes]:
        self.bodies += [body for _, _, body in self.queue.read()]
        return self.bodies

    def stop(self) -> None:
        self.broker.kill()


def connects(transport: Transport) -> bool:
    try:
        transport.connect()
    except DestinationLost:
        return False
    return True


def connect_and_deliver(transport: Transport, sent: list[Record]) -> None:
    transport.connect()
    transport.deliver(sent)


def in_order(sent: list[Record]) -> dict[str, list[int]]:
    return {name: [record.seq for record in sent if record.stream == name] for name in STREAMS}
