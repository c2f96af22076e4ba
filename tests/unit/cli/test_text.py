"""Plain text in columns."""

from __future__ import annotations

from sightline.cli.text import columns, paragraphs


def test_columns_are_aligned() -> None:
    assert columns([("a", "b"), ("long", "c")]) == "a     b\nlong  c"


def test_the_last_column_is_wrapped_to_the_width() -> None:
    text = columns([("key", "one two three four five six seven eight")], indent="  ", width=32)

    assert text.splitlines() == ["  key  one two three four five", "       six seven eight"]


def test_without_a_width_nothing_is_wrapped() -> None:
    assert columns([("key", "word " * 100)]).count("\n") == 0


def test_no_rows_are_no_text() -> None:
    assert columns([]) == ""


def test_lists_in_a_docstring_keep_their_lines() -> None:
    assert paragraphs("one\ntwo\n\n- a\n- b", width=None) == "one two\n\n- a\n- b"
    assert paragraphs("one:\n\n```console\n$ a | b\n$ c\n```\n\ntwo", width=None) == "one:\n\n  $ a | b\n  $ c\n\ntwo"
