"""Pages of elements and sources."""

from __future__ import annotations

import pytest

from sightline.cli.elements import option_text
from sightline.config.schema import OptionPage

LONG = OptionPage("regions", "NAME: " + " | ".join(["list of number"] * 9), "", required=False, meaning="Where. " * 40)


def test_meanings_are_readable_in_a_terminal_however_long_a_type_is() -> None:
    _, *meaning = option_text(LONG, width=80).splitlines()

    assert max(map(len, meaning)) <= 80
    assert len(meaning) < 6


@pytest.mark.parametrize(
    ("default", "required", "says"), [("", True, "  required"), ("0.5", False, "  default 0.5"), ("", False, "")]
)
def test_an_option_says_what_it_is_when_not_given(default: str, required: bool, says: str) -> None:
    option = OptionPage("share", "number", default, required=required, meaning="How much.")

    assert option_text(option, width=None) == f"  share  number{says}\n      How much."
