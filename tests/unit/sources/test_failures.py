from __future__ import annotations

import errno

import av.error
import pytest

from sightline.errors import StreamError, StreamLost, StreamUnreadable
from sightline_plugins.decode.failures import failure

URI = "rtsp://admin:s3cret@10.0.0.7/main"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (av.error.HTTPUnauthorizedError, StreamUnreadable),
        (av.error.HTTPNotFoundError, StreamUnreadable),
        (av.error.InvalidDataError, StreamUnreadable),
        (av.error.ConnectionRefusedError, StreamLost),
        (av.error.TimeoutError, StreamLost),
        (av.error.ExitError, StreamLost),
        (av.error.HTTPServerError, StreamLost),
        (av.error.UndefinedError, StreamUnreadable),
    ],
)
def test_an_error_tells_whether_another_attempt_is_worth_it(
    error: type[av.error.FFmpegError], kind: type[StreamError]
) -> None:
    assert isinstance(failure(error(1, "text", URI), stream="yard", uri=URI), kind)


def test_no_message_holds_a_password() -> None:
    error = av.error.UndefinedError(1, f"could not open {URI}", URI)
    assert "s3cret" not in str(failure(error, stream="yard", uri=URI))


def test_a_message_names_the_stream_and_the_address() -> None:
    message = str(failure(av.error.HTTPNotFoundError(1, "text", URI), stream="yard", uri=URI))
    assert "'yard'" in message
    assert "10.0.0.7/main" in message


def test_a_transport_that_is_not_offered_names_the_option() -> None:
    error = av.error.OSError(errno.EPROTONOSUPPORT, "Protocol not supported", URI)
    assert "try transport: tcp" in str(failure(error, stream="yard", uri=URI))
    assert "try transport: udp" in str(failure(error, stream="yard", uri=URI, transport="tcp"))


def test_a_server_that_says_nothing_does_not_answer() -> None:
    error = av.error.InvalidDataError(1, "Invalid data", URI)

    assert "does not answer" in str(failure(error, stream="yard", uri=URI, live=True, took_seconds=5.0))
    assert "cannot be read" in str(failure(error, stream="yard", uri=URI, live=True, took_seconds=0.1))
