"""Passwords never reach a person or a log."""

from __future__ import annotations

import pytest

from sightline.redaction import redact


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("rtsp://admin:pw@10.0.0.7/main", "rtsp://***@10.0.0.7/main"),
        ("rtsp://admin:p@ss:w0rd@cam/main failed", "rtsp://***@cam/main failed"),
        ("http://cam/x?user=a&password=secret&b=1", "http://cam/x?user=a&password=***&b=1"),
        ("two: rtsp://a:b@c/ and https://d:e@f/", "two: rtsp://***@c/ and https://***@f/"),
        ("nothing@all http://host/a@b", "nothing@all http://host/a@b"),
    ],
)
def test_credentials_become_stars(text: str, clean: str) -> None:
    assert redact(text) == clean
