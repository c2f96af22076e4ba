"""Who is answered."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from sightline.errors import ConfigurationError
from sightline.server.http import Access, Refused, Request, check_token

TOKEN = "0123456789abcdef"


def request(path: str = "/", *, host: str = "localhost:8080", **headers: str) -> Request:
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}", *(f"{name}: {value}" for name, value in headers.items())]
    return Request.parse("\r\n".join([*lines, "", ""]).encode())


def status(access: Access, asked: Request) -> HTTPStatus:
    try:
        access.check(asked)
    except Refused as refusal:
        return refusal.response.status
    return HTTPStatus.OK


@pytest.fixture
def local() -> Access:
    return Access(token=None, port=8080)


@pytest.fixture
def guarded() -> Access:
    return Access(token=TOKEN, port=8080)


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1:8080", "[::1]:8080", "localhost"])
def test_without_a_token_loopback_names_are_answered(local: Access, host: str) -> None:
    assert status(local, request(host=host)) is HTTPStatus.OK


@pytest.mark.parametrize(
    "host", ["evil.example:8080", "127.0.0.1.evil.example", "", "[::1", "10.0.0.7:8080", "user@evil"]
)
def test_without_a_token_no_other_name_is(local: Access, host: str) -> None:
    assert status(local, request(host=host)) is HTTPStatus.FORBIDDEN


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:9999", "https://localhost"])
def test_pages_of_other_origins_are_refused(local: Access, guarded: Access, origin: str) -> None:
    assert status(local, request(Origin=origin)) is HTTPStatus.FORBIDDEN
    assert status(guarded, request(Origin=origin, Authorization=f"Bearer {TOKEN}")) is HTTPStatus.FORBIDDEN


def test_the_own_origin_is_answered(local: Access) -> None:
    assert status(local, request(Origin="http://localhost:8080")) is HTTPStatus.OK


def test_with_a_token_a_request_needs_it(guarded: Access) -> None:
    assert status(guarded, request()) is HTTPStatus.UNAUTHORIZED


@pytest.mark.parametrize("shown", [f"Bearer {TOKEN}", f"bearer  {TOKEN}"])
def test_the_token_is_taken_from_the_header(guarded: Access, shown: str) -> None:
    assert status(guarded, request(Authorization=shown)) is HTTPStatus.OK


@pytest.mark.parametrize(
    "shown", ["Bearer", "Bearer ", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer é"]
)
def test_nothing_else_is_taken_for_it(guarded: Access, shown: str) -> None:
    assert status(guarded, request(Authorization=shown)) is HTTPStatus.UNAUTHORIZED


def test_the_token_in_the_address_becomes_a_cookie_that_does_not_hold_it(guarded: Access) -> None:
    asked = request(f"/?token={TOKEN}")

    welcome = guarded.welcome(asked)

    assert status(guarded, asked) is HTTPStatus.OK
    assert welcome is not None
    assert welcome.headers["Location"] == "/"
    cookie = welcome.headers["Set-Cookie"]
    assert TOKEN not in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert status(guarded, request(Cookie=f"other=1; {cookie.partition(';')[0]}")) is HTTPStatus.OK


def test_a_wrong_cookie_is_refused(guarded: Access) -> None:
    assert status(guarded, request(Cookie="sightline-8080=")) is HTTPStatus.UNAUTHORIZED
    assert status(guarded, request(Cookie=f"sightline-8080={TOKEN}")) is HTTPStatus.UNAUTHORIZED


def test_beyond_loopback_a_token_is_a_must() -> None:
    with pytest.raises(ConfigurationError, match="SIGHTLINE_TOKEN"):
        check_token(None, is_loopback=False, address="0.0.0.0:8080")


@pytest.mark.parametrize("token", ["", "short", "fifteen-letters", "sixteen letters!", "0123456789abcdeé"])
def test_a_weak_or_unusable_token_is_refused(token: str) -> None:
    with pytest.raises(ConfigurationError, match="16 characters"):
        check_token(token, is_loopback=True, address="localhost:8080")


def test_a_good_token_is_accepted_anywhere() -> None:
    check_token(TOKEN, is_loopback=False, address=":8080")
