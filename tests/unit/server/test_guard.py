"""Who is answered: the guard before an application that answers everything."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from sightline.server.credentials import Credentials, OneToken, Role, TokenFile
from sightline.server.guard import Guard, Rates, identity_of

TOKEN = "0123456789abcdef"
LOCAL = ("localhost:8080", "127.0.0.1:8080", "[::1]:8080", "localhost")


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: str


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with who asks."""
    identity = identity_of(scope)
    answer = PlainTextResponse("nobody" if identity is None else f"{identity.name} {identity.role}")
    await answer(scope, receive, send)


def guard(credentials: Credentials | None = None, *, is_open_here: bool = False) -> Guard:
    return Guard(echo, credentials=credentials or OneToken(TOKEN), is_open_here=is_open_here, port=8080)


def ask(
    guarded: Guard,
    path: str = "/streams",
    *,
    method: str = "GET",
    host: str = "localhost:8080",
    body: str = "",
    client: str = "10.0.0.7",
    kind: str = "http",
    **headers: str,
) -> Answer:
    """Ask as a client does."""
    plain, _, query = path.partition("?")
    sent: list[Message] = []
    named = {"host": host, **{name.lower(): value for name, value in headers.items()}}
    scope: dict[str, Any] = {
        "type": kind,
        "method": method,
        "path": plain,
        "raw_path": plain.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1", "replace")) for name, value in named.items()],
        "client": (client, 1234),
        "scheme": "http" if kind == "http" else "ws",
        "server": ("127.0.0.1", 8080),
        "root_path": "",
        "extensions": {"websocket.http.response": {}},
    }

    async def receive() -> Message:
        return {"type": f"{kind}.request", "body": body.encode("latin-1"), "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(guarded(scope, receive, send))
    own = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], own, b"".join(one.get("body", b"") for one in sent[1:]).decode())


def bearer(token: str = TOKEN) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize("host", LOCAL)
@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/status"])
def test_monitoring_is_open_to_this_machine_where_it_is_so(host: str, path: str) -> None:
    assert ask(guard(is_open_here=True), path, host=host).body == "nobody"
    assert ask(guard(), path, host=host).status == 401


@pytest.mark.parametrize(
    "host", ["evil.example:8080", "127.0.0.1.evil.example", "", "[::1", "10.0.0.7:8080", "user@evil"]
)
def test_no_other_name_is_answered_without_a_token(host: str) -> None:
    assert ask(guard(is_open_here=True), "/healthz", host=host).status == 403
    assert ask(guard(is_open_here=True), "/healthz", host=host, **bearer()).status == 200


@pytest.mark.parametrize("path", ["/", "/streams", "/api/v1/x", "/metrics/", "/healthz/x", "//healthz"])
def test_nothing_else_is_open(path: str) -> None:
    assert ask(guard(is_open_here=True), path).status == 401


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:9999", "https://localhost"])
def test_pages_of_other_origins_are_refused(origin: str) -> None:
    assert ask(guard(is_open_here=True), "/healthz", Origin=origin).status == 403
    assert ask(guard(), Origin=origin, **bearer()).status == 403
    assert ask(guard(), Origin=origin, kind="websocket", **bearer()).status == 403


def test_the_own_origin_is_answered() -> None:
    assert ask(guard(), Origin="http://localhost:8080", **bearer()).status == 200


@pytest.mark.parametrize("shown", [f"Bearer {TOKEN}", f"bearer  {TOKEN}"])
def test_the_token_is_taken_from_the_header(shown: str) -> None:
    assert ask(guard(), Authorization=shown).body == "token admin"


@pytest.mark.parametrize(
    "shown", ["Bearer", "Bearer ", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer é"]
)
def test_nothing_else_is_taken_for_it(shown: str) -> None:
    assert ask(guard(), Authorization=shown).status == 401


def test_the_token_may_be_in_the_address() -> None:
    assert ask(guard(), f"/streams?token={TOKEN}").status == 200
    assert ask(guard(), f"/streams?token={TOKEN}x").status == 401


def test_the_page_asks_for_the_token() -> None:
    answer = ask(guard(), "/")

    assert answer.status == 401
    assert 'action="/login"' in answer.body


@pytest.mark.parametrize("way", ["address", "form"])
def test_a_browser_gets_a_session_that_is_not_the_token(way: str) -> None:
    guarded = guard()
    if way == "address":
        welcome = ask(guarded, f"/?token={TOKEN}")
    else:
        welcome = ask(guarded, "/login", method="POST", body=f"token={TOKEN}")

    assert (welcome.status, welcome.headers["location"]) == (303, "/")
    cookie = welcome.headers["set-cookie"]
    assert TOKEN not in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert ask(guarded, Cookie=f"other=1; {cookie.partition(';')[0]}").body == "token admin"
    assert ask(guarded, Cookie="sightline-8080=").status == 401
    assert ask(guarded, Cookie=f"sightline-8080={TOKEN}").status == 401


@pytest.mark.parametrize("body", ["", "token=", "token=wrong", "\xff", "a=1&b=2&c=3&d=4&e=5", "x" * 5000])
def test_a_form_without_the_token_is_refused(body: str) -> None:
    assert ask(guard(), "/login", method="POST", body=body).status in (400, 401, 413)


def test_a_page_that_is_opened_with_a_token_leads_to_itself_without_it() -> None:
    html = {"Accept": "text/html,*/*"}

    assert ask(guard(), f"/steps/publish-1/?token={TOKEN}", **html).headers["location"] == "/steps/publish-1/"
    assert ask(guard(), f"//evil.example/?token={TOKEN}", **html).headers["location"] == "/evil.example/"
    assert ask(guard(), "/steps/publish-1/?token=wrong", **html).status == 401


def test_login_is_a_post() -> None:
    assert ask(guard(), "/login").status == 405


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "X"])
def test_a_viewer_only_reads(method: str, tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "tokens.json")
    guarded = guard(tokens)
    viewer, operator = tokens.add("anna", Role.VIEWER), tokens.add("ben", Role.OPERATOR)

    assert ask(guarded, **bearer(viewer)).body == "anna viewer"
    assert ask(guarded, method=method, **bearer(viewer)).status == 403
    assert ask(guarded, method=method, **bearer(operator)).status == 200


def test_guessing_is_slow_and_keeps_nobody_out_who_is_known(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "tokens.json")
    guarded = guard(tokens)
    token = tokens.add("anna", Role.VIEWER)
    assert ask(guarded, **bearer(token)).status == 200

    statuses = [ask(guarded, **bearer(f"{token}{number}")).status for number in range(8)]

    assert statuses == [401] * 5 + [429] * 3
    assert ask(guarded, **bearer(token)).status == 200
    assert ask(guarded, client="10.0.0.8", **bearer(f"{token}x")).status == 401
    assert int(ask(guarded, **bearer("guess")).headers["retry-after"]) >= 1


def test_who_asks_without_end_waits() -> None:
    guarded = guard()

    statuses = {ask(guarded, **bearer()).status for _ in range(1000)}

    assert statuses == {200, 429}
    assert ask(guarded, "/healthz", **bearer()).status == 200


def test_answers_of_the_api_that_are_refused_are_problem_details() -> None:
    answer = ask(guard(), "/api/v1/streams")

    assert answer.headers["content-type"] == "application/problem+json"
    assert json.loads(answer.body)["status"] == 401


def test_every_answer_keeps_browsers_from_mischief() -> None:
    for answer in (ask(guard()), ask(guard(), **bearer()), ask(guard(), "/"), ask(guard(), "/api/x")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


def test_a_network_of_ipv6_is_one_client() -> None:
    guarded = guard()
    clients = [f"2001:db8::{number:x}" for number in range(8)]

    assert [ask(guarded, client=client, **bearer("guess")).status for client in clients] == [401] * 5 + [429] * 3


def test_rates_remember_a_bounded_number_of_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rates, "_MOST_ADDRESSES", 10)
    rates = Rates(1, seconds=1e9)
    for number in range(20):
        rates.note(str(number))

    assert rates.wait_seconds("0") == 0
    assert rates.wait_seconds("19") > 0
    assert len(rates._left) == 10


def test_a_request_object_has_no_identity_on_open_routes() -> None:
    assert identity_of(Request({"type": "http"}).scope) is None
