"""The documentation as assistants read it."""

from __future__ import annotations

import pytest
from tests.conftest import REPOSITORY

from sightline.errors import ConfigurationError
from sightline_plugins.commands.mcp import documentation


def test_every_page_for_users_is_there() -> None:
    found = documentation.pages()

    assert found["guide/rules"] == REPOSITORY / "docs" / "guide" / "rules.md"
    assert {"troubleshooting", "elements/detect", "commands/run", "extend/index", "sources/media"} <= found.keys()
    assert not any(name.startswith(("decisions/", "benchmarks/")) for name in found)
    assert documentation.titles()["guide/replay"] == "Replay a run, and look into a frame"


def test_a_page_is_its_markdown_and_a_wrong_name_says_which_is_near() -> None:
    assert documentation.page("guide/rules.md").startswith("# Rules")
    with pytest.raises(ConfigurationError, match="did you mean 'guide/rules'"):
        documentation.page("guide/rule")
    with pytest.raises(ConfigurationError, match="there is no page"):
        documentation.page("../../etc/passwd")


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("how long do people wait in a queue", "elements/queue"),
        ("hide faces and plates", "guide/drawing"),
        ("Home Assistant MQTT discovery", "guide/delivery"),
        ("loitering", "elements/loitering"),
        ("fisheye camera", "elements/dewarp"),
        ("keep frames for labelling", "guide/harvest"),
        ("record clips around events", "elements/record"),
    ],
)
def test_a_search_finds_the_page(words: str, page: str) -> None:
    assert page in [one["page"] for one in documentation.search(words)[:6]]


def test_a_search_for_nothing_finds_nothing() -> None:
    assert documentation.search("") == documentation.search("xyzzy qwfpg") == []
