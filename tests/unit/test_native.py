"""The compiled part is there, or its lack is explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.errors import SightlineError
from sightline_plugins import native


def test_a_missing_library_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(native, "LIBRARY", tmp_path / "libsightline.so")
    native._library.cache_clear()

    with pytest.raises(SightlineError, match=r"compiled part .*libsightline\.so.*install it again"):
        native.function("suppress_boxes")


def test_long_calls_release_the_gil_and_short_ones_keep_it() -> None:
    native._library.cache_clear()
    names = [type(native._library(long=long)).__name__ for long in (False, True)]

    assert names == ["PyDLL", "CDLL"]
