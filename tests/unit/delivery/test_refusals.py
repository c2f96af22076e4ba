from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.errors import DestinationLost, RecordRefused
from sightline.graph.transport import Record
from sightline_plugins.delivery.refusals import deliver_in_parts, excerpt


def records(count: int) -> list[Record]:
    return [Record("gate", 0, seq, "events", "", b"{}", 0) for seq in range(count)]


@given(count=st.integers(1, 60), size=st.integers(1, 30), poison=st.sets(st.integers(0, 59)), most=st.integers(1, 30))
def test_all_records_before_the_first_refused_one_are_delivered_once(
    count: int, size: int, poison: set[int], most: int
) -> None:
    arrived: list[int] = []

    def send(part: Sequence[Record]) -> None:
        found = [record.seq for record in part]
        if len(found) > most or set(found) & poison:
            raise RecordRefused("no")
        arrived.extend(found)

    bad = min((seq for seq in poison if seq < count), default=None)
    refused = None
    try:
        deliver_in_parts(records(count), send, size=size)
    except RecordRefused as error:
        refused = error.delivered

    assert refused == bad
    assert arrived == list(range(count if bad is None else bad))


def test_a_loss_counts_what_was_delivered_before_it() -> None:
    sent: list[int] = []

    def send(part: Sequence[Record]) -> None:
        if len(sent) == 2:
            raise DestinationLost("gone", retry_after_ns=7)
        sent.append(len(part))

    with pytest.raises(DestinationLost) as caught:
        deliver_in_parts(records(50), send, size=20)

    assert (caught.value.delivered, caught.value.retry_after_ns) == (40, 7)


def test_an_excerpt_is_short_and_hides_secrets_before_it_is_cut() -> None:
    assert excerpt("x" * 198 + "s3cret", secrets=["s3cret"]) == "x" * 198 + "**"


def test_an_excerpt_is_one_line_with_control_characters_as_codes() -> None:
    assert excerpt("a\n  b\x07\u202ec\ud800") == r"a b\x07\u202ec\ud800"
