"""A repeated message is shown once, and then with a count."""

from __future__ import annotations

from sightline.cli.progress import Folding
from sightline.graph.messages import Message, MessageKind

LOST = Message(MessageKind.STREAM_LOST, "broke off; trying again", stream="gate")
BACK = Message(MessageKind.STREAM_BACK, "is back", stream="gate")


def test_a_new_message_is_said_at_once() -> None:
    assert Folding().take(LOST, now_seconds=0) == [(LOST, 0)]


def test_a_stream_that_comes_and_goes_is_folded() -> None:
    folding = Folding()
    told = []
    for second in range(20):
        told += folding.take(BACK if second % 2 else LOST, now_seconds=second)
        told += folding.due(now_seconds=second)

    assert told == [(LOST, 0), (BACK, 0), (BACK, 4), (LOST, 5)]


def test_the_last_line_is_how_things_are() -> None:
    folding = Folding()
    for second, message in enumerate((LOST, BACK, LOST)):
        folding.take(message, now_seconds=second)

    assert folding.due(now_seconds=11) == [(LOST, 1)]


def test_a_repeat_after_a_while_is_said() -> None:
    folding = Folding()
    folding.take(LOST, now_seconds=0)

    assert folding.due(now_seconds=60) == []
    assert folding.take(LOST, now_seconds=60) == [(LOST, 0)]


def test_repeats_are_said_before_what_is_new() -> None:
    folding = Folding()
    folding.take(LOST, now_seconds=0)
    folding.take(LOST, now_seconds=1)

    assert folding.take(BACK, now_seconds=2) == [(LOST, 1), (BACK, 0)]


def test_nothing_is_remembered_for_ever() -> None:
    folding = Folding()
    for second in range(100):
        folding.take(Message(MessageKind.WARNING, str(second)), now_seconds=second)
        folding.due(now_seconds=second)

    assert len(folding._said) <= 11
