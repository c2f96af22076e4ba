"""Several stages send into one link."""

from __future__ import annotations

import pytest

from sightline.errors import EndOfLink
from sightline.media import Stream
from sightline.runtime.scheduling.link import Item, Link, StreamEnd, fan_in, open_link

FIRST, SECOND = StreamEnd(Stream("gate")), StreamEnd(Stream("yard"))


def test_what_any_outlet_sends_arrives_and_the_last_that_ends_ends_the_link() -> None:
    link: Link[Item] = open_link(4)
    one, other = fan_in(link.sender, count=2)
    assert one is not None
    assert other is not None

    one.send(FIRST)
    one.end()
    one.end()
    other.send(SECOND)
    was_ended = link.receiver.is_over
    other.end()

    assert [link.receiver.receive(), link.receiver.receive(), was_ended] == [FIRST, SECOND, False]
    with pytest.raises(EndOfLink):
        link.receiver.receive()


def test_one_outlet_is_the_link_itself() -> None:
    link: Link[Item] = open_link(4)

    assert fan_in(link.sender, count=1) == [link.sender]


def test_where_nobody_listens_there_are_no_outlets() -> None:
    assert fan_in(None, count=2) == [None, None]
