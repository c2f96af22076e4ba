from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from sightline.devices import Device
from sightline.errors import DeliveryError, DestinationLost, DestinationRefused, RecordRefused
from sightline.graph import CheckContext, Outputs, Site
from sightline.graph.transport import Record, Transport
from sightline.testing.transport_conformance import TransportConformance
from sightline_plugins.delivery import postgres_table
from sightline_plugins.delivery.postgres import Postgres
from tests.integration.delivery.certificates import Certificates, make_certificates
from tests.integration.delivery.postgresql import PASSWORD, PostgresServer, postgresql
from tests.ports import free_port
from tests.waiting import wait_until

SITE = Site(Device(), element_id="db", pipeline="yard")


@pytest.fixture(scope="module")
def running() -> Iterator[PostgresServer]:
    with postgresql() as server:
        yield server


@pytest.fixture
def server(running: PostgresServer) -> Iterator[PostgresServer]:
    """The server, with an empty database."""
    yield running
    running.go_on()
    wait_until(lambda: running._query("site", "SELECT 1").returncode == 0)
    running.psql("DROP SCHEMA public CASCADE; CREATE SCHEMA public AUTHORIZATION sightline")
    running.psql("DROP SCHEMA IF EXISTS metrics CASCADE")


TlsServer = tuple[PostgresServer, Certificates]


@pytest.fixture
def tls_server(server: PostgresServer, tmp_path: Path) -> Iterator[TlsServer]:
    """The server with TLS, which lets the user `client` in with a certificate only."""
    files = make_certificates(tmp_path)
    settings = server.folder / "data" / "pg_hba.conf"
    before = settings.read_text()
    for name, file in (
        ("ssl_key_file", files.server_key),
        ("ssl_cert_file", files.server),
        ("ssl_ca_file", files.authority),
    ):
        own = server.folder / file.name
        shutil.copy(file, own)
        shutil.chown(own, *((server.folder / "data").owner(), (server.folder / "data").group()))
        own.chmod(0o600)
        server.psql(f"ALTER SYSTEM SET {name} = '{own}'")
    server.psql("ALTER SYSTEM SET ssl = on")
    settings.write_text(f"hostssl all client all cert\n{before}")
    server.psql("CREATE ROLE client LOGIN; GRANT CREATE, USAGE ON SCHEMA public TO client")
    server.psql("SELECT pg_reload_conf()")
    wait_until(lambda: server.psql("SHOW ssl") == ["on"])
    yield server, files
    settings.write_text(before)
    server.psql("ALTER SYSTEM RESET ALL")
    server.psql("SELECT pg_reload_conf()")
    server.psql("DROP OWNED BY client; DROP ROLE client")


def record(seq: int, *, stream: str = "gate", body: bytes | None = None, **more: Any) -> Record:
    content = json.dumps({"seq": seq, "label": "person"}).encode() if body is None else body
    return Record(stream, 3, seq, "events", "", content, 1_700_000_000_123_456_000 + seq * 1_000_000, **more)


def records(count: int, **more: Any) -> list[Record]:
    return [record(seq, **more) for seq in range(count)]


def transport(server: PostgresServer, *, url: str | None = None, timeout: str = "60s", **options: Any) -> Transport:
    return Postgres(url=url or server.url(), timeout=timeout, **options).transport(SITE)


def deliver(server: PostgresServer, batch: list[Record], **options: Any) -> None:
    with closing(transport(server, **options)) as database:
        database.connect()
        database.deliver(batch)


def failure(server: PostgresServer, batch: list[Record] | None = None, **options: Any) -> DeliveryError:
    try:
        deliver(server, batch or records(1), **options)
    except DeliveryError as error:
        return error
    pytest.fail("it was delivered")


def stored(server: PostgresServer, table: str = "sightline") -> list[int]:
    return [int(line) for line in server.psql(f"SELECT seq FROM {table} ORDER BY stream, epoch, seq")]


class TestContract(TransportConformance):
    @pytest.fixture
    def element(self, server: PostgresServer) -> Iterator[Postgres]:
        self._server, self._was_stopped = server, False
        yield Postgres(url=server.url(), timeout="60s")
        if self._was_stopped:
            server.start()

    def received(self) -> list[bytes]:
        exists = self._server.psql("SELECT to_regclass('sightline') IS NOT NULL") == ["t"]
        lines = self._server.psql("SELECT record FROM sightline ORDER BY ctid") if exists else []
        found = [json.loads(line) for line in lines]
        keys = ("stream", "epoch", "seq", "record")
        return [json.dumps({key: item[key] for key in keys}, separators=(",", ":")).encode() for item in found]

    def stop(self) -> None:
        self._was_stopped = True
        self._server.kill()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://sightline:{password}@/site?host={folder}&port={port}",
        "postgres://sightline:{password}@{host}:{port}/site",
    ],
)
def test_a_socket_in_the_file_system_is_a_server_too(server: PostgresServer, url: str) -> None:
    folder, password = str(server.folder), quote(PASSWORD, safe="")
    filled = url.format(password=password, folder=folder, host=quote(folder, safe=""), port=server.port)
    element = Postgres(url=filled)

    deliver(server, records(3), url=filled)

    assert stored(server) == [0, 1, 2]
    assert list(element.check(CheckContext(Device(), streams=(), outputs=Outputs(server.folder)))) == []
    assert PASSWORD not in element.destination()


class TestRows:
    def test_psql_reads_all_columns(self, server: PostgresServer) -> None:
        deliver(server, [record(7, stream="Gate 🚪\t\\N")])

        read = "SELECT sender, stream, epoch, seq, kind, time AT TIME ZONE 'UTC', record->>'label', body FROM sightline"
        assert server.psql(read) == ["yard/db|Gate 🚪\t\\N|3|7|events|2023-11-14 22:13:20.130456|person|"]

    def test_records_that_are_not_json_are_stored_as_bytes(self, server: PostgresServer) -> None:
        deliver(server, [record(0), record(1, body=b"\x00\xff\\", content_type="application/x-protobuf")])

        assert server.psql("SELECT record IS NULL, encode(body, 'hex') FROM sightline ORDER BY seq") == [
            "f|",
            "t|00ff5c",
        ]

    def test_all_records_of_large_batches_arrive(self, server: PostgresServer) -> None:
        deliver(server, records(2500))

        assert stored(server) == list(range(2500))

    def test_users_find_records_by_time_and_by_stream_with_an_index(self, server: PostgresServer) -> None:
        deliver(server, records(1))

        indexes = server.psql("SELECT indexdef FROM pg_indexes WHERE tablename = 'sightline'")
        assert {line.partition("btree ")[2] for line in indexes} == {
            "(stream, epoch, seq, sender)",
            '("time")',
            '(stream, "time")',
        }

    @pytest.mark.parametrize("table", ['odd"name', "Sightline Events; DROP TABLE x", "tab'le", "%s {x}", "ütable"])
    def test_odd_names_of_tables_are_quoted(self, server: PostgresServer, table: str) -> None:
        quoted = '"' + table.replace('"', '""') + '"'
        option = quoted if '"' in table else table

        deliver(server, records(3), table=option)
        deliver(server, records(4), table=option)

        assert stored(server, quoted) == [0, 1, 2, 3]

    def test_a_table_can_be_in_a_schema(self, server: PostgresServer) -> None:
        server.psql("CREATE SCHEMA metrics AUTHORIZATION sightline")

        deliver(server, records(2), table="metrics.events")

        assert stored(server, "metrics.events") == [0, 1]


class TestDoubles:
    def test_a_record_that_is_delivered_again_is_stored_once(self, server: PostgresServer) -> None:
        deliver(server, records(300))
        deliver(server, records(500))

        assert stored(server) == list(range(500))

    def test_two_steps_may_share_a_table(self, server: PostgresServer) -> None:
        other = Postgres(url=server.url()).transport(Site(Device(), element_id="db-2", pipeline="yard"))
        deliver(server, records(2))
        with closing(other) as database:
            database.connect()
            database.deliver(records(3, body=b'"other"'))

        assert stored(server) == [0, 0, 1, 1, 2]

    def test_another_record_under_the_same_name_is_refused_instead_of_lost(self, server: PostgresServer) -> None:
        deliver(server, records(5))

        error = failure(server, [record(3), record(4, body=b'{"seq": "other"}'), record(5)])

        assert (type(error), error.delivered) == (RecordRefused, 1)
        assert "holds another record with stream gate, epoch 3 and seq 4" in str(error)
        assert stored(server) == list(range(5))


class TestRefusedRecords:
    @pytest.mark.parametrize(
        "body",
        [b'{"text": "a\\u0000b"}', b"{not json", b"", b'"\xff"', b'"\\ud800"', b'"a\x00b"', b"1e999999"],
        ids=["NUL", "no JSON", "empty", "no UTF-8", "half a pair", "raw NUL", "too large a number"],
    )
    def test_only_the_record_that_jsonb_refuses_is_refused(self, server: PostgresServer, body: bytes) -> None:
        batch = [record(seq) if seq != 137 else record(seq, body=body) for seq in range(500)]

        with closing(transport(server)) as database:
            database.connect()
            with pytest.raises(RecordRefused) as caught:
                database.deliver(batch)
            assert caught.value.delivered == 137
            database.deliver(batch[138:])

        assert stored(server) == [seq for seq in range(500) if seq != 137]

    def test_the_message_says_why(self, server: PostgresServer) -> None:
        error = failure(server, [record(0, body=b'"\\u0000"')])

        assert str(error).endswith(
            r"refuses the record: unsupported Unicode escape sequence: \u0000 cannot be converted to text."
        )

    @pytest.mark.parametrize("stream", ["a\x00b", "a\ud800b"])
    def test_a_name_that_is_no_text_for_the_database_is_refused(self, server: PostgresServer, stream: str) -> None:
        error = failure(server, [record(0), record(1, stream=stream)])

        assert (type(error), error.delivered) == (RecordRefused, 1)

    def test_a_record_is_refused_among_doubles_too(self, server: PostgresServer) -> None:
        deliver(server, records(10))

        error = failure(server, [*records(20), record(20, body=b'"\\u0000"'), record(21)])

        assert (type(error), error.delivered) == (RecordRefused, 20)
        assert stored(server) == list(range(20))

    def test_a_constraint_of_the_user_refuses_a_record(self, server: PostgresServer) -> None:
        deliver(server, records(1))
        server.psql("ALTER TABLE sightline ADD CHECK (seq <> 3)")

        error = failure(server, records(10))

        assert (type(error), error.delivered) == (RecordRefused, 3)
        assert stored(server) == [0, 1, 2]


class TestTheTable:
    def test_two_processes_may_make_the_table_at_once(self, server: PostgresServer) -> None:
        code = (
            "import sys; from tests.integration.delivery.test_postgres import *;"
            "t = Postgres(url=sys.argv[1], timeout='60s').transport(Site(Device(), element_id=sys.argv[2]));"
            "input(); t.connect(); t.deliver(records(50)); t.close()"
        )
        processes = [
            subprocess.Popen([sys.executable, "-c", code, server.url(), name], stdin=subprocess.PIPE)
            for name in ("one", "two", "three")
        ]
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.close()

        assert [process.wait(300) for process in processes] == [0, 0, 0]
        assert len(stored(server)) == 150

    def test_a_table_of_an_older_version_is_migrated_and_keeps_its_rows(
        self, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        deliver(server, records(2))
        newer(monkeypatch)

        deliver(server, records(4))

        assert stored(server) == [0, 1, 2, 3]
        assert server.psql("SELECT DISTINCT note FROM sightline") == ["new"]
        assert server.psql("SELECT obj_description('sightline'::regclass)") == ["Records of Sightline, version 2"]

    def test_a_table_of_a_newer_version_is_an_error(
        self, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            newer(patch)
            deliver(server, records(1))

        error = failure(server)

        assert type(error) is DestinationRefused
        assert "has version 2, made by a newer Sightline; this one knows 1" in str(error)

    def test_without_create_an_older_table_is_left_as_it_is(
        self, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        deliver(server, records(1))
        newer(monkeypatch)

        error = failure(server, create=False)

        assert type(error) is DestinationRefused
        assert "has version 1, version 2 is needed" in str(error)

    def test_without_create_a_missing_table_is_an_error(self, server: PostgresServer) -> None:
        error = failure(server, create=False)

        assert type(error) is DestinationRefused
        assert "table sightline does not exist" in str(error)

    def test_another_table_of_that_name_is_an_error_that_names_the_columns(self, server: PostgresServer) -> None:
        server.psql("CREATE TABLE sightline (stream text, epoch integer, seq bigint, kind text, time timestamptz)")
        server.psql("ALTER TABLE sightline OWNER TO sightline")

        error = failure(server)

        assert type(error) is DestinationRefused
        assert "sender is missing; epoch is integer, not bigint; record is missing; body is missing" in str(error)

    def test_a_table_without_a_key_is_an_error(self, server: PostgresServer) -> None:
        deliver(server, records(1))
        server.psql("ALTER TABLE sightline DROP CONSTRAINT sightline_pkey")

        assert "no primary key or unique index on (stream, epoch, seq, sender)" in str(failure(server))

    def test_users_may_add_columns_and_partitions(self, server: PostgresServer) -> None:
        columns = ", ".join(f"{name} {kind}" for name, kind in postgres_table.COLUMNS.items())
        server.psql(
            f"CREATE TABLE sightline ({columns}, site text DEFAULT 'north',"
            " PRIMARY KEY (stream, epoch, seq, sender, time)) PARTITION BY RANGE (time);"
            "CREATE TABLE y2023 PARTITION OF sightline FOR VALUES FROM ('2023-01-01') TO ('2024-01-01');"
            "GRANT INSERT, SELECT ON sightline TO sightline"
        )

        deliver(server, records(3))
        deliver(server, records(5))

        assert stored(server) == list(range(5))
        assert server.psql("SELECT DISTINCT site FROM sightline") == ["north"]

    def test_a_role_that_may_only_insert_and_select_is_enough_for_a_table_that_is_there(
        self, server: PostgresServer
    ) -> None:
        deliver(server, records(1))
        server.psql("DROP ROLE IF EXISTS writer; CREATE ROLE writer LOGIN PASSWORD 'w'")
        server.psql("GRANT USAGE ON SCHEMA public TO writer; GRANT INSERT, SELECT ON sightline TO writer")

        deliver(server, records(3), url=server.url(user="writer", password="w"))

        server.psql("DROP OWNED BY writer; DROP ROLE writer")
        assert stored(server) == [0, 1, 2]

    def test_a_table_that_is_dropped_while_we_run_is_made_again(self, server: PostgresServer) -> None:
        with closing(transport(server)) as database:
            database.connect()
            server.psql("DROP TABLE sightline")
            with pytest.raises(DestinationLost):
                database.deliver(records(2))
            database.close()
            database.connect()
            database.deliver(records(2))

        assert stored(server) == [0, 1]


def newer(patch: pytest.MonkeyPatch) -> None:
    """As if a newer release, which adds a column, were installed."""
    added = "ALTER TABLE {table} ADD COLUMN note text NOT NULL DEFAULT 'new'"
    patch.setattr(postgres_table, "LAYOUTS", (*postgres_table.LAYOUTS, added))


class TestNotLetIn:
    def test_a_wrong_password_is_refused_and_not_shown(self, server: PostgresServer) -> None:
        error = failure(server, url=server.url(password="wr0ng"))

        assert type(error) is DestinationRefused
        assert "password authentication failed" in str(error)
        assert "wr0ng" not in str(error)

    def test_a_wrong_password_is_refused_in_any_language(
        self, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(postgres_table, "_REFUSING_TEXT", re.compile("never"))

        assert type(failure(server, url=server.url(password="wr0ng"))) is DestinationRefused

    def test_no_password_is_refused(self, server: PostgresServer) -> None:
        error = failure(server, url=f"postgresql://sightline@127.0.0.1:{server.port}/site")

        assert type(error) is DestinationRefused

    def test_a_database_that_is_not_there_is_refused(self, server: PostgresServer) -> None:
        error = failure(server, url=server.url(database="nowhere"))

        assert type(error) is DestinationRefused
        assert 'database "nowhere" does not exist' in str(error)

    def test_no_permission_to_write_is_refused(self, server: PostgresServer) -> None:
        deliver(server, records(1))
        server.psql("DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN PASSWORD 'r'")
        server.psql("GRANT USAGE ON SCHEMA public TO reader; GRANT SELECT ON sightline TO reader")

        error = failure(server, url=server.url(user="reader", password="r"))

        server.psql("DROP OWNED BY reader; DROP ROLE reader")
        assert type(error) is DestinationRefused
        assert "permission denied for table sightline" in str(error)

    def test_a_schema_that_is_not_there_is_refused(self, server: PostgresServer) -> None:
        error = failure(server, table="nowhere.events")

        assert type(error) is DestinationRefused
        assert 'schema "nowhere" does not exist' in str(error)

    def test_a_full_server_is_lost_not_refused(self, server: PostgresServer) -> None:
        server.psql("ALTER ROLE sightline CONNECTION LIMIT 0")
        try:
            error = failure(server)
        finally:
            server.psql("ALTER ROLE sightline CONNECTION LIMIT -1")

        assert type(error) is DestinationLost
        assert "too many connections" in str(error)


class TestTls:
    def test_records_arrive_over_tls_with_a_client_certificate(self, tls_server: TlsServer) -> None:
        server, files = tls_server
        own = f"sslcert={files.client}&sslkey={files.client_key}"
        url = (
            f"postgresql://client@127.0.0.1:{server.port}/site?sslmode=verify-full&sslrootcert={files.authority}&{own}"
        )

        deliver(server, records(3), url=url)

        assert stored(server) == [0, 1, 2]

    def test_without_the_client_certificate_it_is_refused(self, tls_server: TlsServer) -> None:
        server, files = tls_server
        url = f"postgresql://client@127.0.0.1:{server.port}/site?sslmode=verify-full&sslrootcert={files.authority}"

        error = failure(server, url=url)

        assert type(error) is DestinationRefused
        assert "certificate" in str(error)

    def test_a_server_that_the_authority_did_not_sign_is_refused(self, tls_server: TlsServer) -> None:
        server, files = tls_server
        url = f"postgresql://client@127.0.0.1:{server.port}/site?sslmode=verify-full&sslrootcert={files.client}"

        error = failure(server, url=url)

        assert type(error) is DestinationRefused
        assert "certificate verify failed" in str(error)


class TestOutages:
    def test_nothing_listening_is_lost(self, server: PostgresServer) -> None:
        url = server.url().replace(str(server.port), str(free_port()))

        error = failure(server, url=url)

        assert type(error) is DestinationLost
        assert "refused" in str(error)
        assert PASSWORD not in str(error)

    def test_a_name_that_does_not_resolve_is_lost(self, server: PostgresServer) -> None:
        assert type(failure(server, url="postgresql://u@nowhere.invalid/x")) is DestinationLost

    def test_after_crashes_amid_deliveries_all_is_there_exactly_once(self, server: PostgresServer) -> None:
        batch = records(6000)
        done, failures, connected = 0, 0, False
        database = transport(server)
        deliveries = threading.Event()

        def crash() -> None:
            for _ in range(3):
                deliveries.clear()
                assert deliveries.wait(300)
                server.kill()
                server.start()

        crashing = threading.Thread(target=crash)
        crashing.start()
        while done < len(batch) or crashing.is_alive():
            part = batch[done : done + 20] or batch[-20:]
            try:
                if not connected:
                    database.connect()
                    connected = True
                database.deliver(part)
                done = min(done + len(part), len(batch))
                deliveries.set()
            except DestinationLost as error:
                failures += 1
                done = min(done + error.delivered, len(batch))
                database.close()
                connected = False
        crashing.join()
        database.close()

        assert failures >= 3
        assert stored(server) == list(range(6000))

    def test_a_server_that_stops_amid_deliveries_is_lost_and_all_is_there_once_when_it_goes_on(
        self, server: PostgresServer
    ) -> None:
        with closing(transport(server, timeout="2s")) as database:
            database.connect()
            database.deliver(records(10))
            server.hang()
            with pytest.raises(DestinationLost) as caught:
                database.deliver(records(2000))
            database.close()
            server.go_on()
            database.connect()
            database.deliver(records(2000)[caught.value.delivered :])

        assert "no answer within 2 s" in str(caught.value)
        assert stored(server) == list(range(2000))

    def test_a_stopped_server_is_lost_when_its_buffers_are_full(self, server: PostgresServer) -> None:
        large = [record(seq, body=json.dumps("x" * 1_000_000).encode()) for seq in range(30)]

        with closing(transport(server, timeout="1s")) as database:
            database.connect()
            server.hang()
            with pytest.raises(DestinationLost) as caught:
                database.deliver(large)

        assert "no answer within 1 s" in str(caught.value)

    def test_connecting_to_a_stopped_server_is_lost(self, server: PostgresServer) -> None:
        server.hang()

        error = failure(server, timeout="1s")

        assert type(error) is DestinationLost
        assert "no answer within 2 s" in str(error)  # the least that libpq allows for connecting

    def test_a_table_that_another_session_locks_is_lost_and_the_server_forgets_us(self, server: PostgresServer) -> None:
        deliver(server, records(1))
        with closing(transport(server, timeout="1s")) as database, closing(transport(server)) as locking:
            database.connect()
            locking.connect()
            connection = locking._connection  # type: ignore[attr-defined]
            connection.execute("BEGIN; LOCK TABLE sightline")
            with pytest.raises(DestinationLost) as caught:
                database.deliver(records(2))
            connection.execute("ROLLBACK")
            database.close()
            database.connect()
            database.deliver(records(2))

        assert "statement timeout" in str(caught.value)
        assert stored(server) == [0, 1]

    def test_a_full_disk_is_lost_and_all_arrives_once_there_is_space(self, server: PostgresServer, tmpfs: Path) -> None:
        shutil.chown(tmpfs, "postgres", "postgres")
        ballast = tmpfs / "ballast"
        server.psql(f"CREATE TABLESPACE small LOCATION '{tmpfs}'")
        try:
            server.psql(
                "ALTER ROLE sightline SET default_tablespace = small; GRANT CREATE ON TABLESPACE small TO sightline"
            )
            with closing(transport(server)) as database:
                database.connect()
                ballast.write_bytes(b"x" * (800 << 10))
                with pytest.raises(DestinationLost) as caught:
                    database.deliver(records(5000, body=b'"' + b"x" * 100 + b'"'))
                assert "No space left on device" in str(caught.value)
                ballast.unlink()
                database.close()
                database.connect()
                database.deliver(records(1000)[caught.value.delivered :])

            assert stored(server) == list(range(1000))
        finally:
            server.psql("DROP TABLE IF EXISTS sightline; ALTER ROLE sightline RESET ALL")
            server.psql("REVOKE ALL ON TABLESPACE small FROM sightline")
            server.psql("DROP TABLESPACE small")

    def test_a_session_that_an_administrator_ends_is_lost(self, server: PostgresServer) -> None:
        with closing(transport(server)) as database:
            database.connect()
            server.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sightline'")
            with pytest.raises(DestinationLost) as caught:
                database.deliver(records(1))

        assert not isinstance(caught.value, DestinationRefused)
