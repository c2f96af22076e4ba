"""Expressions over events: what they mean, and the error of those that cannot be read."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline_plugins.rules.expression import (
    DEEPEST,
    LONGEST,
    All,
    Any,
    CountOf,
    EventIs,
    Expression,
    Not,
    Sequence,
    names,
    parse,
)

A, B, C = EventIs("zones.a.enter"), EventIs("lines.b"), EventIs("x-1.c.d")
SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("zones.a.enter", A),
        ("zones.a.enter and lines.b or x-1.c.d", Any((All((A, B)), C))),
        ("zones.a.enter and (lines.b or x-1.c.d)", All((A, Any((B, C))))),
        ("not zones.a.enter and lines.b", All((Not(A), B))),
        ("not not lines.b", B),
        ("lines.b within 5s", EventIs("lines.b", 5 * SECOND)),
        ("zones.a.enter then lines.b", Sequence((("zones.a.enter",), ("lines.b",)))),
        ("zones.a.enter then lines.b within 1.5m", Sequence((("zones.a.enter",), ("lines.b",)), 90 * SECOND)),
        ("(lines.b or x-1.c.d) then zones.a.enter", Sequence((("lines.b", "x-1.c.d"), ("zones.a.enter",)))),
        ("count(lines.b)>=3 within 10s", CountOf("lines.b", ">=", 3, 10 * SECOND)),
        ("count( lines.b ) == 0", CountOf("lines.b", "==", 0)),
        ('"zones.my (small) zone.enter" and lines.b', All((EventIs("zones.my (small) zone.enter"), B))),
        ("zones.and.enter", EventIs("zones.and.enter")),
        ("((((lines.b))))", B),
    ],
)
def test_a_text_means_a_tree(text: str, expected: Expression) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at the end: an event, such as zones.gate.enter, is expected here"),
        ("zones.a.enter and", "at the end: an event, such as zones.gate.enter, is expected here"),
        (
            "zones.a.enter lines.b",
            "at character 15, 'lines.b': `and`, `or`, `then`, `within` or the end is expected here",
        ),
        ("zones and lines.b", "at character 1, 'zones': an event is written step.rule or step.rule.detail"),
        ("(zones.a.enter", "at the end: `)` is expected here"),
        ("zones.a.enter)", "at character 14, ')'"),
        ("and lines.b", "at character 1, 'and': an event is expected here"),
        ("count(lines.b)", "at the end: a comparison (>=, >, <=, <, ==) is expected here"),
        ("count(lines.b) >= many", "at character 19, 'many': a number from 0 to 10000"),
        ("count(lines.b) >= 100000", "a number from 0 to 10000"),
        ("lines.b within soon", "at character 16, 'soon'"),
        ("lines.b within 0s", "a duration longer than 0"),
        ("not lines.b then zones.a.enter", None),
        ("(lines.b and x.y) then zones.a.enter", "`then` joins events, or alternatives"),
        ("lines.b = x.y", "at character 9, '=': this belongs to nothing"),
        ("'lines.b", "at character 1"),
        ("__import__('os').system('x')", "at character 1, '__import__'"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_place(text: str, message: str | None) -> None:
    if message is None:
        assert isinstance(parse(text), Not)
        return
    with pytest.raises(ValueError, match=re.escape(message)):
        parse(text)


def test_size_and_depth_have_limits() -> None:
    with pytest.raises(ValueError, match="at most"):
        parse("lines.b and " * LONGEST)
    with pytest.raises(ValueError, match="brackets"):
        parse("(" * (DEEPEST + 1) + "lines.b" + ")" * (DEEPEST + 1))
    assert parse("(" * DEEPEST + "lines.b" + ")" * DEEPEST) == B
    assert isinstance(parse("not " * 201 + "lines.b"), Not)


@given(st.text(alphabet="abz.()<>=\"' \n0159andortcuwihs", max_size=60))
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    try:
        found = parse(text)
    except ValueError as error:
        message = str(error)
    else:
        assert all("." in name for name in names(found))
        return
    assert message.startswith("at ")
