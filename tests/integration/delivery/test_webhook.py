from __future__ import annotations

import gc
import inspect
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from sightline.devices import Device
from sightline.errors import DeliveryError, DestinationLost, DestinationRefused, RecordRefused
from sightline.graph import Site
from sightline.graph.transport import Record, Transport
from sightline.testing.transport_conformance import TransportConformance
from sightline_plugins.delivery.webhook import Webhook
from tests.integration.delivery.certificates import Certificates, make_certificates
from tests.integration.delivery.web_server import Exchange, Request, web_server
from tests.ports import free_port
from tests.waiting import wait_until

SITE = Site(Device(), element_id="hook", pipeline="yard")


def record(seq: int, *, to: str = "/hooks", stream: str = "gate", body: bytes | None = None, **more: Any) -> Record:
    content = json.dumps({"stream": stream, "seq": seq}).encode() if body is None else body
    return Record(stream, 3, seq, "events", to, content, 1_700_000_000_000_000_000 + seq, **more)


def records(count: int, **more: Any) -> list[Record]:
    return [record(seq, **more) for seq in range(count)]


def transport(url: str, *, timeout: str = "20s", **options: Any) -> Transport:
    return Webhook(url=url, timeout=timeout, **options).transport(SITE)


def accept(exchange: Exchange, request: Request) -> None:
    exchange.answer(204)


def answering(status: int, text: str = "", **headers: str) -> Callable[[Exchange, Request], None]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda exchange, request: exchange.answer(status, text, named)


def seqs(request: Request) -> list[int]:
    return [item["seq"] for item in json.loads(request.body)]


def refusing(*poison: int, status: int = 400, most: int = 10_000) -> Callable[[Exchange, Request], None]:
    """A service that refuses some records, and more than `most` at a time."""

    def script(exchange: Exchange, request: Request) -> None:
        found = seqs(request)
        if len(found) > most:
            exchange.answer(413, "too large")
        elif set(found) & set(poison):
            exchange.answer(status, "bad record")
        else:
            exchange.answer(200, "ok")

    return script


def accepted(requests: list[Request], *, poison: tuple[int, ...] = (), most: int = 10_000) -> list[int]:
    return [seq for r in requests if not set(seqs(r)) & set(poison) and len(seqs(r)) <= most for seq in seqs(r)]


def delivery_error(url: str, batch: list[Record] | None = None, **options: Any) -> DeliveryError:
    with closing(transport(url, **options)) as hook:
        try:
            hook.connect()
            hook.deliver(batch or records(1))
        except DeliveryError as error:
            return error
    pytest.fail("it was delivered")


class TestContract(TransportConformance):
    @pytest.fixture
    def element(self) -> Iterator[Webhook]:
        with ExitStack() as self._serving:
            self._web = self._serving.enter_context(web_server(accept))
            yield Webhook(url=self._web.url)

    def received(self) -> list[bytes]:
        found = [item for request in self._web.requests for item in json.loads(request.body)]
        return [json.dumps(item, separators=(",", ":")).encode() for item in found]

    def stop(self) -> None:
        self._serving.close()


class TestBodies:
    def test_a_batch_is_a_json_array_of_the_records_in_order(self) -> None:
        with web_server(accept) as web, closing(transport(web.url, batch=100)) as hook:
            hook.connect()
            hook.deliver(records(250))

        assert [len(seqs(request)) for request in web.requests] == [100, 100, 50]
        assert [seq for request in web.requests for seq in seqs(request)] == list(range(250))
        assert web.requests[0].headers["Content-Type"] == "application/json"

    def test_a_batch_of_one_is_the_record_itself(self) -> None:
        with web_server(accept) as web, closing(transport(web.url, batch=1)) as hook:
            hook.deliver(records(2))

        assert [request.body for request in web.requests] == [item.body for item in records(2)]

    def test_a_batch_as_lines_has_a_record_on_each_line(self) -> None:
        batch = [record(0), record(1, body=b'{"seq":\n 1}')]

        with web_server(accept) as web, closing(transport(web.url, body="lines")) as hook:
            hook.deliver(batch)

        assert [json.loads(line)["seq"] for line in web.requests[0].body.splitlines()] == [0, 1]
        assert web.requests[0].headers["Content-Type"] == "application/x-ndjson"

    def test_records_that_are_not_json_travel_one_by_one_with_their_type(self) -> None:
        batch = records(3, body=b"\x00\xff", content_type="application/x-protobuf")

        with web_server(accept) as web, closing(transport(web.url)) as hook:
            hook.deliver(batch)

        assert [(r.body, r.headers["Content-Type"]) for r in web.requests] == [
            (b"\x00\xff", "application/x-protobuf")
        ] * 3

    def test_cloud_events_are_sent_as_a_batch_of_cloud_events(self) -> None:
        with web_server(accept) as web, closing(transport(web.url)) as hook:
            hook.deliver(records(2, content_type="application/cloudevents+json; charset=utf-8"))

        assert web.requests[0].headers["Content-Type"] == "application/cloudevents-batch+json"

    def test_records_for_one_path_share_a_request_and_keep_their_order(self) -> None:
        batch = [record(seq // 2, to=f"/{'ab'[seq % 2]}", stream="ab"[seq % 2]) for seq in range(40)]

        with web_server(accept) as web, closing(transport(f"{web.url}/{{stream}}")) as hook:
            hook.deliver(batch)

        assert [(request.path, seqs(request)) for request in web.requests] == [
            ("/a", list(range(20))),
            ("/b", list(range(20))),
        ]

    def test_one_connection_carries_all_requests(self) -> None:
        with web_server(accept) as web, closing(transport(web.url, batch=1)) as hook:
            hook.connect()
            for item in records(5):
                hook.deliver([item])

        assert len(web.connections) == 1


class TestHeaders:
    def test_the_first_and_the_last_record_and_the_sender_are_named(self) -> None:
        with web_server(accept) as web, closing(transport(web.url)) as hook:
            hook.deliver(records(3, stream="Gate 🚪"))

        headers = web.requests[0].headers
        assert headers["Sightline-First"] == "Gate%20%F0%9F%9A%AA/3/0"
        assert headers["Sightline-Last"] == "Gate%20%F0%9F%9A%AA/3/2"
        assert headers["Sightline-Sender"] == "yard/hook"

    def test_the_idempotency_key_is_the_same_for_the_same_records_only(self) -> None:
        with web_server(accept) as web, closing(transport(web.url)) as hook:
            for batch in (records(2), records(2), records(3)):
                hook.deliver(batch)

        first, again, other = (request.headers["Idempotency-Key"] for request in web.requests)
        assert first == again != other

    def test_own_headers_and_the_query_are_sent_and_user_and_password_become_basic_authentication(self) -> None:
        with web_server(accept) as web:
            url = web.url.replace("//", "//cam:p%40ss@") + "/hooks?key=1%2F2&x"
            with closing(transport(url, headers={"X-Site": "yard", "user-agent": "own"})) as hook:
                hook.deliver(records(1))

        request = web.requests[0]
        assert request.path == "/hooks?key=1%2F2&x"
        assert (request.headers["X-Site"], request.headers.get_all("User-Agent")) == ("yard", ["own"])
        assert request.headers["Authorization"] == "Basic Y2FtOnBAc3M="

    def test_the_receiver_in_the_docstring_accepts_the_signature_and_no_other_body(self) -> None:
        receiver = example()
        with web_server(accept) as web, closing(transport(web.url, secret="s3cr3t")) as hook:
            hook.deliver(records(3))

        header, body = web.requests[0].headers["Sightline-Signature"], web.requests[0].body
        assert receiver(header, body, "s3cr3t")
        assert not receiver(header, body + b" ", "s3cr3t")
        assert not receiver(header, body, "other")
        assert not receiver(re.sub(r"t=\d+", "t=1", header), body, "s3cr3t")

    def test_without_a_secret_nothing_is_signed(self) -> None:
        with web_server(accept) as web, closing(transport(web.url)) as hook:
            hook.deliver(records(1))

        assert "Sightline-Signature" not in web.requests[0].headers


def example() -> Callable[[str, bytes, str], bool]:
    """The receiver in the docstring, run as it stands there."""
    code = re.search(r"```python\n(.*?)```", inspect.cleandoc(Webhook.__doc__ or ""), re.DOTALL)
    assert code is not None
    known: dict[str, Any] = {}
    exec("import hmac, time\n" + code[1], known)
    function: Callable[[str, bytes, str], bool] = known["is_genuine"]
    return function


class TestAnswers:
    @pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
    def test_any_2xx_acknowledges(self, status: int) -> None:
        with web_server(answering(status)) as web, closing(transport(web.url)) as hook:
            hook.deliver(records(2))

        assert len(web.requests) == 1

    @pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
    def test_a_busy_or_broken_service_is_lost_for_now(self, status: int) -> None:
        with web_server(answering(status, "later")) as web:
            error = delivery_error(web.url)

        assert type(error) is DestinationLost
        assert str(error).endswith(f" answers {status}: later")

    @pytest.mark.parametrize(
        ("header", "wanted_seconds"), [("7", 7), ("0", 0), ("-5", None), ("soon", None), ("9" * 5000, None)]
    )
    def test_retry_after_in_seconds_is_passed_on(self, header: str, wanted_seconds: int | None) -> None:
        with web_server(answering(429, Retry_After=header)) as web:
            error = delivery_error(web.url)

        assert isinstance(error, DestinationLost)
        assert error.retry_after_ns == (None if wanted_seconds is None else wanted_seconds * 10**9)

    def test_retry_after_as_a_date_is_passed_on(self) -> None:
        with web_server(answering(503, Retry_After=formatdate(time.time() + 3600, usegmt=True))) as web:
            error = delivery_error(web.url)

        assert isinstance(error, DestinationLost)
        assert 0 < (error.retry_after_ns or 0) <= 3600 * 10**9

    def test_nobody_is_made_to_wait_for_more_than_a_day(self) -> None:
        with web_server(answering(503, Retry_After="9999999999")) as web:
            error = delivery_error(web.url)

        assert isinstance(error, DestinationLost)
        assert error.retry_after_ns == 86_400 * 10**9

    @pytest.mark.parametrize("status", [401, 403, 405, 407, 451])
    def test_a_service_that_does_not_let_us_in_refuses(self, status: int) -> None:
        with web_server(answering(status, "no")) as web:
            error = delivery_error(web.url, records(4))

        assert type(error) is DestinationRefused
        assert len(web.requests) == 1

    def test_redirects_are_not_followed_and_the_message_says_so(self) -> None:
        with web_server(answering(308, Location="https://elsewhere/?token=abc")) as web:
            error = delivery_error(web.url)

        assert type(error) is DestinationRefused
        assert "redirects to https://elsewhere/?token=*** (308); redirects are not followed" in str(error)
        assert len(web.requests) == 1

    @pytest.mark.parametrize("status", [400, 404, 409, 410, 413, 415, 422])
    def test_one_record_can_be_refused(self, status: int) -> None:
        with web_server(answering(status, "what is this")) as web:
            error = delivery_error(web.url)

        assert type(error) is RecordRefused
        assert str(error).endswith(f"answers {status}: what is this")

    def test_answers_are_shown_short_without_secrets_and_without_escape_sequences(self) -> None:
        echo = "token tok3n, k3y-4-signing, password=hunter22, \x1b[31m " + "x" * 500
        with web_server(answering(400, echo)) as web:
            error = delivery_error(
                web.url + "/?k=qu3ry", headers={"Authorization": "Bearer tok3n"}, secret="k3y-4-signing"
            )

        shown = str(error).partition("400: ")[2]
        assert shown.startswith(r"token ***, ***, password=*** \x1b[31m xxx")
        assert len(shown) < 220
        assert "qu3ry" not in str(error)


class TestRefusedRecords:
    def test_a_poison_record_does_not_take_its_neighbours_along(self) -> None:
        with web_server(refusing(37)) as web:
            error = delivery_error(web.url, records(100))

        assert (type(error), error.delivered) == (RecordRefused, 37)
        assert accepted(web.requests, poison=(37,)) == list(range(37))
        assert len(web.requests) < 12

    def test_the_records_after_it_are_delivered_next(self) -> None:
        batch = records(100)
        with web_server(refusing(37)) as web, closing(transport(web.url)) as hook:
            with pytest.raises(RecordRefused):
                hook.deliver(batch)
            hook.deliver(batch[38:])

        assert accepted(web.requests, poison=(37,)) == [seq for seq in range(100) if seq != 37]

    def test_a_batch_that_is_too_large_is_split(self) -> None:
        with web_server(refusing(most=30)) as web, closing(transport(web.url)) as hook:
            hook.deliver(records(100))

        assert accepted(web.requests, most=30) == list(range(100))

    def test_a_refused_record_for_one_path_does_not_stop_the_records_before_it_for_others(self) -> None:
        batch = [record(seq, to=f"/{seq % 3}") for seq in range(30)]
        with web_server(refusing(9, 13, status=422)) as web, closing(transport(web.url)) as hook:
            with pytest.raises(RecordRefused) as first:
                hook.deliver(batch)
            with pytest.raises(RecordRefused) as second:
                hook.deliver(batch[10:])
            hook.deliver(batch[14:])

        assert (first.value.delivered, second.value.delivered) == (9, 3)
        assert sorted(accepted(web.requests, poison=(9, 13))) == [seq for seq in range(30) if seq not in (9, 13)]


def test_a_server_that_refuses_a_large_body_without_reading_it_is_heard() -> None:
    def refuse(listener: socket.socket) -> None:
        taken, _ = listener.accept()
        with taken:
            taken.recv(4096)
            taken.sendall(b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig")
            taken.shutdown(socket.SHUT_WR)
            while taken.recv(1 << 20):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=refuse, args=[listener])
        thread.start()
        error = delivery_error(f"http://127.0.0.1:{listener.getsockname()[1]}", [record(0, body=b"x" * (16 << 20))])
        thread.join()

    assert type(error) is RecordRefused
    assert "answers 413: big" in str(error)


class TestOutages:
    def test_nothing_that_was_acknowledged_before_an_error_is_sent_again(self) -> None:
        batch = [record(seq, to=f"/{seq % 4}") for seq in range(40)]
        answers = iter([200, 200, 500, 200, 200, 200])

        with (
            web_server(lambda exchange, request: exchange.answer(next(answers))) as web,
            closing(transport(web.url)) as hook,
        ):
            with pytest.raises(DestinationLost) as caught:
                hook.deliver(batch)
            hook.close()
            hook.connect()
            hook.deliver(batch[caught.value.delivered :])

        arrived = [seq for index, request in enumerate(web.requests) if index != 2 for seq in seqs(request)]
        assert caught.value.delivered == 2
        assert sorted(arrived) == list(range(40))

    def test_a_server_that_is_not_there_is_lost(self) -> None:
        with closing(transport(f"http://127.0.0.1:{free_port()}/x")) as hook, pytest.raises(DestinationLost) as caught:
            hook.connect()

        assert "/x: Connection refused" in str(caught.value)

    def test_a_name_that_does_not_resolve_is_lost(self) -> None:
        with closing(transport("http://nowhere.invalid/x")) as hook, pytest.raises(DestinationLost) as caught:
            hook.connect()

        assert "nowhere.invalid" in str(caught.value)

    def test_all_arrives_in_order_after_the_server_was_away(self) -> None:
        port, batch = free_port(), records(300)
        with closing(transport(f"http://127.0.0.1:{port}", batch=10)) as hook:
            with web_server(accept, port=port) as before:
                hook.connect()
                hook.deliver(batch[:100])
            with pytest.raises(DestinationLost) as caught:
                hook.deliver(batch[100:])
            hook.close()
            with pytest.raises(DestinationLost):
                hook.connect()
            with web_server(accept, port=port) as after:
                hook.connect()
                hook.deliver(batch[100 + caught.value.delivered :])

        arrived = [seq for web in (before, after) for request in web.requests for seq in seqs(request)]
        assert arrived == list(range(300))

    def test_a_kept_connection_that_the_server_has_closed_is_opened_again(self) -> None:
        def script(exchange: Exchange, request: Request) -> None:
            exchange.answer(200)
            exchange.break_off()  # without saying so in a header

        with web_server(script) as web, closing(transport(web.url, batch=1)) as hook:
            hook.deliver(records(5))

        assert [json.loads(request.body)["seq"] for request in web.requests] == list(range(5))

    def test_a_server_that_says_it_closes_is_asked_over_a_new_connection(self) -> None:
        with (
            web_server(answering(200, "x", Connection="close")) as web,
            closing(transport(web.url, batch=1)) as hook,
        ):
            hook.deliver(records(3))

        assert (len(web.requests), len(web.connections)) == (3, 3)

    def test_a_server_that_hangs_up_without_an_answer_is_lost(self) -> None:
        with web_server(lambda exchange, request: exchange.break_off()) as web:
            error = delivery_error(web.url)

        assert type(error) is DestinationLost
        assert "closed before an answer came" in str(error)


def stall(exchange: Exchange, request: Request) -> None:
    exchange.asked.ending.wait()


def drip_status(exchange: Exchange, request: Request) -> None:
    exchange.raw(b"HTTP/1.1 200 O")
    while not exchange.asked.ending.wait(0.05):
        exchange.raw(b"K")


def drip_headers(exchange: Exchange, request: Request) -> None:
    exchange.raw(b"HTTP/1.1 200 OK\r\n")
    while not exchange.asked.ending.wait(0.05):
        exchange.raw(b"X-More: yes\r\n")


def go_on_and_on(exchange: Exchange, request: Request) -> None:
    while not exchange.asked.ending.wait(0.05):
        exchange.raw(b"HTTP/1.1 100 Continue\r\n\r\n")


class TestServersThatHoldUs:
    @pytest.mark.parametrize("script", [stall, drip_status, drip_headers, go_on_and_on])
    def test_an_answer_that_does_not_come_in_time_is_lost(self, script: Callable[[Exchange, Request], None]) -> None:
        with web_server(script) as web:
            error = delivery_error(web.url, timeout="600ms")

        assert type(error) is DestinationLost
        assert "no answer within 0.6 s" in str(error)

    def test_a_body_that_drips_after_the_answer_still_counts_as_acknowledged(self) -> None:
        def script(exchange: Exchange, request: Request) -> None:
            exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not exchange.asked.ending.wait(0.05):
                exchange.raw(b".")

        with web_server(script) as web, closing(transport(web.url, timeout="600ms")) as hook:
            hook.deliver(records(1))

        assert len(web.requests) == 1

    def test_a_body_without_end_is_not_read_to_its_end(self) -> None:
        def script(exchange: Exchange, request: Request) -> None:
            exchange.raw(b"HTTP/1.1 200 OK\r\n\r\n")
            while not exchange.asked.ending.is_set():
                exchange.raw(b"." * 65536)

        with web_server(script) as web, closing(transport(web.url, batch=1)) as hook:
            hook.deliver(records(2))

        assert len(web.requests) == 2

    def test_a_server_that_takes_the_body_byte_by_byte_is_lost(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener, sipping(listener):
            error = delivery_error(
                f"http://127.0.0.1:{listener.getsockname()[1]}",
                [record(0, body=b"x" * (32 << 20))],
                timeout="800ms",
            )

        assert type(error) is DestinationLost
        assert "no answer within 0.8 s" in str(error)

    def test_a_server_that_accepts_and_does_not_shake_hands_is_lost(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            hook = transport(f"https://127.0.0.1:{listener.getsockname()[1]}", timeout="500ms")
            with closing(hook), pytest.raises(DestinationLost) as caught:
                hook.connect()

        assert "no answer within 0.5 s" in str(caught.value)


class sipping:  # noqa: N801
    """Reads a little now and then from whoever connects, for as long as the context is open."""

    def __init__(self, listener: socket.socket) -> None:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._listener = listener
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._sip, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._ending.set()
        self._thread.join()

    def _sip(self) -> None:
        taken, _ = self._listener.accept()
        with taken:
            while not self._ending.wait(0.02) and taken.recv(1000):
                pass


class TestLies:
    @pytest.mark.parametrize(
        "answer",
        [
            b"SSH-2.0-OpenSSH_9.2\r\n",
            b"HTTP/1.1 banana\r\n\r\n",
            b"HTTP/1.1 200 " + b"x" * 70_000,
            b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n",
            b"HTTP/1.1 103 Early Hints\r\n\r\n",
            b"HTTP/1.1 999 What\r\n\r\n",
            b"\x00" * 100,
        ],
        ids=["ssh", "no number", "long line", "many headers", "1xx", "999", "zeros"],
    )
    def test_what_is_no_answer_is_lost(self, answer: bytes) -> None:
        def script(exchange: Exchange, request: Request) -> None:
            exchange.raw(answer)
            exchange.break_off()

        with web_server(script) as web:
            error = delivery_error(web.url)

        assert type(error) is DestinationLost
        assert len(str(error)) < 400

    def test_a_body_shorter_than_announced_still_acknowledges(self) -> None:
        def script(exchange: Exchange, request: Request) -> None:
            exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort")
            exchange.break_off()

        with web_server(script) as web, closing(transport(web.url, batch=1)) as hook:
            hook.deliver(records(3))

        assert len(web.requests) == 3

    def test_chunks_that_are_none_do_not_hide_the_status(self) -> None:
        def script(exchange: Exchange, request: Request) -> None:
            exchange.raw(b"HTTP/1.1 400 No\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
            exchange.break_off()

        with web_server(script) as web:
            assert type(delivery_error(web.url)) is RecordRefused

    def test_compressed_answers_are_not_unpacked(self) -> None:
        with web_server(answering(400, "not gzip", Content_Encoding="gzip")) as web:
            assert "400: not gzip" in str(delivery_error(web.url))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def server_tls(certificates: Certificates) -> Iterator[ssl.SSLContext]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server, certificates.server_key)
    context.load_verify_locations(certificates.authority)
    yield context
    gc.collect()


class TestTls:
    def test_records_arrive_over_https_with_a_client_certificate(
        self, certificates: Certificates, server_tls: ssl.SSLContext
    ) -> None:
        server_tls.verify_mode = ssl.CERT_REQUIRED
        own: dict[str, Any] = {"cert_file": certificates.client, "key_file": certificates.client_key}

        with (
            web_server(accept, tls=server_tls) as web,
            closing(transport(web.url, ca_file=certificates.authority, **own)) as hook,
        ):
            hook.connect()
            hook.deliver(records(200))

        assert [seq for request in web.requests for seq in seqs(request)] == list(range(200))

    def test_without_the_client_certificate_nothing_is_delivered(
        self, certificates: Certificates, server_tls: ssl.SSLContext
    ) -> None:
        server_tls.verify_mode = ssl.CERT_REQUIRED

        with web_server(accept, tls=server_tls) as web:
            error = delivery_error(web.url, ca_file=certificates.authority)

        assert isinstance(error, DestinationLost)
        assert web.requests == []

    def test_a_server_that_the_authority_did_not_sign_is_refused(self, server_tls: ssl.SSLContext) -> None:
        with web_server(accept, tls=server_tls) as web:
            error = delivery_error(web.url)

        assert type(error) is DestinationRefused
        assert "TLS failed:" in str(error)
        assert "certificate" in str(error)

    def test_a_certificate_for_another_name_is_refused(
        self, certificates: Certificates, server_tls: ssl.SSLContext
    ) -> None:
        with web_server(accept, tls=server_tls) as web:
            error = delivery_error(web.url.replace("127.0.0.1", "localhost"), ca_file=certificates.authority)

        assert type(error) is DestinationRefused
        assert "mismatch" in str(error)
        assert web.requests == []

    def test_a_drip_through_tls_is_lost_too(self, certificates: Certificates, server_tls: ssl.SSLContext) -> None:
        with web_server(drip_headers, tls=server_tls) as web:
            error = delivery_error(web.url, ca_file=certificates.authority, timeout="1s")

        assert type(error) is DestinationLost
        assert "no answer within 1 s" in str(error)

    def test_a_kept_connection_that_the_server_has_closed_is_opened_again(
        self, certificates: Certificates, server_tls: ssl.SSLContext
    ) -> None:
        def script(exchange: Exchange, request: Request) -> None:
            exchange.answer(200)
            exchange.break_off()

        with (
            web_server(script, tls=server_tls) as web,
            closing(transport(web.url, batch=1, ca_file=certificates.authority)) as hook,
        ):
            hook.deliver(records(5))

        assert [json.loads(request.body)["seq"] for request in web.requests] == list(range(5))

    def test_a_server_without_tls_is_lost(self, certificates: Certificates) -> None:
        with web_server(accept) as web:
            error = delivery_error(web.url.replace("http:", "https:"), ca_file=certificates.authority)

        assert type(error) is DestinationLost
        assert "TLS failed" in str(error)


def test_deliveries_from_one_thread_after_another_work(tmp_path: Path) -> None:
    with web_server(accept) as web, closing(transport(web.url)) as hook:
        thread = threading.Thread(target=hook.connect)
        thread.start()
        thread.join()
        hook.deliver(records(3))
        wait_until(lambda: len(web.requests) == 1)

    assert seqs(web.requests[0]) == [0, 1, 2]
