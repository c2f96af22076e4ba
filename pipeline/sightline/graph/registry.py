"""What is installed: elements and sources by name, found through entry points on first use."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from sightline.errors import ConfigurationError, UnknownElement
from sightline.graph.element import Element
from sightline.graph.source import SourceElement

ELEMENTS = "sightline.elements"
SOURCES = "sightline.sources"

_Described = TypeVar("_Described", Element, SourceElement)


def suggest(word: str, known: Iterable[str]) -> str:
    """The end of an error message: the nearest right word, when there is one near."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


class Registry:
    """Elements and sources of all installed packages. First-party ones are found in the same way as anybody's."""

    def __init__(
        self,
        *,
        elements: Mapping[str, EntryPoint] | None = None,
        sources: Mapping[str, EntryPoint] | None = None,
    ) -> None:
        self._elements = _installed(ELEMENTS) if elements is None else elements
        self._sources = _installed(SOURCES) if sources is None else sources

    @property
    def element_names(self) -> list[str]:
        """The names of all installed elements, sorted."""
        return sorted(self._elements)

    @property
    def source_names(self) -> list[str]:
        """The names of all installed kinds of source, sorted."""
        return sorted(self._sources)

    def package(self, name: str) -> str:
        """The distribution that offers the element or source of that name."""
        entry = self._elements.get(name) or self._sources[name]
        return entry.dist.name if entry.dist is not None else "unknown"

    def element(self, name: str) -> type[Element]:
        """The element of that name. Raises UnknownElement, or ConfigurationError when it can not be loaded."""
        if name not in self._elements:
            raise UnknownElement(f"there is no element {name!r}{suggest(name, self._elements)}")
        return _load(self._elements[name], Element)

    def source(self, name: str) -> type[SourceElement]:
        """The kind of source of that name. Raises as `element` does."""
        if name not in self._sources:
            raise UnknownElement(f"there is no kind of source {name!r}{suggest(name, self._sources)}")
        return _load(self._sources[name], SourceElement)

    def source_for(self, uri: str) -> type[SourceElement]:
        """The kind of source that reads that URI. Raises ConfigurationError when none does."""
        for name in self.source_names:
            kind = self.source(name)
            if kind.accepts(uri):
                return kind
        raise ConfigurationError(
            f"no installed kind of source reads {uri!r}; known kinds: {', '.join(self.source_names)}"
        )


def _installed(group: str) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=group)}


def _load(entry: EntryPoint, base: type[_Described]) -> type[_Described]:
    package = entry.dist.name if entry.dist is not None else entry.value
    try:
        loaded = entry.load()
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"{entry.name!r} of package {package} can not be loaded: {error}") from error
    if not (isinstance(loaded, type) and issubclass(loaded, base)):
        raise ConfigurationError(f"{entry.name!r} of package {package} is no {base.__name__}: {entry.value}")
    if loaded.name != entry.name:
        raise ConfigurationError(
            f"{entry.value} of package {package} calls itself {loaded.name!r}, its entry point says {entry.name!r}"
        )
    return loaded
