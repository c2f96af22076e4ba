"""How much of a line a problem is about."""

from __future__ import annotations

import pytest

from sightline.config import Place
from sightline.config.spans import length_at


@pytest.mark.parametrize(
    ("line", "column", "marked"),
    [
        ("name: street", 1, "name"),
        ("name: street  # ours", 7, "street"),
        ("uri: rtsp://10.0.0.7:554/main?a=b#c", 6, "rtsp://10.0.0.7:554/main?a=b#c"),
        ("{from: [0.1, 0.6], to: [1]}", 2, "from"),
        ("{from: [0.1, 0.6], to: [1]}", 14, "0.6"),
        ("path: 'it''s: mine'", 7, "'it''s: mine'"),
        ('path: "a \\" b"', 7, '"a \\" b"'),
        ("label: car and van]", 8, "car and van"),
        ("key:", 1, "key"),
        ("- [", 3, "["),
        ("", 1, ""),
    ],
)
def test_the_length_is_that_of_the_key_or_value(line: str, column: int, marked: str) -> None:
    length = length_at(f"first\n{line}\nlast", Place("a.yaml", 2, column))

    assert length == max(len(marked), 1)


def test_a_place_that_is_not_in_the_text_is_one_character_long() -> None:
    assert length_at("a", Place("a.yaml", 9, 1)) == 1
