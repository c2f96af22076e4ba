"""Logs of commands."""

from __future__ import annotations

import logging

from sightline.cli.logs import RedactingFormatter

SECRET = "hunter2"


def test_a_traceback_holds_no_password() -> None:
    try:
        raise ValueError(f"rtsp://admin:{SECRET}@camera/main?token={SECRET}")
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
        record = logging.LogRecord("x", logging.ERROR, "f", 1, "reading %s", (f"http://u:{SECRET}@h/",), info)

    text = RedactingFormatter().format(record)

    assert "Traceback" in text
    assert "camera/main" in text
    assert SECRET not in text
