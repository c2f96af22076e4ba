"""`redis` against a real server: streams, outages, refusals, access control, TLS."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sightline.devices import Device
from sightline.errors import DestinationLost, DestinationRefused, RecordRefused
from sightline.graph import Site
from sightline.graph.transport import Record, Transport
from sightline.testing.transport_conformance import TransportConformance
from sightline_plugins.delivery.redis import Redis
from tests.integration.delivery.certificates import Certificates, make_certificates
from tests.integration.delivery.outages import Delivering, deliver_through_kills, doubles, records, without_doubles
from tests.integration.delivery.redis_server import RedisServer
from tests.ports import free_port
from tests.waiting import wait_until

pytest.importorskip("redis")

STREAMS = ("gate", "yard.north", "Tor 7 *", "Hof 🚗 >")
Connect = Callable[[Redis], Transport]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    started = RedisServer(tmp_path)
    started.start()
    yield started
    started.go_on()
    started.kill()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def connected() -> Iterator[Connect]:
    opened: list[Transport] = []

    def connect(element: Redis) -> Transport:
        opened.append(new_transport(element))
        opened[-1].connect()
        return opened[-1]

    yield connect
    for transport in opened:
        transport.close()


def new_element(server: RedisServer, *, user: str = "", **options: Any) -> Redis:
    scheme = options.pop("scheme", "redis")
    options = {"url": f"{scheme}://{user}127.0.0.1:{server.port}", "send": ("events",), "timeout": "60s"} | options
    return Redis(**options)


def new_transport(element: Redis) -> Transport:
    return element.transport(Site(Device(), element_id="redis-1"))


def records_for(element: Redis, count: int, **options: Any) -> list[Record]:
    streams = options.pop("streams", ("gate",))

    def address(stream: str, kind: str) -> str:
        return element.address(stream, kind, pipeline="pipeline")

    return records(count * len(streams), to=address, streams=streams, **options)


GATE = "sightline:pipeline:gate:events"


class TestWhatArrives:
    def test_redis_cli_reads_the_fields_of_a_record(self, server: RedisServer, connected: Connect) -> None:
        element = new_element(server)

        connected(element).deliver(records_for(element, 1))

        assert server.entries(GATE) == [
            {
                "stream": "gate",
                "epoch": "7",
                "seq": "0",
                "kind": "events",
                "content_type": "application/json",
                "body": '{"number": 0}',
            }
        ]

    def test_streams_of_any_name_arrive_in_order(self, server: RedisServer, connected: Connect) -> None:
        element = new_element(server)

        connected(element).deliver(records_for(element, 100, streams=STREAMS))

        keys = ("gate", "yard.north", "Tor_7_", "Hof_🚗_>")
        for stream, key in zip(STREAMS, keys, strict=True):
            assert server.seen(f"sightline:pipeline:{key}:events") == [(stream, seq) for seq in range(100)]

    def test_bytes_of_any_kind_arrive_as_they_are(self, server: RedisServer, connected: Connect) -> None:
        element = new_element(server)
        body = b'"}' + bytes(range(33, 127)) + b"\r\n$3\r\n"

        connected(element).deliver(records_for(element, 1, body=body))

        assert server.entries(GATE)[0]["body"].encode() == body

    def test_the_database_of_the_url_is_written(self, server: RedisServer, connected: Connect) -> None:
        element = new_element(server, url=f"redis://127.0.0.1:{server.port}/5")

        connected(element).deliver(records_for(element, 3))

        assert server.ask("-n", "5", "XLEN", GATE) == "3"
        assert server.ask("-n", "0", "DBSIZE") == "0"

    def test_a_socket_of_this_machine_is_written(self, server: RedisServer, connected: Connect) -> None:
        element = new_element(server, url=f"unix://{server.socket}?db=2")

        connected(element).deliver(records_for(element, 3))

        assert server.ask("-n", "2", "XLEN", GATE) == "3"

    def test_the_oldest_entries_are_removed_beyond_max_length(self, server: RedisServer, connected: Connect) -> None:
        element = new_element(server, max_length=1000)

        connected(element).deliver(records_for(element, 5000))

        found = server.seen(GATE)
        assert 1000 <= len(found) < 1200
        assert found[-1] == ("gate", 4999)


class TestOutages:
    def test_all_records_arrive_in_order_and_once_when_the_server_is_killed(
        self, server: RedisServer, connected: Connect
    ) -> None:
        element = new_element(server, key="all")
        sent = records_for(element, 4000, streams=("gate", "yard"), body=b"x" * 500)
        delivering = Delivering(new_transport(element), sent, per_second=2000)

        deliver_through_kills(server, delivering, at=(1500, 4000))

        found = server.seen("all")
        assert delivering.losses >= 2
        assert without_doubles(found) == {name: list(range(4000)) for name in ("gate", "yard")}
        assert doubles(found) == 0

    def test_a_server_that_hangs_is_lost_at_about_the_time_limit(self, server: RedisServer, connected: Connect) -> None:
        element = new_element(server, timeout="1s")
        transport = connected(element)
        transport.deliver(records_for(element, 10))
        server.hang()
        start = time.monotonic()

        with pytest.raises(DestinationLost, match="no answer within 1 s") as lost:
            transport.deliver(records_for(element, 10, streams=("yard",)))

        assert time.monotonic() - start >= 0.9
        assert lost.value.delivered == 0
        with pytest.raises(DestinationLost, match="no answer within 1 s"):
            transport.connect()

    def test_what_was_sent_to_a_hanging_server_arrives_once(self, server: RedisServer, connected: Connect) -> None:
        element = new_element(server, timeout="1s")
        transport, records = connected(element), records_for(element, 20)
        server.hang()
        with pytest.raises(DestinationLost, match="no answer"):
            transport.deliver(records[:15])
        transport.close()
        server.go_on()
        wait_until(lambda: server.ask("XLEN", GATE) == "15")

        def is_delivered() -> bool:
            try:
                transport.connect()
                transport.deliver(records)
            except DestinationLost:
                return False
            return True

        wait_until(is_delivered)

        assert server.seen(GATE) == [("gate", seq) for seq in range(20)]

    def test_the_same_seq_from_another_pipeline_is_not_taken_for_ours(
        self, server: RedisServer, connected: Connect
    ) -> None:
        element = new_element(server, key="shared")
        transport = connected(element)
        transport.deliver(records_for(element, 1, streams=("yard",)))
        server.kill()
        with pytest.raises(DestinationLost):
            transport.deliver(records_for(element, 2, body=b"ours"))
        server.start()
        connected(element).deliver(records_for(element, 2, body=b"theirs"))

        transport.deliver(records_for(element, 2, body=b"ours"))

        assert [entry["body"] for entry in server.entries("shared")[1:]] == ["theirs", "theirs", "ours", "ours"]

    def test_a_connection_that_the_server_closed_while_idle_is_opened_again(
        self, server: RedisServer, connected: Connect
    ) -> None:
        element = new_element(server)
        transport = connected(element)
        transport.deliver(records_for(element, 1))
        server.ask("CLIENT", "KILL", "TYPE", "normal")

        transport.deliver(records_for(element, 1, streams=("yard",)))

        assert server.ask("XLEN", "sightline:pipeline:yard:events") == "1"

    def test_a_server_that_is_not_there_is_lost(self, server: RedisServer, connected: Connect) -> None:
        server.kill()

        with pytest.raises(DestinationLost, match="Connection refused") as lost:
            connected(new_element(server))

        assert not isinstance(lost.value, DestinationRefused)


class TestRefusals:
    @pytest.fixture
    def cluster(self, tmp_path: Path) -> Iterator[tuple[RedisServer, RedisServer]]:
        """Two servers of a cluster that do not know each other yet, and have no keys."""
        options = ("--cluster-enabled", "yes", "--cluster-port")
        (tmp_path / "one").mkdir()
        (tmp_path / "two").mkdir()
        one = RedisServer(tmp_path / "one", *options, str(free_port()))
        two = RedisServer(tmp_path / "two", *options, str(free_port()))
        one.start()
        two.start()
        yield one, two
        one.kill()
        two.kill()

    def test_a_key_of_another_type_refuses_its_record_and_the_others_are_delivered_once(
        self, server: RedisServer, connected: Connect
    ) -> None:
        element = new_element(server)
        transport = connected(element)
        server.ask("SET", "sightline:pipeline:bad:events", "text")
        records = records_for(element, 6)
        mixed = [*records[:3], *records_for(element, 1, streams=("bad",)), *records[3:]]
        with pytest.raises(RecordRefused, match="WRONGTYPE") as first:
            transport.deliver(mixed)
        with pytest.raises(RecordRefused, match="WRONGTYPE") as second:
            transport.deliver(mixed[3:])

        transport.deliver(mixed[4:])

        assert (first.value.delivered, second.value.delivered) == (3, 0)
        assert server.seen(GATE) == [("gate", seq) for seq in range(6)]

    def test_a_record_larger_than_the_server_takes_is_refused_and_the_others_are_delivered(
        self, server: RedisServer, connected: Connect
    ) -> None:
        server.ask("CONFIG", "SET", "proto-max-bulk-len", "1048576")
        element = new_element(server)
        transport, records = connected(element), records_for(element, 6)
        too_large = records_for(element, 1, streams=("big",), body=b"x" * 1_048_577)
        with pytest.raises(RecordRefused, match="1048577 bytes are more than the server allows") as refused:
            transport.deliver([*records[:3], *too_large, *records[3:]])
        assert refused.value.delivered == 3

        transport.deliver(records[3:])

        assert server.seen(GATE) == [("gate", seq) for seq in range(6)]

    def test_a_server_without_memory_is_lost_and_takes_the_records_later(
        self, server: RedisServer, connected: Connect
    ) -> None:
        element = new_element(server)
        transport, records = connected(element), records_for(element, 3)
        server.ask("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(DestinationLost, match="maxmemory") as lost:
            transport.deliver(records)
        assert not isinstance(lost.value, DestinationRefused)
        server.ask("CONFIG", "SET", "maxmemory", "0")

        transport.deliver(records)

        assert server.seen(GATE) == [("gate", 0), ("gate", 1), ("gate", 2)]

    def test_a_replica_is_lost(self, server: RedisServer, connected: Connect) -> None:
        element = new_element(server)
        transport = connected(element)
        server.ask("REPLICAOF", "127.0.0.1", "1")

        with pytest.raises(DestinationLost, match="read only replica") as lost:
            transport.deliver(records_for(element, 1))

        assert not isinstance(lost.value, DestinationRefused)

    def test_a_cluster_that_is_down_is_lost(self, cluster: tuple[RedisServer, RedisServer], connected: Connect) -> None:
        element = new_element(cluster[1])

        with pytest.raises(DestinationLost, match="Hash slot not served") as lost:
            connected(element).deliver(records_for(element, 1))

        assert not isinstance(lost.value, DestinationRefused)

    def test_a_cluster_that_keeps_the_key_on_another_server_refuses(
        self, cluster: tuple[RedisServer, RedisServer], connected: Connect
    ) -> None:
        owner, other = cluster
        owner.ask("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
        other.ask(
            "CLUSTER", "MEET", "127.0.0.1", str(owner.port), owner.ask("CONFIG", "GET", "cluster-port").split()[1]
        )
        wait_until(lambda: "cluster_state:ok" in other.ask("CLUSTER", "INFO"))
        element = new_element(other)

        with pytest.raises(DestinationRefused, match="clusters are not supported"):
            connected(element).deliver(records_for(element, 1))

    def test_a_database_that_is_not_there_is_refused(self, server: RedisServer, connected: Connect) -> None:
        with pytest.raises(DestinationRefused, match="DB index is out of range"):
            connected(new_element(server, url=f"redis://127.0.0.1:{server.port}/99"))


class TestCredentials:
    @pytest.fixture
    def guarded(self, tmp_path: Path) -> Iterator[RedisServer]:
        started = RedisServer(tmp_path, "--requirepass", "sesam/7@#", cli=("-a", "sesam/7@#"))
        started.start()
        yield started
        started.kill()

    def test_a_password_logs_in(self, guarded: RedisServer, connected: Connect) -> None:
        element = new_element(guarded, user=":sesam%2F7%40%23@")

        connected(element).deliver(records_for(element, 3))

        assert guarded.ask("XLEN", GATE) == "3"

    @pytest.mark.parametrize("user", [":secret@", "site:secret@", ""])
    def test_wrong_or_missing_credentials_are_refused_and_not_shown(
        self, guarded: RedisServer, connected: Connect, user: str
    ) -> None:
        with pytest.raises(DestinationRefused, match="does not let us in") as refused:
            connected(new_element(guarded, user=user))

        assert "secret" not in str(refused.value)

    def test_a_user_who_may_only_add_delivers(self, guarded: RedisServer, connected: Connect) -> None:
        guarded.ask("ACL", "SETUSER", "site", "on", ">pw", "~sightline:*", "+xadd")
        element = new_element(guarded, user="site:pw@")

        connected(element).deliver(records_for(element, 3))

        assert guarded.ask("XLEN", GATE) == "3"

    def test_a_key_that_the_user_may_not_write_is_refused(self, guarded: RedisServer, connected: Connect) -> None:
        guarded.ask("ACL", "SETUSER", "site", "on", ">pw", "~other:*", "+xadd")
        element = new_element(guarded, user="site:pw@")

        with pytest.raises(DestinationRefused, match="no permissions") as refused:
            connected(element).deliver(records_for(element, 3))

        assert refused.value.delivered == 0

    def test_a_password_that_is_set_while_connected_is_asked_for(self, server: RedisServer, connected: Connect) -> None:
        element = new_element(server)
        transport = connected(element)
        server.ask("CONFIG", "SET", "requirepass", "sesam")
        transport.close()

        with pytest.raises(DestinationRefused, match="Authentication required"):
            transport.deliver(records_for(element, 1))


class TestTls:
    @pytest.fixture
    def encrypted(self, tmp_path: Path, certificates: Certificates) -> Iterator[RedisServer]:
        files = ("--tls-cert-file", certificates.server, "--tls-key-file", certificates.server_key)
        cli = (
            "--tls",
            "--cacert",
            certificates.authority,
            "--cert",
            certificates.client,
            "--key",
            certificates.client_key,
        )
        started = RedisServer(tmp_path, "--tls-port", *files, "--tls-ca-cert-file", certificates.authority, cli=cli)
        started.start()
        yield started
        started.go_on()
        started.kill()

    def test_records_arrive_with_a_certificate_on_both_sides(
        self, encrypted: RedisServer, certificates: Certificates, connected: Connect
    ) -> None:
        files: dict[str, Any] = {
            "ca_file": certificates.authority,
            "cert_file": certificates.client,
            "key_file": certificates.client_key,
        }
        element = new_element(encrypted, scheme="rediss", **files)

        connected(element).deliver(records_for(element, 100))

        assert encrypted.seen(GATE) == [("gate", seq) for seq in range(100)]

    def test_a_client_without_a_certificate_does_not_get_in(
        self, encrypted: RedisServer, certificates: Certificates, connected: Connect
    ) -> None:
        with pytest.raises(DestinationLost):  # what it says depends on whether its alert is read before it hangs up
            connected(new_element(encrypted, scheme="rediss", ca_file=certificates.authority))

    def test_a_server_of_another_authority_is_not_trusted(
        self, encrypted: RedisServer, tmp_path: Path, connected: Connect
    ) -> None:
        other = make_certificates(tmp_path).authority

        with pytest.raises(DestinationLost, match="certificate verify failed"):
            connected(new_element(encrypted, scheme="rediss", ca_file=other))

    def test_a_server_of_another_name_is_not_trusted(
        self, encrypted: RedisServer, certificates: Certificates, connected: Connect
    ) -> None:
        url = f"rediss://localhost:{encrypted.port}"
        with pytest.raises(DestinationLost, match="certificate verify failed"):
            connected(new_element(encrypted, url=url, ca_file=certificates.authority))

    def test_a_server_that_hangs_is_lost(
        self, encrypted: RedisServer, certificates: Certificates, connected: Connect
    ) -> None:
        files: dict[str, Any] = {
            "ca_file": certificates.authority,
            "cert_file": certificates.client,
            "key_file": certificates.client_key,
        }
        element = new_element(encrypted, scheme="rediss", timeout="1s", **files)
        transport = connected(element)
        encrypted.hang()

        with pytest.raises(DestinationLost, match="no answer within 1 s"):
            transport.deliver(records_for(element, 60, body=b"x" * 500_000))


class TestConformance(TransportConformance):
    @pytest.fixture
    def element(self, server: RedisServer) -> Redis:
        self.server = server
        return new_element(server, key="records", timeout="20s")

    def received(self) -> list[bytes]:
        return [entry["body"].encode() for entry in self.server.entries("records")]

    def stop(self) -> None:
        self.server.kill()
