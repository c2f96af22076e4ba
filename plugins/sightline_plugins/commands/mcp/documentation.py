"""The pages of the documentation as Markdown, wherever this installation has them, and a search in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import log
from pathlib import Path

from sightline.errors import ConfigurationError
from sightline.graph.wording import suggest
from sightline_plugins.samples import samples_folder

FOLDERS = ("commands", "elements", "extend", "guide", "sources")
"""Folders of the documentation whose pages are for users; pages beside these are, too."""
_HEADING = re.compile(r"^#{1,4} (?P<title>.+)$", re.MULTILINE)
_WORD = re.compile(r"[a-z0-9_]{3,}")
_MOST_FOUND = 8
_MOST_OF_PAGE = 2
_EXCERPT = 600


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page below one heading."""

    page: str
    title: str
    text: str


def pages() -> dict[str, Path]:
    """Return the pages by name, such as `guide/rules`. Raises ConfigurationError when the installation has none."""
    folder = samples_folder() / "docs"
    found = {path.stem: path for path in sorted(folder.glob("*.md"))}
    for name in FOLDERS:
        found |= {f"{name}/{path.stem}": path for path in sorted((folder / name).glob("*.md"))}
    if not found:
        raise ConfigurationError(f"this installation has no documentation in {folder}")
    return found


def page(name: str) -> str:
    """Return a page as Markdown. Raises ConfigurationError when there is none of that name."""
    known = pages()
    name = name.strip().removesuffix(".md")
    if name not in known:
        raise ConfigurationError(f"there is no page {name!r}{suggest(name, known)}: list_pages names all")
    return known[name].read_text(encoding="utf-8")


def titles() -> dict[str, str]:
    """Return the first heading of each page by its name."""
    return {name: sections[0].title for name, sections in _sections().items() if sections}


def search(words: str) -> list[dict[str, str]]:
    """Return the sections that have most of the words, the best first, at most two of a page: a word in a heading
    counts for four, one that few sections have counts for more (its inverse document frequency).
    """
    wanted = set(_WORD.findall(words.lower()))
    sections = [one for found in _sections().values() for one in found]
    texts = [(one.title.lower(), one.text.lower()) for one in sections]
    weights = {word: log(1 + len(texts) / (1 + sum(word in text for _, text in texts))) ** 2 for word in wanted}
    scored = []
    for section, (title, text) in zip(sections, texts, strict=True):
        score = sum(
            weight * (4 * (word in title) + min(text.count(word), 5) ** 0.5)
            for word, weight in weights.items()
            if word in text
        )
        if score:
            scored.append((-score, section.page, section.title, section))
    scored.sort(key=lambda one: one[:3])
    of_page: Counter[str] = Counter()
    best = []
    for *_, section in scored:
        of_page[section.page] += 1
        if of_page[section.page] <= _MOST_OF_PAGE:
            best.append(section)
    return [{"page": one.page, "section": one.title, "text": one.text[:_EXCERPT]} for one in best[:_MOST_FOUND]]


@cache
def _sections() -> dict[str, tuple[Section, ...]]:
    return {name: tuple(_split(name, path.read_text(encoding="utf-8"))) for name, path in pages().items()}


def _split(name: str, text: str) -> Iterator[Section]:
    headings = list(_HEADING.finditer(text))
    ends = [*(one.start() for one in headings[1:]), len(text)]
    for heading, end in zip(headings, ends, strict=False):
        yield Section(name, heading["title"].strip("`"), text[heading.start() : end].strip())
