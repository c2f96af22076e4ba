"""The description on a package index: the README without what works only inside the repository.

hatchling calls this when it builds. An index shows the text of the README, but has neither its images nor its pages.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_IMAGE = re.compile(r"^!\[[^\]]*\]\((?!https?://)[^)]+\)\n+", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?!https?://)[^)]+\)")
_NEXT = re.compile(r"^## Next\n.*?(?=^## |\Z)", re.DOTALL | re.MULTILINE)
WHERE = "The pages of the guide come with each release, as a site that needs no network. Licence: Apache-2.0.\n"


def description(readme: str) -> str:
    """Return the README for a package index: relative links become text; relative images and the list of pages go."""
    return _LINK.sub(r"\g<text>", _IMAGE.sub("", _NEXT.sub(WHERE, readme)))


class ReadmeHook(MetadataHookInterface):
    """Sets the long description; `pyproject.toml` names this file and lists `readme` as dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `readme` in the metadata of the project."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": description(text)}
