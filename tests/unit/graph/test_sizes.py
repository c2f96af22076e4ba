"""Amounts of bytes as people write them."""

from __future__ import annotations

import pytest

from sightline.graph.fields import format_size, parse_size


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("20GB", 20_000_000_000), ("1.5 MB", 1_500_000), ("500kB", 500_000), ("500KB", 500_000), ("0B", 0), (7, 7)],
)
def test_a_size_is_a_number_with_a_unit_or_bytes(text: object, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["20", "20 gigabytes", "-1GB", "", -1, 1.5, True, None, "1e3MB"])
def test_what_is_no_size_is_refused_with_an_example(text: object) -> None:
    with pytest.raises(ValueError, match='write it like "500MB", "20GB"'):
        parse_size(text)


@pytest.mark.parametrize("size_bytes", [0, 1, 999, 1_000, 64_000_000, 20_000_000_000, 3_000_000_000_000, 1_234_567])
def test_a_size_reads_back_equal(size_bytes: int) -> None:
    assert parse_size(format_size(size_bytes)) == size_bytes
