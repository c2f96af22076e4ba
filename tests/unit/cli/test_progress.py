"""Progress and messages on standard error."""

from __future__ import annotations

import io
import sys
from collections import Counter
from dataclasses import replace
from threading import Event

import pytest
from tests.waiting import LIMIT_SECONDS

from sightline.cli import progress as progress_module
from sightline.cli.progress import Progress, clock_text, delivery_text, position_text, state_text
from sightline.graph.messages import Message, MessageKind, StreamState
from sightline.runtime.stats.counters import DeliveryState, DeliveryStats
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


def test_a_stream_that_has_ended_tells_how_many_frames_there_were() -> None:
    ended = replace(status(processed=590, total=600), state=StreamState.ENDED, frames=600, dropped=10)

    assert position_text(ended) == "590 frames"
    assert position_text(replace(ended, dropped=0)) == "590/600 frames (98 %)"


@pytest.mark.parametrize(
    ("processed", "dropped", "text"), [(590, 0, "finishing"), (590, 10, "ended"), (600, 0, "ended")]
)
def test_a_stream_with_frames_under_way_has_not_ended(processed: int, dropped: int, text: str) -> None:
    ended = replace(status(), state=StreamState.ENDED, frames=600, processed=processed, dropped=dropped)
    assert state_text(ended) == text


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


def delivery(*, refused: int = 0) -> DeliveryStats:
    return DeliveryStats(
        "mqtt-1", "mqtt://broker", state=DeliveryState.CONNECTED, put=415, delivered=412, refused=refused
    )


def test_a_destination_is_told_with_its_state_and_what_waits() -> None:
    assert delivery_text(delivery()) == "connected, 412 records delivered, 3 waiting"


def test_lost_records_are_told_where_there_are_some() -> None:
    stats = delivery(refused=1)
    stats.state, stats.dropped = DeliveryState.LOST, Counter(full=1, age=1)

    assert delivery_text(stats) == "lost, 412 records delivered, 0 waiting, 1 refused, 2 dropped"


def test_each_stream_and_each_destination_is_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_module, "_LINES_EVERY_SECONDS", 0.01)
    shown = Event()

    def deliveries() -> tuple[DeliveryStats, ...]:
        shown.set()
        return (delivery(),)

    with Progress(lambda: (status(),), deliveries=deliveries):
        assert shown.wait(LIMIT_SECONDS)

    assert capsys.readouterr().err.splitlines()[:2] == [
        "gate: live, 412/480 frames (86 %), 24.0 frames/s, 9 objects",
        "mqtt-1: connected, 412 records delivered, 3 waiting",
    ]


class Terminal(io.StringIO):
    """What a terminal is to programs."""

    def isatty(self) -> bool:
        return True


def test_destinations_stand_below_the_table_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    stats = delivery()
    stats.destination = "mqtt\x1b[31m"

    with Progress(lambda: (status(),), deliveries=lambda: (stats,)):
        pass

    text = terminal.getvalue()
    assert text.index("412/480 frames") < text.index("connected, 412 records delivered, 3 waiting")
    assert "mqtt\x1b[31m" not in text


def test_quiet_shows_no_destinations(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(lambda: (), deliveries=lambda: (delivery(),), quiet=True):
        pass

    assert capsys.readouterr().err == ""
