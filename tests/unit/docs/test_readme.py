"""The README leads somewhere in the repository, and promises the same on a package index."""

from __future__ import annotations

import re
import tomllib

import pytest
from tools.docs import readme_hook
from tools.docs.readme_hook import ReadmeHook, description

from tests.conftest import REPOSITORY

LINK = re.compile(r"\]\((?P<target>[^)#\s]+)(?:#[^)]*)?\)")
README = REPOSITORY / "README.md"


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"])
def test_every_link_of_a_page_outside_the_site_leads_to_a_file(page: str) -> None:
    text = (REPOSITORY / page).read_text()
    targets = [match["target"] for match in LINK.finditer(text) if "://" not in match["target"]]

    assert [target for target in targets if not (REPOSITORY / target).exists()] == []


def test_the_description_on_an_index_links_to_nothing_that_an_index_does_not_have() -> None:
    text = description(README.read_text())

    assert LINK.search(README.read_text()) is not None
    assert [match["target"] for match in LINK.finditer(text) if "://" not in match["target"]] == []


def test_the_description_on_an_index_keeps_the_text_of_links_and_every_command() -> None:
    text = description(
        "# A\n\n![seen](docs/a.jpg)\n\n[Quick](docs/q.md), [far](https://example.org)\n\n## Next\n\n[B](b.md)\n"
    )
    commands = re.findall(r"^\$ .*$", README.read_text(), re.MULTILINE)

    assert text.startswith("# A\n\nQuick, [far](https://example.org)\n\n")
    assert "[B]" not in text
    assert [command for command in commands if command not in description(README.read_text())] == []


def test_the_metadata_of_the_package_hold_that_description() -> None:
    metadata: dict[str, object] = {}
    ReadmeHook(str(REPOSITORY), {}).update(metadata)

    assert metadata["readme"] == {"content-type": "text/markdown", "text": description(README.read_text())}
    hooks = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["hatch"]["metadata"]["hooks"]
    assert (REPOSITORY / hooks["custom"]["path"]).samefile(readme_hook.__file__)
