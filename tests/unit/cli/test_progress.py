"""Progress and messages on standard error."""

from __future__ import annotations

import pytest

from sightline.cli.progress import Progress, clock_text, position_text
from sightline.graph.messages import Message, MessageKind, StreamState
from sightline.runtime.stats.snapshot import StreamStatus


def status(*, processed: int = 412, total: int | None = 480, position_ns: int = 67_000_000_000) -> StreamStatus:
    return StreamStatus(
        name="gate",
        state=StreamState.LIVE,
        frames=processed,
        processed=processed,
        total=total,
        fps=24.0,
        objects=9,
        dropped=0,
        position_ns=position_ns,
    )


def test_a_position_is_told_in_frames_where_their_number_is_known() -> None:
    assert position_text(status()) == "412/480 frames (86 %)"


def test_a_position_is_told_in_time_otherwise() -> None:
    assert position_text(status(total=None)) == "1:07"


def test_more_frames_than_promised_are_no_more_than_all() -> None:
    assert position_text(status(processed=500)) == "500/480 frames (100 %)"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59, "0:59"), (3599, "59:59"), (3600, "1:00:00"), (-1, "0:00")]
)
def test_a_clock_has_hours_from_one_hour_on(seconds: int, text: str) -> None:
    assert clock_text(seconds * 1_000_000_000) == text


def told(*messages: Message, quiet: bool = False) -> None:
    with Progress(lambda: (), quiet=quiet) as progress:
        for message in messages:
            progress.tell(message)


LOST = Message(MessageKind.STREAM_LOST, "broke off; trying again", stream="gate")


def test_a_message_names_its_stream(capsys: pytest.CaptureFixture[str]) -> None:
    told(LOST)

    assert capsys.readouterr().err == "gate: broke off; trying again\n"


def test_nothing_goes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    told(LOST, Message(MessageKind.WARNING, "slow", element="detect-1"))

    assert capsys.readouterr().out == ""


def test_repeats_are_counted_instead_of_told(capsys: pytest.CaptureFixture[str]) -> None:
    told(LOST, LOST, LOST, Message(MessageKind.STREAM_BACK, "is back", stream="gate"))

    assert capsys.readouterr().err.splitlines() == [
        "gate: broke off; trying again",
        "gate: broke off; trying again (2 times more)",
        "gate: is back",
    ]


def test_repeats_at_the_end_are_not_lost(capsys: pytest.CaptureFixture[str]) -> None:
    told(LOST, LOST)

    assert capsys.readouterr().err.splitlines()[-1] == "gate: broke off; trying again (once more)"


def test_quiet_tells_only_trouble(capsys: pytest.CaptureFixture[str]) -> None:
    told(Message(MessageKind.STREAM_STARTED, "started", stream="gate"), LOST, quiet=True)

    assert capsys.readouterr().err == "gate: broke off; trying again\n"


def test_a_message_shows_no_password(capsys: pytest.CaptureFixture[str]) -> None:
    told(Message(MessageKind.WARNING, "rtsp://user:secret@10.0.0.7 is slow"))

    assert "secret" not in capsys.readouterr().err
