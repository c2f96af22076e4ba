"""Requests and responses."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sightline.server.http import Access, Refused, Request, Response


def test_a_request_is_read() -> None:
    request = Request.parse(
        b"GET /streams/yard%20north/image.jpg?a=1&a=2 HTTP/1.1\r\nX-Name: value\r\nCookie: a=b; c=d\r\n\r\n"
    )

    assert request.method == "GET"
    assert request.path == "/streams/yard north/image.jpg"
    assert request.query == {"a": ["1", "2"]}
    assert request.headers["x-name"] == "value"
    assert request.cookies == {"a": "b", "c": "d"}


@pytest.mark.parametrize(
    "head",
    [
        b"\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET http://elsewhere/ HTTP/1.1\r\n\r\n",
        b"GET / HTTP/2\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n",
        b"GET /?" + b"a=1&" * 100 + b" HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused(head: bytes) -> None:
    with pytest.raises(Refused):
        Request.parse(head)


def test_a_response_has_the_headers_that_keep_browsers_in_bounds() -> None:
    sent = Response.text("hello").to_bytes().decode()

    assert sent.startswith("HTTP/1.1 200 OK\r\n")
    assert "Content-Security-Policy: default-src 'self'" in sent
    assert "X-Content-Type-Options: nosniff" in sent
    assert sent.endswith("\r\n\r\nhello\n")


def test_the_answer_to_head_has_no_body() -> None:
    assert Response.text("hello").to_bytes(head_only=True).endswith(b"\r\n\r\n")


@given(st.binary(max_size=300))
@example(b"GET //[ HTTP/1.1")
@example(b"GET /?\xff=%zz HTTP/1.1\r\n\x00: \r\n")
@example(b"GET /x HTTP/1.1\r\n folded")
def test_whatever_comes_is_read_or_refused(head: bytes) -> None:
    with suppress(Refused):
        Request.parse(head + b"\r\n\r\n")


@given(st.text(max_size=50), st.text(max_size=50))
def test_whatever_is_shown_as_token_is_checked(shown: str, host: str) -> None:
    headers = {"authorization": f"Bearer {shown}", "cookie": f"sightline-80={shown}", "host": host}
    for access in (Access(token="0123456789abcdef", port=80), Access(token=None, port=80)):
        with suppress(Refused):
            access.check(Request("GET", "/", {"token": [shown]}, headers))
