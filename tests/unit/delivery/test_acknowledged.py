"""Records acknowledged after one that was not are not sent again."""

from __future__ import annotations

from sightline.graph.transport import Record
from sightline_plugins.delivery.acknowledged import Acknowledged

RECORDS = [Record("gate", 1, seq, "events", "to", b"", 0) for seq in range(10)]


def test_all_records_are_missing_at_first() -> None:
    assert Acknowledged().missing(RECORDS) == list(range(10))


def test_the_first_acknowledged_are_counted() -> None:
    assert Acknowledged().count(RECORDS, {4, 7}) == 4
    assert Acknowledged().count(RECORDS, ()) == 10


def test_those_after_one_that_is_missing_are_not_missing_next_time() -> None:
    acknowledged = Acknowledged()
    acknowledged.count(RECORDS, {4, 7})
    assert acknowledged.missing(RECORDS[4:]) == [0, 3]


def test_they_are_remembered_while_one_is_tried_alone() -> None:
    acknowledged = Acknowledged()
    acknowledged.count(RECORDS, {4})
    acknowledged.count(RECORDS[4:5], {0})
    assert acknowledged.missing(RECORDS[5:]) == []


def test_they_are_forgotten_once_they_are_counted() -> None:
    acknowledged = Acknowledged()
    acknowledged.count(RECORDS, {4})
    acknowledged.count(RECORDS[4:], ())
    assert acknowledged.missing(RECORDS) == list(range(10))


def test_records_that_never_come_again_do_not_pile_up() -> None:
    acknowledged = Acknowledged()
    for epoch in range(3000):
        some = [Record("gate", epoch, seq, "events", "to", b"", 0) for seq in range(10)]
        acknowledged.count(some, {0})
    assert len(acknowledged._ahead) <= 10_010
