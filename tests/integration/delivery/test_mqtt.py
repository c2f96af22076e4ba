"""`mqtt` delivers to Mosquitto, read by mosquitto_sub: all records, each refusal and each loss by its name."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sightline import Pipeline
from sightline.devices import Device
from sightline.errors import DestinationLost, DestinationRefused, RecordRefused
from sightline.graph import Message, Site
from sightline.graph.transport import Record, Transport
from sightline.testing.transport_conformance import TransportConformance
from sightline_plugins import Lines, Pattern, Replay, Track
from sightline_plugins.delivery.mqtt import Mqtt
from tests.conftest import REPOSITORY
from tests.integration.delivery.certificates import make_certificates
from tests.integration.delivery.mosquitto import Mosquitto, Subscriber, broker, publish, subscriber
from tests.integration.delivery.servers import Server, program
from tests.ports import free_port
from tests.waiting import wait_until

VERSIONS = pytest.mark.parametrize("version", [5, "3.1.1"])
AVAILABILITY = "sightline/site/availability"
Connect = Callable[..., Transport]


def element_for(server: Server, *, scheme: str = "mqtt", user: str = "", **options: Any) -> Mqtt:
    return Mqtt(**{"url": f"{scheme}://{user}127.0.0.1:{server.port}", "client_id": "sender", **options})


def site(post: Callable[[Message], None] = lambda _: None) -> Site:
    return Site(device=Device(), element_id="mqtt-1", pipeline="site", post=post)


def records(
    count: int, *, stream: str = "gate", kind: str = "events", first: int = 0, to: str = "", body: bytes = b""
) -> list[Record]:
    to = to or Mqtt(url="mqtt://host").address(stream, kind, pipeline="site")
    return [
        Record(stream, 7, seq, kind, to, body or json.dumps({"stream": stream, "seq": seq}).encode(), 0)
        for seq in range(first, first + count)
    ]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Mosquitto]:
    with broker(tmp_path) as running:
        yield running


@pytest.fixture
def made() -> Iterator[Connect]:
    """Make transports, and close them at the end."""
    open_ones: list[Transport] = []

    def make(server: Server, **options: Any) -> Transport:
        transport = element_for(server, **options).transport(site())
        open_ones.append(transport)
        return transport

    yield make
    for one in open_ones:
        one.close()


@pytest.fixture
def connected(made: Connect) -> Connect:
    def connect(server: Server, **options: Any) -> Transport:
        transport = made(server, **options)
        transport.connect()
        return transport

    return connect


class TestContract(TransportConformance):
    """The contract of all transports."""

    @pytest.fixture
    def element(self, server: Mosquitto) -> Iterator[Mqtt]:
        self.server = server
        with subscriber(server, "sightline/+/+/events") as self.reader:
            yield element_for(server)

    def received(self) -> list[bytes]:
        return [one.payload.encode() for one in self.reader.got]

    def stop(self) -> None:
        self.server.kill()


class TestDelivery:
    @VERSIONS
    @pytest.mark.parametrize("qos", [0, 1, 2])
    def test_all_records_arrive_in_order(self, server: Mosquitto, connected: Connect, version: Any, qos: int) -> None:
        with subscriber(server, "sightline/+/+/events") as reader:
            connected(server, version=version, qos=qos).deliver(records(600))
            wait_until(lambda: len(reader.got) >= 600)
            assert [one.body["seq"] for one in reader.got] == list(range(600))
        assert server.log.count(f"Received PUBLISH from sender (d0, q{qos}, r0") == 600

    def test_mqtt_5_carries_the_identity_of_a_record(self, server: Mosquitto, connected: Connect) -> None:
        with subscriber(server, "sightline/#") as reader:
            connected(server).deliver(records(1, first=41))
            wait_until(lambda: reader.of("sightline/site/gate/events"))
            (got,) = reader.of("sightline/site/gate/events")
        assert got.properties == {
            "content-type": "application/json",
            "user-properties": {"stream": "gate", "epoch": "7", "seq": "41"},
        }

    def test_body_arrives_as_it_is(self, server: Mosquitto, connected: Connect) -> None:
        body = '{"text": "Straße 😀"}'.encode()
        with subscriber(server, "sightline/#") as reader:
            connected(server).deliver(records(1, body=body))
            wait_until(lambda: reader.of("sightline/site/gate/events"))
            assert reader.of("sightline/site/gate/events")[0].payload.encode() == body

    @pytest.mark.parametrize(
        ("stream", "level"),
        [
            ("hall/left", "hall_left"),
            ("a+b", "a_b"),
            ("#1", "_1"),
            ("$SYS", "_SYS"),
            ("gate\x00\x01", "gate_"),
            ("Tor 😀", "Tor 😀"),
            ("😀" * 63, "😀" * 63),
            ("../..", ".._.."),
        ],
    )
    def test_stream_with_any_name_has_a_topic_of_one_level(
        self, server: Mosquitto, connected: Connect, stream: str, level: str
    ) -> None:
        with subscriber(server, "sightline/site/+/events") as reader:
            connected(server).deliver(records(1, stream=stream))
            wait_until(lambda: reader.got)
            assert reader.got[0].topic == f"sightline/site/{level}/events"

    @VERSIONS
    def test_later_subscriber_reads_the_last_status_and_counts(
        self, server: Mosquitto, connected: Connect, version: Any
    ) -> None:
        transport = connected(server, version=version)
        transport.deliver([*records(3, kind="status"), *records(3, kind="counts"), *records(3, kind="events")])
        with subscriber(server, "sightline/site/gate/#") as reader:
            wait_until(lambda: len(reader.got) >= 2)
            got = sorted((one.topic, one.body["seq"], one.retain) for one in reader.got)
        assert got == [("sightline/site/gate/counts", 2, True), ("sightline/site/gate/status", 2, True)]

    def test_kinds_to_retain_can_be_chosen(self, server: Mosquitto, connected: Connect) -> None:
        connected(server, retain=("events",)).deliver([*records(1, kind="status"), *records(1, kind="events")])
        with subscriber(server, "sightline/site/gate/#") as reader:
            wait_until(lambda: reader.got)
            assert [one.topic for one in reader.got] == ["sightline/site/gate/events"]

    @pytest.mark.parametrize("qos", [1, 2])
    def test_no_more_are_under_way_than_the_broker_takes(self, tmp_path: Path, connected: Connect, qos: int) -> None:
        with broker(tmp_path, "allow_anonymous true", "max_inflight_messages 3") as server:
            connected(server, qos=qos).deliver(records(300))
            pattern = r"(Received PUBLISH|Sending PUBACK|Sending PUBCOMP) \w+ sender \((?:d0, q[12]|m)"
            events = re.findall(pattern, server.log)
        under_way = list(itertools.accumulate(1 if event == "Received PUBLISH" else -1 for event in events))
        assert len(under_way) >= 600
        assert max(under_way) <= 3


class TestOutages:
    @pytest.mark.parametrize("qos", [1, 2])
    def test_all_arrive_when_the_broker_is_killed_again_and_again(
        self, server: Mosquitto, made: Connect, qos: int
    ) -> None:
        transport = made(server, qos=qos)
        left = [one for pair in zip(records(2000), records(2000, stream="door"), strict=True) for one in pair]
        kill_below, unconfirmed = [3200, 2400, 1600], 0
        killer: threading.Thread | None = None
        with subscriber(server, "sightline/+/+/events") as reader:
            while left:
                try:
                    transport.connect()
                    while left:
                        if killer is None and kill_below and len(left) <= kill_below[0]:
                            del kill_below[0]
                            killer = threading.Timer(0.02, server.kill)
                            killer.start()
                        if killer is not None and len(left) <= 500:
                            killer.join()  # later than meant, on a busy machine: there must be a record left to lose
                        transport.deliver(left[:500])
                        del left[:500]
                except DestinationLost as error:
                    unconfirmed += len(left[:500]) - error.delivered
                    del left[: error.delivered]
                    transport.close()
                    if killer is None:
                        raise
                    killer.join()
                    killer = None
                    server.start()
                    reader.wait_until_subscribed()
            wait_until(lambda: len({(one.topic, one.body["seq"]) for one in reader.got}) == 4000)
            got = [(one.body["stream"], one.body["seq"]) for one in reader.got]
        assert not kill_below
        assert len(got) - 4000 <= unconfirmed, "some came twice although they were confirmed"
        for stream in ("gate", "door"):
            assert list(dict.fromkeys(seq for name, seq in got if name == stream)) == list(range(2000))

    @VERSIONS
    def test_hanging_broker_is_lost_after_the_time_limit(
        self, server: Mosquitto, connected: Connect, version: Any
    ) -> None:
        transport = connected(server, version=version, timeout="1s")
        transport.deliver(records(1))
        server.hang()
        with pytest.raises(DestinationLost, match="acknowledged nothing for 1 s") as caught:
            transport.deliver(records(300))
        assert caught.value.delivered == 0
        transport.close()
        with pytest.raises(DestinationLost, match="did not answer within 1 s"):
            transport.connect()

    def test_after_a_hang_the_rest_is_delivered(self, server: Mosquitto, connected: Connect) -> None:
        transport = connected(server, timeout="1s")
        with subscriber(server, "sightline/+/+/events") as reader:
            server.hang()
            with pytest.raises(DestinationLost):
                transport.deliver(records(300))
            transport.close()
            server.go_on()
            transport.connect()
            transport.deliver(records(300))
            wait_until(lambda: {one.body["seq"] for one in reader.got} == set(range(300)))

    def test_what_qos_0_cannot_write_is_lost_after_the_time_limit(self, server: Mosquitto, connected: Connect) -> None:
        transport = connected(server, qos=0, timeout="1s")
        server.hang()
        with pytest.raises(DestinationLost, match="nothing for 1 s"):
            transport.deliver(records(50, body=bytes(1_000_000)))

    def test_broker_that_is_not_there_is_lost(self, made: Connect, server: Mosquitto) -> None:
        transport = made(server)
        server.kill()
        with pytest.raises(DestinationLost, match="cannot be reached"):
            transport.connect()

    def test_server_of_another_protocol_is_lost(self, tmp_path: Path, made: Connect) -> None:
        port = free_port()
        command = (sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1")
        other = Server(command, port=port, folder=tmp_path)
        other.start()
        try:
            with pytest.raises(DestinationLost):
                made(other, timeout="2s").connect()
        finally:
            other.kill()

    def test_idle_connection_comes_back_by_itself(self, server: Mosquitto, connected: Connect) -> None:
        transport = connected(server)
        server.kill()
        server.start()
        with subscriber(server) as reader:
            wait_until(lambda: [one.payload for one in reader.of(AVAILABILITY)] == ["online"])
            transport.deliver(records(1))
            wait_until(lambda: reader.of("sightline/site/gate/events"))

    @pytest.mark.parametrize("trouble", ["none", "killed", "hanging", "never there"])
    def test_closed_transport_leaves_no_thread(self, server: Mosquitto, made: Connect, trouble: str) -> None:
        before = _threads()
        transport = made(server, timeout="1s")
        if trouble == "never there":
            server.kill()
            with pytest.raises(DestinationLost):
                transport.connect()
        else:
            transport.connect()
            transport.deliver(records(1))
        if trouble == "killed":
            server.kill()
        if trouble == "hanging":
            server.hang()
            with pytest.raises(DestinationLost):
                transport.deliver(records(1))
        transport.close()
        wait_until(lambda: _threads() == before)

    def test_closed_transport_connects_again(self, server: Mosquitto, connected: Connect) -> None:
        transport = connected(server)
        transport.close()
        transport.close()
        with subscriber(server, "sightline/+/+/events") as reader:
            transport.connect()
            transport.deliver(records(1))
            wait_until(lambda: reader.got)


def _threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("paho")}


class TestRefusals:
    def test_wrong_password_is_refused(self, tmp_path: Path, made: Connect) -> None:
        with _with_passwords(tmp_path) as server:
            with pytest.raises(DestinationRefused, match="does not accept the credentials") as caught:
                made(server, user="cam:wrong-word@").connect()
            assert "wrong-word" not in str(caught.value)
            made(server, user="cam:right%2Fword@").connect()

    @VERSIONS
    def test_no_password_is_refused(self, tmp_path: Path, made: Connect, version: Any) -> None:
        with _with_passwords(tmp_path) as server, pytest.raises(DestinationRefused, match="credentials"):
            made(server, version=version).connect()

    def test_record_larger_than_the_broker_takes_is_refused_before_it_is_sent(
        self, tmp_path: Path, connected: Connect
    ) -> None:
        with broker(tmp_path, "allow_anonymous true", "max_packet_size 2000") as server:
            transport = connected(server)
            batch = [*records(3), *records(1, first=3, body=bytes(3000)), *records(3, first=4)]
            with subscriber(server, "sightline/+/+/events") as reader:
                with pytest.raises(RecordRefused, match="takes 2000 at most") as caught:
                    transport.deliver(batch)
                assert caught.value.delivered == 3
                transport.deliver(batch[4:])
                wait_until(lambda: len(reader.got) >= 6)
                assert [one.body["seq"] for one in reader.got] == [0, 1, 2, 4, 5, 6]

    def test_largest_packet_is_delivered_and_one_byte_more_is_refused(self, tmp_path: Path, connected: Connect) -> None:
        with broker(tmp_path, "allow_anonymous true", "max_packet_size 2000") as server:
            transport = connected(server)

            def fits(size: int) -> bool:
                try:
                    transport.deliver(records(1, body=b"x" * size))
                except RecordRefused:
                    return False
                return True

            largest = max(size for size in range(1700, 2000) if fits(size))
            assert fits(largest)
            assert not fits(largest + 1)
            assert "too large" not in server.log.lower()

    @pytest.mark.parametrize("qos", [1, 2])
    def test_record_that_the_broker_refuses_is_named_and_the_others_arrive_once(
        self, tmp_path: Path, connected: Connect, qos: int
    ) -> None:
        with broker(tmp_path, "allow_anonymous true", "message_size_limit 2000") as server:
            transport = connected(server, qos=qos)
            batch = [*records(30), *records(1, first=30, body=bytes(3000)), *records(30, first=31)]
            with subscriber(server, "sightline/+/+/events") as reader:
                for _ in range(3):
                    with pytest.raises(RecordRefused, match="packet too large") as caught:
                        transport.deliver(batch)
                    del batch[: caught.value.delivered]
                    assert batch[0].seq == 30
                transport.deliver(batch[1:])
                wait_until(lambda: len(reader.got) >= 60)
                assert [one.body["seq"] for one in reader.got] == [*range(30), *range(31, 61)]

    def test_record_at_which_the_broker_closes_the_connection_is_refused_in_the_end(
        self, tmp_path: Path, made: Connect
    ) -> None:
        with broker(tmp_path, "allow_anonymous true", "max_packet_size 2000") as server:
            transport = made(server, version="3.1.1")
            left = [*records(30), *records(1, first=30, body=bytes(3000)), *records(30, first=31)]
            with subscriber(server, "sightline/+/+/events") as reader:
                with pytest.raises(RecordRefused, match="3000 bytes"):
                    _deliver_through_losses(transport, left)
                assert left[0].seq == 30
                del left[0]
                _deliver_through_losses(transport, left)
                wait_until(lambda: {one.body["seq"] for one in reader.got} == {*range(30), *range(31, 61)})

    @pytest.mark.parametrize("qos", [1, 2])
    def test_client_that_may_not_publish_is_refused(self, tmp_path: Path, connected: Connect, qos: int) -> None:
        with _with_rights(tmp_path, "topic read #") as server:
            transport = connected(server, qos=qos)
            with pytest.raises(DestinationRefused, match="not authorized") as caught:
                transport.deliver(records(30))
            assert caught.value.delivered == 0

    def test_topic_that_may_not_be_published_to_is_refused_alone(self, tmp_path: Path, connected: Connect) -> None:
        with _with_rights(tmp_path, "topic read #", "topic write sightline/site/gate/#") as server:
            transport = connected(server)
            with subscriber(server, "sightline/+/+/events") as reader:
                with pytest.raises(RecordRefused, match="sightline/site/door/events: not authorized") as caught:
                    transport.deliver([*records(2), *records(1, stream="door"), *records(2, first=2)])
                assert caught.value.delivered == 2
                transport.deliver(records(2, first=2))
                wait_until(lambda: len(reader.got) >= 4)
                assert [one.body["seq"] for one in reader.got] == [0, 1, 2, 3]

    @pytest.mark.parametrize("topic", ["a/+", "a/#", "\0", "\ud800", "x" * 70_000])
    def test_record_for_no_topic_is_refused(self, server: Mosquitto, connected: Connect, topic: str) -> None:
        with pytest.raises(RecordRefused, match="no topic") as caught:
            connected(server).deliver([*records(1), *records(1, to=topic)])
        assert caught.value.delivered == 1

    def test_broker_without_retained_messages_is_refused(self, tmp_path: Path, made: Connect) -> None:
        with broker(tmp_path, "allow_anonymous true", "retain_available false") as server:
            with pytest.raises(DestinationRefused, match="retain"):
                made(server).connect()
            with pytest.raises(DestinationRefused, match=r"set `retain: \[\]`"):
                made(server, will=None, send=("counts",)).connect()
            made(server, will=None, send=("counts",), retain=()).connect()

    def test_broker_with_a_lower_qos_is_refused(self, tmp_path: Path, made: Connect) -> None:
        with broker(tmp_path, "allow_anonymous true", "max_qos 1") as server:
            with pytest.raises(DestinationRefused, match="set `qos: 1`"):
                made(server, qos=2).connect()
            made(server, qos=1).connect()


def _deliver_through_losses(transport: Transport, left: list[Record]) -> None:
    """Deliver as the outbox does; RecordRefused is raised when the records before it are gone from `left`."""
    while left:
        try:
            transport.connect()
            transport.deliver(left)
            left.clear()
        except DestinationLost as error:
            del left[: error.delivered]
            transport.close()
        except RecordRefused as error:
            del left[: error.delivered]
            raise


def _with_passwords(folder: Path) -> Any:
    (folder / "users").write_text("")
    tool = program("mosquitto_passwd", package="mosquitto")
    subprocess.run([tool, "-b", folder / "users", "cam", "right/word"], check=True, capture_output=True)
    return broker(folder, "allow_anonymous false", f"password_file {folder / 'users'}")


def _with_rights(folder: Path, *rights: str) -> Any:
    (folder / "rights").write_text("\n".join(rights) + "\n")
    return broker(folder, "allow_anonymous true", f"acl_file {folder / 'rights'}")


class TestAvailability:
    def test_online_and_offline_are_retained(self, server: Mosquitto, connected: Connect) -> None:
        transport = connected(server)
        with subscriber(server, AVAILABILITY, name="early") as reader:
            wait_until(lambda: [(one.payload, one.retain) for one in reader.got] == [("online", True)])
            transport.close()
            wait_until(lambda: [one.payload for one in reader.got] == ["online", "offline"])
        with subscriber(server, AVAILABILITY, name="late") as reader:
            wait_until(lambda: [one.payload for one in reader.got] == ["offline"])

    @VERSIONS
    def test_killed_process_goes_offline(self, server: Mosquitto, version: Any) -> None:
        program_text = (
            "import sys, time\n"
            "from tests.integration.delivery.test_mqtt import *\n"
            "transport = Mqtt(url=sys.argv[1], version=sys.argv[2]).transport(site())\n"
            "transport.connect()\n"
            "transport.deliver(records(1))\n"
            "time.sleep(1000)\n"
        )
        with subscriber(server) as reader:
            url = f"mqtt://127.0.0.1:{server.port}"
            command = [sys.executable, "-c", program_text, url, str(version)]
            child = subprocess.Popen(command, cwd=REPOSITORY)
            try:
                wait_until(lambda: reader.of("sightline/site/gate/events"))
                assert [one.payload for one in reader.of(AVAILABILITY)] == ["online"]
            finally:
                child.kill()
                child.wait()
            wait_until(lambda: [one.payload for one in reader.of(AVAILABILITY)] == ["online", "offline"])

    @VERSIONS
    def test_clean_close_does_not_use_the_last_will(self, server: Mosquitto, connected: Connect, version: Any) -> None:
        with subscriber(server, AVAILABILITY) as reader:
            for times in range(1, 6):
                connected(server, version=version).close()
                wait_until(lambda times=times: server.log.count("Client sender disconnected.") == times)  # type: ignore[misc]
            publish(server, AVAILABILITY, "last")
            wait_until(lambda: reader.got[-1:] and reader.got[-1].payload == "last")
            assert [one.payload for one in reader.got] == 5 * ["online", "offline"] + ["last"]

    def test_last_will_of_an_earlier_process_does_not_stay(self, server: Mosquitto, connected: Connect) -> None:
        with subscriber(server, AVAILABILITY) as reader:
            connected(server)
            wait_until(lambda: reader.got)
            publish(server, AVAILABILITY, "offline")
            wait_until(lambda: [one.payload for one in reader.got] == ["online", "offline", "online"])
        with subscriber(server, AVAILABILITY, name="late") as reader:
            wait_until(lambda: [one.payload for one in reader.got] == ["online"])

    def test_availability_can_be_left_out(self, server: Mosquitto, connected: Connect) -> None:
        with subscriber(server) as reader:
            transport = connected(server, will=None)
            transport.deliver(records(1))
            transport.close()
            wait_until(lambda: "sender disconnected" in server.log)
            publish(server, "last", "")
            wait_until(lambda: reader.of("last"))
            assert [one.topic for one in reader.got] == ["sightline/site/gate/events", "last"]


class TestTls:
    @pytest.fixture
    def secure(self, tmp_path: Path) -> Iterator[Mosquitto]:
        made = make_certificates(tmp_path)
        keys = (f"cafile {made.authority}", f"certfile {made.server}", f"keyfile {made.server_key}")
        with broker(tmp_path, "allow_anonymous true", *keys, "require_certificate true") as running:
            yield running

    def test_client_certificate_lets_us_in(self, secure: Mosquitto, connected: Connect) -> None:
        folder = secure.folder
        ca, certificate, key = (str(folder / name) for name in ("ca.pem", "client.pem", "client.key"))
        options = ("-h", "127.0.0.1", "--cafile", ca, "--cert", certificate, "--key", key)
        with subscriber(secure, "sightline/+/+/events", options=options) as reader:
            transport = connected(secure, scheme="mqtts", ca_file=ca, cert_file=certificate, key_file=key)
            transport.deliver(records(300))
            wait_until(lambda: [one.body["seq"] for one in reader.got] == list(range(300)))

    @VERSIONS
    def test_missing_client_certificate_is_refused(self, secure: Mosquitto, made: Connect, version: Any) -> None:
        transport = made(secure, scheme="mqtts", ca_file=secure.folder / "ca.pem", version=version)
        with pytest.raises(DestinationLost, match="`cert_file`"):
            transport.connect()

    def test_broker_whose_certificate_nobody_signed_is_refused(self, secure: Mosquitto, made: Connect) -> None:
        with pytest.raises(DestinationRefused, match="certificate is not accepted"):
            made(secure, scheme="mqtts").connect()

    def test_any_certificate_is_accepted_when_told_so(self, tmp_path: Path, connected: Connect) -> None:
        made = make_certificates(tmp_path)
        keys = (f"certfile {made.server}", f"keyfile {made.server_key}")
        with broker(tmp_path, "allow_anonymous true", *keys) as server:
            connected(server, scheme="mqtts", insecure=True).deliver(records(1))

    def test_broker_without_tls_is_no_tls_broker(self, server: Mosquitto, made: Connect) -> None:
        with pytest.raises(DestinationLost):
            made(server, scheme="mqtts", timeout="3s").connect()


class TestVersions:
    @pytest.fixture
    def old(self, tmp_path: Path) -> Iterator[Server]:
        """A NATS server, which knows MQTT 3.1.1 only."""
        port, other = free_port(), free_port()
        (tmp_path / "nats.conf").write_text(
            f'server_name: one\nlisten: "127.0.0.1:{other}"\njetstream: {{store_dir: "{tmp_path}"}}\n'
            f'mqtt: {{host: "127.0.0.1", port: {port}}}\n'
        )
        running = Server((program("nats-server", package="nats-server"), "-c", "nats.conf"), port=port, folder=tmp_path)
        running.start()
        try:
            yield running
        finally:
            running.kill()

    def test_broker_that_does_not_know_mqtt_5_is_spoken_to_in_3_1_1(self, old: Server, connected: Connect) -> None:
        connected(old).deliver(records(50))

    def test_version_that_is_asked_for_is_not_changed(self, old: Server, made: Connect) -> None:
        with pytest.raises(DestinationRefused, match="does not know MQTT 5"):
            made(old, version=5).connect()


def _status(state: str, *, seq: int) -> list[Record]:
    body = {"stream": "gate", "epoch": 7, "seq": seq, "record": "status", "pipeline": "site", "state": state}
    return records(1, kind="status", first=seq, body=json.dumps(body).encode())


class TestPipeline:
    @pytest.fixture
    def reader(self, server: Mosquitto, tmp_path: Path) -> Iterator[Subscriber]:
        """What a subscriber saw of a run over two streams, in which a car drives across a line again and again."""
        boxes = [f"{n + 1},-1,{4 + 3 * (n % 40)},{10 + 2 * (n % 40)},30,30,0.9,-1,-1,-1" for n in range(50)]
        (tmp_path / "det.txt").write_text("\n".join(boxes))
        with subscriber(server) as reader:
            Pipeline(
                sources={name: Pattern(frames=50) for name in ("gate", "yard 1")},
                steps=[
                    Replay(path=tmp_path / "det.txt", label="car"),
                    Track(),
                    Lines.model_validate({"gate_in": {"from": [0, 0.2], "to": [1, 0.2]}}),
                    element_for(
                        server, send=("frames", "counts", "status"), topic="{stream}/{kind}", home_assistant=True
                    ),
                ],
                outputs=tmp_path,
            ).run()
            yield reader

    def test_whole_pipeline_arrives(self, reader: Subscriber) -> None:
        wait_until(lambda: len(reader.of("gate/frames")) >= 50 and len(reader.of("yard 1/frames")) >= 50)
        for topic in ("gate/frames", "yard 1/frames"):
            assert [one.body["frame"] for one in reader.of(topic)] == list(range(50))
        (state,) = {one.topic for one in reader.got if one.topic.endswith("/availability")}
        wait_until(lambda: [one.payload for one in reader.of(state)] == ["online", "offline"])

    def test_lines_and_streams_become_entities(self, reader: Subscriber) -> None:
        def entities() -> set[str]:
            return {one.body["name"] for one in reader.got if one.topic.endswith("/config")}

        wait_until(lambda: entities() == {"Camera", "gate_in in", "gate_in out", "car"})
        devices = {one.body["device"]["name"] for one in reader.got if one.topic.endswith("/config")}
        assert devices == {"gate", "yard 1"}


class TestHomeAssistant:
    CONFIG = "homeassistant/binary_sensor/site_gate/camera/config"

    def test_entity_is_announced_before_its_first_state(self, server: Mosquitto, connected: Connect) -> None:
        with subscriber(server, "homeassistant/#", "sightline/+/+/status") as reader:
            connected(server, send=("status",), home_assistant=True).deliver(_status("live", seq=0))
            wait_until(lambda: len(reader.got) >= 2)
            assert [one.topic for one in reader.got] == [self.CONFIG, "sightline/site/gate/status"]

    def test_announcement_is_retained(self, server: Mosquitto, connected: Connect) -> None:
        connected(server, send=("status",), home_assistant=True).deliver(_status("live", seq=0))
        with subscriber(server, "homeassistant/#") as reader:
            wait_until(lambda: [(one.topic, one.retain) for one in reader.got] == [(self.CONFIG, True)])

    def test_entity_is_announced_once(self, server: Mosquitto, connected: Connect) -> None:
        with subscriber(server, "homeassistant/#", "sightline/+/+/status") as reader:
            transport = connected(server, send=("status",), home_assistant=True)
            transport.deliver([*_status("live", seq=0), *_status("lost", seq=1)])
            transport.deliver(_status("live", seq=2))
            wait_until(lambda: len(reader.of("sightline/site/gate/status")) >= 3)
            assert len(reader.of(self.CONFIG)) == 1

    def test_all_is_announced_again_when_home_assistant_starts(self, server: Mosquitto, connected: Connect) -> None:
        with subscriber(server, "homeassistant/binary_sensor/#") as reader:
            connected(server, send=("status",), home_assistant=True).deliver(_status("live", seq=0))
            wait_until(lambda: len(reader.got) == 1)
            publish(server, "homeassistant/status", "offline")
            publish(server, "homeassistant/status", "online")
            wait_until(lambda: len(reader.got) == 2)
            assert reader.got[0].payload == reader.got[1].payload

    def test_all_is_announced_again_to_a_broker_that_forgot_it(self, server: Mosquitto, connected: Connect) -> None:
        transport = connected(server, send=("status",), home_assistant=True)
        transport.deliver(_status("live", seq=0))
        server.kill()
        server.start()
        with subscriber(server, "homeassistant/#") as reader:
            wait_until(lambda: [one.topic for one in reader.got] == [self.CONFIG])
