"""The generated reference: every option is on its page or behind a link, and pages never go stale unnoticed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.docs.__main__ import differing, generated, write
from tools.docs.reference import PACKAGE, grouped, reference

from sightline.config.schema import page_of
from sightline.graph import Registry
from tests.conftest import REPOSITORY

ELEMENTS = [name for name in Registry().element_names if Registry().package(name) == PACKAGE]
SHARED = ("elements/model-options.md", "elements/delivery-options.md", "elements/detect.md", "elements/index.md")


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference()


@pytest.mark.parametrize("name", ELEMENTS)
def test_every_option_of_an_element_is_named_on_its_page(pages: dict[str, str], name: str) -> None:
    keys = {option.key for option in page_of(Registry().element(name)).options if "." not in option.key}

    assert [key for key in sorted(keys) if f"`{key}`" not in pages[f"elements/{name}.md"]] == []


@pytest.mark.parametrize("name", ELEMENTS)
def test_every_option_of_an_element_is_explained_once(pages: dict[str, str], name: str) -> None:
    own = pages[f"elements/{name}.md"]
    shared = [pages[page] for page in SHARED if page != f"elements/{name}.md"]
    for option in page_of(Registry().element(name)).options:
        row = f"| `{option.key}` |"
        assert own.count(row) == 1 or (own.count(row) == 0 and any(row in page for page in shared)), option.key


def test_a_default_without_any_value_is_not_shown_as_one(pages: dict[str, str]) -> None:
    assert [name for name, text in pages.items() if ": null" in text] == []


def test_every_element_is_in_one_group_of_the_index(pages: dict[str, str]) -> None:
    names = [name for group in grouped().values() for name in group]

    assert sorted(names) == sorted(ELEMENTS)
    assert [name for name in names if pages["elements/index.md"].count(f"[`{name}`]({name}.md)") != 1] == []


def test_a_page_that_is_missing_changed_or_left_over_is_noticed(tmp_path: Path) -> None:
    pages = {"elements/one.md": "1", "elements/two.md": "2", "sources/three.md": "3"}
    write(pages, tmp_path)
    assert differing(pages, tmp_path) == []

    (tmp_path / "elements/one.md").write_text("other")
    (tmp_path / "sources/three.md").unlink()
    (tmp_path / "elements/left.md").touch()

    assert differing(pages, tmp_path) == ["elements/left.md", "elements/one.md", "sources/three.md"]
    write(pages, tmp_path)
    assert differing(pages, tmp_path) == []


def test_the_pages_in_the_repository_are_up_to_date() -> None:
    assert differing(generated(), REPOSITORY / "docs") == []
