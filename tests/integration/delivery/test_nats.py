"""`nats` against a real server: JetStream and core NATS, outages, refusals, TLS."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from sightline.devices import Device
from sightline.errors import DestinationLost, DestinationRefused, RecordRefused
from sightline.graph import Site
from sightline.graph.transport import Record, Transport
from sightline.testing.transport_conformance import TransportConformance
from sightline_plugins.delivery.nats import Nats
from tests.integration.delivery.certificates import Certificates, make_certificates
from tests.integration.delivery.nats_server import new_server
from tests.integration.delivery.outages import Delivering, deliver_through_kills, doubles, records, without_doubles
from tests.integration.delivery.servers import Server, program
from tests.ports import free_port
from tests.waiting import LIMIT_SECONDS

pytest.importorskip("nats")
import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig

Result = TypeVar("Result")
STREAMS = ("gate", "yard.north", "Tor 7 *", "Hof 🚗 >")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    started = new_server(tmp_path)
    started.start()
    yield started
    started.go_on()
    started.kill()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def transports() -> Iterator[list[Transport]]:
    """Transports to close at the end."""
    opened: list[Transport] = []
    yield opened
    for transport in opened:
        transport.close()


@pytest.fixture
def connected(transports: list[Transport]) -> Callable[[Nats], Transport]:
    def connect(element: Nats) -> Transport:
        transport = new_transport(element)
        transports.append(transport)
        transport.connect()
        return transport

    return connect


def new_element(server: Server, *, user: str = "", **options: Any) -> Nats:
    scheme = options.pop("scheme", "nats")
    options = {"url": f"{scheme}://{user}127.0.0.1:{server.port}", "send": ("events",), "timeout": "60s"} | options
    return Nats(**options)


def new_transport(element: Nats, *, element_id: str = "nats-1") -> Transport:
    return element.transport(Site(Device(), element_id=element_id))


def records_for(element: Nats, count: int, **options: Any) -> list[Record]:
    streams = options.pop("streams", ("gate",))

    def address(stream: str, kind: str) -> str:
        return element.address(stream, kind, pipeline="pipeline")

    return records(count * len(streams), to=address, streams=streams, **options)


def ask(server: Server, work: Callable[[Client], Awaitable[Result]], **options: Any) -> Result:
    """Do something with a client of nats-py that is not ours."""

    async def run() -> Result:
        client = await nats.connect(f"nats://127.0.0.1:{server.port}", **options)
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(run())


def read_all(server: Server, stream: str = "SIGHTLINE", **options: Any) -> list[Msg]:
    """Read a stream from its beginning, as any consumer does."""

    async def read(client: Client) -> list[Msg]:
        context = client.jetstream()
        count = (await context.stream_info(stream)).state.messages
        config = ConsumerConfig(ack_policy=AckPolicy.NONE)
        consumer = await context.pull_subscribe("", stream=stream, config=config)
        found: list[Msg] = []
        while len(found) < count:
            found += await consumer.fetch(500, timeout=LIMIT_SECONDS)
        return found

    return ask(server, read, **options)


def seen(messages: list[Msg]) -> list[tuple[str, int]]:
    return [(header(message, "Sightline-Stream"), int(header(message, "Sightline-Seq"))) for message in messages]


def header(message: Msg, name: str) -> str:
    assert message.headers is not None
    return message.headers[name]


class TestWhatArrives:
    def test_a_consumer_reads_body_subject_and_headers(
        self, server: Server, connected: Callable[[Nats], Transport]
    ) -> None:
        element = new_element(server)
        connected(element).deliver(records_for(element, 1))

        (message,) = read_all(server)

        assert message.subject == "sightline.pipeline.gate.events"
        assert json.loads(message.data) == {"number": 0}
        assert message.headers is not None
        assert {name: value for name, value in message.headers.items() if not name.startswith("Nats-")} == {
            "Sightline-Stream": "gate",
            "Sightline-Epoch": "7",
            "Sightline-Seq": "0",
            "Sightline-Kind": "events",
            "Content-Type": "application/json",
        }

    def test_streams_of_any_name_arrive_in_order(self, server: Server, connected: Callable[[Nats], Transport]) -> None:
        element = new_element(server)
        connected(element).deliver(records_for(element, 100, streams=STREAMS))

        found = read_all(server)

        assert without_doubles(seen(found)) == {name: list(range(100)) for name in STREAMS}
        assert {message.subject for message in found} == {
            "sightline.pipeline.gate.events",
            "sightline.pipeline.yard_north.events",
            "sightline.pipeline.Tor_7_.events",
            "sightline.pipeline.Hof_🚗_.events",
        }

    def test_records_that_come_again_are_stored_once(
        self, server: Server, connected: Callable[[Nats], Transport]
    ) -> None:
        element = new_element(server)
        for _ in range(2):
            connected(element).deliver(records_for(element, 50))

        assert seen(read_all(server)) == [("gate", seq) for seq in range(50)]

    def test_the_same_records_of_another_destination_are_stored_too(
        self, server: Server, transports: list[Transport]
    ) -> None:
        element = new_element(server)
        for element_id in ("one", "two"):
            transports.append(new_transport(element, element_id=element_id))
            transports[-1].connect()
            transports[-1].deliver(records_for(element, 3))

        assert seen(read_all(server)) == [("gate", 0), ("gate", 1), ("gate", 2)] * 2

    def test_core_nats_reaches_those_who_listen(self, server: Server, connected: Callable[[Nats], Transport]) -> None:
        element = new_element(server, jetstream=False, subject="live.{stream}")
        transport = connected(element)

        async def listen(client: Client) -> list[Msg]:
            subscription = await client.subscribe("live.>")
            await client.flush()
            await asyncio.to_thread(transport.deliver, records_for(element, 200))
            return [await subscription.next_msg(timeout=LIMIT_SECONDS) for _ in range(200)]

        assert seen(ask(server, listen)) == [("gate", seq) for seq in range(200)]


class TestTheStream:
    def test_it_is_created_with_its_limits(self, server: Server, connected: Callable[[Nats], Transport]) -> None:
        options = {"stream": "SITE", "max_age": "7d", "max_size": "20MB"}
        connected(new_element(server, subject="site.{stream}.x-{kind}", jetstream=options))

        async def config(client: Client) -> Any:
            return (await client.jsm().stream_info("SITE")).config

        found = ask(server, config)
        assert found.subjects == ["site.*.*"]
        assert (found.max_age, found.max_bytes) == (7 * 24 * 3600, 20_000_000)

    def test_a_missing_stream_that_is_not_to_be_created_is_reported(
        self, server: Server, connected: Callable[[Nats], Transport]
    ) -> None:
        with pytest.raises(DestinationRefused, match="has no stream SITE; create it, or set `create: true`"):
            connected(new_element(server, jetstream={"stream": "SITE", "create": False}))

    def test_a_stream_of_other_subjects_is_reported(
        self, server: Server, connected: Callable[[Nats], Transport]
    ) -> None:
        connected(new_element(server))

        with pytest.raises(DestinationRefused, match=r"takes sightline\.\*\.\*\.\*, not site\.\*: add it"):
            connected(new_element(server, subject="site.{stream}"))

    def test_a_server_without_jetstream_is_reported(
        self, tmp_path: Path, connected: Callable[[Nats], Transport]
    ) -> None:
        port = free_port()
        command = [program("nats-server", package="nats-server"), "-a", "127.0.0.1", "-p", str(port)]
        plain = Server(command, port=port, folder=tmp_path)
        plain.start()
        try:
            with pytest.raises(DestinationRefused, match="JetStream is not enabled"):
                connected(new_element(plain))
        finally:
            plain.kill()

    def test_a_full_stream_is_lost_and_takes_the_records_once_it_has_room(
        self, server: Server, connected: Callable[[Nats], Transport]
    ) -> None:
        async def create(client: Client) -> None:
            await client.jetstream().add_stream(name="SMALL", subjects=["sightline.>"], max_msgs=5, discard="new")

        async def empty(client: Client) -> None:
            await client.jetstream().purge_stream("SMALL")

        ask(server, create)
        element = new_element(server, jetstream={"stream": "SMALL"})
        transport, records = connected(element), records_for(element, 8)
        with pytest.raises(DestinationLost, match="maximum messages exceeded") as full:
            transport.deliver(records)
        assert not isinstance(full.value, DestinationRefused)
        assert full.value.delivered == 5
        ask(server, empty)

        transport.deliver(records[5:])

        assert seen(read_all(server, "SMALL")) == [("gate", 5), ("gate", 6), ("gate", 7)]


class TestOutages:
    def test_all_records_arrive_in_order_and_once_when_the_server_is_killed(
        self, server: Server, transports: list[Transport]
    ) -> None:
        element = new_element(server)
        transports.append(new_transport(element))
        sent = records_for(element, 4000, streams=("gate", "yard"), body=b"x" * 500)
        delivering = Delivering(transports[0], sent, per_second=2000)

        deliver_through_kills(server, delivering, at=(1500, 4000))

        found = seen(read_all(server))
        assert delivering.losses >= 2
        assert without_doubles(found) == {name: list(range(4000)) for name in ("gate", "yard")}
        assert doubles(found) == 0

    @pytest.mark.parametrize("jetstream", [True, False])
    def test_a_server_that_hangs_is_lost_at_about_the_time_limit(
        self, server: Server, connected: Callable[[Nats], Transport], *, jetstream: bool
    ) -> None:
        element = new_element(server, timeout="1s", jetstream=jetstream)
        transport = connected(element)
        transport.deliver(records_for(element, 10))
        server.hang()
        start = time.monotonic()

        with pytest.raises(DestinationLost, match="no answer within 1 s") as lost:
            transport.deliver(records_for(element, 10, streams=("yard",)))

        assert time.monotonic() - start >= 0.9
        assert lost.value.delivered == 0

    def test_closing_does_not_wait_for_a_server_that_hangs_with_much_unsent(
        self, server: Server, connected: Callable[[Nats], Transport]
    ) -> None:
        element = new_element(server, timeout="1s")
        transport = connected(element)
        server.hang()
        with pytest.raises(DestinationLost, match="no answer"):
            transport.deliver(records_for(element, 60, body=b"x" * 500_000))

        transport.close()

        assert not [thread for thread in threading.enumerate() if thread.name == "sightline-nats"]
        with pytest.raises(DestinationLost, match="no answer within 1 s"):
            transport.connect()

    def test_what_was_sent_to_a_hanging_server_arrives_once(
        self, server: Server, connected: Callable[[Nats], Transport]
    ) -> None:
        element = new_element(server, timeout="1s")
        transport, records = connected(element), records_for(element, 20)
        server.hang()
        with pytest.raises(DestinationLost, match="no answer"):
            transport.deliver(records)
        transport.close()
        server.go_on()

        again = connected(element.model_copy(update={"timeout": 60_000_000_000}))
        again.deliver(records)

        assert seen(read_all(server)) == [("gate", seq) for seq in range(20)]

    def test_an_idle_connection_stays_because_the_client_answers_the_server(
        self, tmp_path: Path, connected: Callable[[Nats], Transport]
    ) -> None:
        strict = new_server(tmp_path, config='ping_interval: "1s"\nping_max: 2\n')
        strict.start()
        try:
            element = new_element(strict)
            transport = connected(element)
            with socket.create_connection(("127.0.0.1", strict.port)) as silent:  # a client that never answers
                silent.sendall(b"CONNECT {}\r\nPING\r\n")
                assert ended(silent).endswith(b"-ERR 'Stale Connection'\r\n")

            transport.deliver(records_for(element, 1))

            assert seen(read_all(strict)) == [("gate", 0)]
        finally:
            strict.kill()

    def test_a_server_that_is_not_there_is_lost(self, server: Server, connected: Callable[[Nats], Transport]) -> None:
        server.kill()

        with pytest.raises(DestinationLost, match="Connect call failed") as lost:
            connected(new_element(server))

        assert not isinstance(lost.value, DestinationRefused)


def ended(connection: socket.socket) -> bytes:
    """Return all that comes until the other side closes the connection."""
    return b"".join(iter(lambda: connection.recv(4096), b""))


class TestRefusals:
    @pytest.mark.parametrize("jetstream", [True, False])
    def test_a_record_larger_than_the_server_takes_is_refused_and_the_others_are_delivered(
        self, tmp_path: Path, connected: Callable[[Nats], Transport], *, jetstream: bool
    ) -> None:
        small = new_server(tmp_path, config="max_payload: 4096\n")
        small.start()
        try:
            element = new_element(small, jetstream=jetstream)
            transport, records = connected(element), records_for(element, 6)
            too_large = records_for(element, 1, streams=("big",), body=b"x" * 4000)  # its headers are too much
            with pytest.raises(RecordRefused, match="with headers are more than the 4096 allowed") as refused:
                transport.deliver([*records[:3], *too_large, *records[3:]])
            assert refused.value.delivered == 3

            transport.deliver(records[3:])

            if jetstream:
                assert seen(read_all(small)) == [("gate", seq) for seq in range(6)]
        finally:
            small.kill()

    def test_the_largest_record_that_the_server_takes_is_delivered(
        self, server: Server, connected: Callable[[Nats], Transport]
    ) -> None:
        element = new_element(server)
        transport = connected(element)
        size = 1 << 20
        while True:
            try:
                transport.deliver(records_for(element, 1, body=b"x" * size))
                break
            except RecordRefused:
                size -= 1

        assert [len(message.data) for message in read_all(server)] == [size]

    def test_a_record_larger_than_the_stream_takes_is_refused(
        self, server: Server, connected: Callable[[Nats], Transport]
    ) -> None:
        async def create(client: Client) -> None:
            await client.jetstream().add_stream(name="SMALL", subjects=["sightline.>"], max_msg_size=1000)

        ask(server, create)
        element = new_element(server, jetstream={"stream": "SMALL"})
        records = [*records_for(element, 2), *records_for(element, 1, streams=("big",), body=b"x" * 1001)]

        with pytest.raises(RecordRefused) as refused:
            connected(element).deliver(records)

        assert refused.value.delivered == 2

    def test_a_limit_that_the_stream_got_later_refuses_the_record_as_well(
        self, server: Server, connected: Callable[[Nats], Transport]
    ) -> None:
        async def limit(client: Client) -> None:
            config = (await client.jsm().stream_info("SIGHTLINE")).config
            await client.jetstream().update_stream(config, max_msg_size=1000)

        element = new_element(server)
        transport, records = connected(element), records_for(element, 6)
        too_large = records_for(element, 1, streams=("big",), body=b"x" * 1001)
        ask(server, limit)
        with pytest.raises(RecordRefused, match="message size exceeds maximum allowed") as refused:
            transport.deliver([*records[:3], *too_large, *records[3:]])
        assert refused.value.delivered == 3

        transport.deliver(records[3:])

        assert seen(read_all(server)) == [("gate", seq) for seq in range(6)]

    def test_a_record_that_no_subject_of_the_stream_takes_is_refused(
        self, server: Server, connected: Callable[[Nats], Transport]
    ) -> None:
        element = new_element(server)
        elsewhere = records(1, to="elsewhere.gate", streams=("gate",))

        with pytest.raises(RecordRefused, match=r"does not take elsewhere\.gate, but sightline") as refused:
            connected(element).deliver([*records_for(element, 2), *elsewhere, *records_for(element, 2)])

        assert refused.value.delivered == 2

    def test_a_record_without_a_valid_subject_is_refused_and_the_others_are_delivered(
        self, server: Server, connected: Callable[[Nats], Transport]
    ) -> None:
        element = new_element(server)
        transport = connected(element)
        invalid = records(1, to="a blank", streams=("gate",))

        with pytest.raises(RecordRefused, match="no subject") as refused:
            transport.deliver([*records_for(element, 2), *invalid])

        assert refused.value.delivered == 2
        transport.deliver(records_for(element, 3))
        assert seen(read_all(server)) == [("gate", 0), ("gate", 1), ("gate", 2)]


USERS = """
authorization: {users: [
  {user: "site", password: "sesam/7@#"}
  {user: "reader", password: "r", permissions: {publish: ["$JS.API.STREAM.INFO.*"]}}
  {user: "outsider", password: "o", permissions: {publish: {deny: ">"}, subscribe: {deny: ">"}}}
]}
"""


class TestCredentials:
    @pytest.fixture
    def guarded(self, tmp_path: Path) -> Iterator[Server]:
        started = new_server(tmp_path, config=USERS)
        started.start()
        yield started
        started.kill()

    def test_user_and_password_of_the_url_log_in(self, guarded: Server, connected: Callable[[Nats], Transport]) -> None:
        element = new_element(guarded, user="site:sesam%2F7%40%23@")
        connected(element).deliver(records_for(element, 3))

        assert len(read_all(guarded, user="site", password="sesam/7@#")) == 3

    @pytest.mark.parametrize("user", ["site:wrong@", "", "token@"])
    def test_wrong_or_missing_credentials_are_refused_and_not_shown(
        self, guarded: Server, connected: Callable[[Nats], Transport], user: str
    ) -> None:
        with pytest.raises(DestinationRefused, match=r"does not let us in: .*Authorization Violation") as refused:
            connected(new_element(guarded, user=user))

        assert "wrong" not in str(refused.value)
        assert "token" not in str(refused.value)

    def test_a_user_who_may_not_publish_is_refused(
        self, guarded: Server, connected: Callable[[Nats], Transport]
    ) -> None:
        connected(new_element(guarded, user="site:sesam%2F7%40%23@"))
        element = new_element(guarded, user="reader:r@")
        transport = connected(element)

        with pytest.raises(DestinationRefused, match="permissions violation for publish") as refused:
            transport.deliver(records_for(element, 3))

        assert refused.value.delivered == 0

    @pytest.mark.parametrize("jetstream", [True, False])
    def test_a_user_who_may_do_nothing_is_refused(
        self, guarded: Server, connected: Callable[[Nats], Transport], *, jetstream: bool
    ) -> None:
        with pytest.raises(DestinationRefused, match="permissions violation"):
            connected(new_element(guarded, user="outsider:o@", jetstream=jetstream, timeout="2s"))

    def test_a_token_logs_in(self, tmp_path: Path, connected: Callable[[Nats], Transport]) -> None:
        guarded = new_server(tmp_path, config='authorization: {token: "s3cret/"}\n')
        guarded.start()
        try:
            element = new_element(guarded, user="s3cret%2F@")
            connected(element).deliver(records_for(element, 3))

            assert len(read_all(guarded, token="s3cret/")) == 3
        finally:
            guarded.kill()


class TestTls:
    @pytest.fixture
    def encrypted(self, tmp_path: Path, certificates: Certificates) -> Iterator[Server]:
        files = f'cert_file: "{certificates.server}", key_file: "{certificates.server_key}"'
        config = f'tls: {{{files}, ca_file: "{certificates.authority}", verify: true}}\n'
        started = new_server(tmp_path, config=config)
        started.start()
        yield started
        started.go_on()
        started.kill()

    def test_records_arrive_with_a_certificate_on_both_sides(
        self, encrypted: Server, certificates: Certificates, connected: Callable[[Nats], Transport]
    ) -> None:
        files: dict[str, Any] = {
            "ca_file": certificates.authority,
            "cert_file": certificates.client,
            "key_file": certificates.client_key,
        }
        element = new_element(encrypted, scheme="tls", **files)
        connected(element).deliver(records_for(element, 100))
        context = ssl.create_default_context(cafile=certificates.authority)
        context.load_cert_chain(certificates.client, certificates.client_key)

        assert seen(read_all(encrypted, tls=context)) == [("gate", seq) for seq in range(100)]

    def test_a_client_without_a_certificate_does_not_get_in(
        self, encrypted: Server, certificates: Certificates, connected: Callable[[Nats], Transport]
    ) -> None:
        with pytest.raises(DestinationLost):  # what it says depends on whether its alert is read before it hangs up
            connected(new_element(encrypted, scheme="tls", ca_file=certificates.authority))

    def test_a_server_of_another_authority_is_not_trusted(
        self, encrypted: Server, tmp_path: Path, connected: Callable[[Nats], Transport]
    ) -> None:
        other = make_certificates(tmp_path).authority

        with pytest.raises(DestinationLost, match="certificate verify failed"):
            connected(new_element(encrypted, scheme="tls", ca_file=other))

    def test_a_server_that_hangs_is_left_without_waiting(
        self, encrypted: Server, certificates: Certificates, connected: Callable[[Nats], Transport]
    ) -> None:
        files: dict[str, Any] = {
            "ca_file": certificates.authority,
            "cert_file": certificates.client,
            "key_file": certificates.client_key,
        }
        element = new_element(encrypted, scheme="tls", timeout="1s", **files)
        transport = connected(element)
        encrypted.hang()
        with pytest.raises(DestinationLost, match="no answer within 1 s"):
            transport.deliver(records_for(element, 60, body=b"x" * 500_000))

        transport.close()

        assert not [thread for thread in threading.enumerate() if thread.name == "sightline-nats"]

    def test_a_password_is_not_sent_to_a_server_without_tls(
        self, server: Server, connected: Callable[[Nats], Transport]
    ) -> None:
        with pytest.raises(DestinationLost, match="does not offer TLS"):
            connected(new_element(server, scheme="tls", user="site:sesam@"))


class TestConformance(TransportConformance):
    @pytest.fixture
    def element(self, server: Server) -> Nats:
        self.server = server
        return new_element(server, timeout="20s")

    def received(self) -> list[bytes]:
        return [message.data for message in read_all(self.server)]

    def stop(self) -> None:
        self.server.kill()
