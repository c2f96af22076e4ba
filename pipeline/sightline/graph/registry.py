"""What is installed: elements, sources and other extensions by name, found through entry points on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint
from typing import Any, TypeVar, cast

from sightline.errors import ConfigurationError, UnknownElement
from sightline.graph.element import Element
from sightline.graph.source import SourceElement
from sightline.graph.wording import suggest
from sightline.installed import installed
from sightline.redaction import redact

ELEMENTS = "sightline.elements"
SOURCES = "sightline.sources"
TRANSPORTS = "sightline.transports"
"""Elements that deliver records to a destination outside; they are elements like any other."""

_Described = TypeVar("_Described", Element, SourceElement)
_Extension = TypeVar("_Extension", covariant=True)
_BROKEN_MODULE = (
    ImportError,
    AttributeError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""What importing somebody's module raises when it does not fit this machine or this version."""


class Registry:
    """Elements and sources of all installed packages. First-party ones are found in the same way as anybody's."""

    def __init__(
        self,
        *,
        elements: Mapping[str, EntryPoint] | None = None,
        sources: Mapping[str, EntryPoint] | None = None,
    ) -> None:
        self._elements = _installed(ELEMENTS, TRANSPORTS) if elements is None else _alone(elements)
        self._sources = _installed(SOURCES) if sources is None else _alone(sources)

    @property
    def element_names(self) -> list[str]:
        """The names of all installed elements, sorted."""
        return sorted(self._elements)

    @property
    def source_names(self) -> list[str]:
        """The names of all installed kinds of source, sorted."""
        return sorted(self._sources)

    def package(self, name: str) -> str:
        """The distribution that offers the element or source of that name; several, joined, when they clash."""
        return ", ".join(_package(entry) for entry in self._elements.get(name) or self._sources[name])

    def element(self, name: str) -> type[Element]:
        """The element of that name. Raises UnknownElement, or ConfigurationError when it cannot be loaded."""
        if name not in self._elements:
            raise UnknownElement(f"there is no element {name!r}{suggest(name, self._elements)}")
        return _load_class(self._elements[name], Element)

    def source(self, name: str) -> type[SourceElement]:
        """The kind of source of that name. Raises as `element` does."""
        if name not in self._sources:
            raise UnknownElement(f"there is no kind of source {name!r}{suggest(name, self._sources)}")
        return _load_class(self._sources[name], SourceElement)

    def source_for(self, uri: str) -> type[SourceElement]:
        """Return the source that reads that URI: of those that accept it, the one with the highest `priority`.

        Raises ConfigurationError when none accepts it, or when several do with the same priority. A source that cannot
        be loaded does not affect the others; it is named when no other one accepts the URI.
        """
        accepting: list[type[SourceElement]] = []
        broken: list[str] = []
        for name in self.source_names:
            try:
                kind = self.source(name)
            except ConfigurationError as error:
                broken.append(str(error))
                continue
            if kind.accepts(uri):
                accepting.append(kind)
        if accepting:
            return self._foremost(accepting, uri)
        scheme, separator, _ = uri.partition("://")
        near = suggest(scheme, self._sources) if separator else ""
        known = f"known kinds: {', '.join(self.source_names) or 'none'}{near}"
        raise ConfigurationError("; ".join([f"no installed kind of source reads {redact(uri)!r}; {known}", *broken]))

    def _foremost(self, accepting: list[type[SourceElement]], uri: str) -> type[SourceElement]:
        highest = max(kind.priority for kind in accepting)
        first, *others = [kind for kind in accepting if kind.priority == highest]
        if others:
            names = [kind.name for kind in (first, *others)]
            offers = " and ".join(f"{name!r} (package {self.package(name)})" for name in names)
            choose = " or ".join(f"`{name}: ...`" for name in names)
            raise ConfigurationError(f"{redact(uri)!r} is read by {offers}: write {choose} instead of `uri: ...`")
        return first

    def broken(self) -> list[str]:
        """Why those entry points that cannot be loaded cannot; loads all of them."""
        reasons = []
        for names, load in ((self.element_names, self.element), (self.source_names, self.source)):
            for name in names:
                try:
                    load(name)
                except ConfigurationError as error:
                    reasons.append(str(error))
        return reasons


class Extensions(Mapping[str, _Extension]):
    """What all installed packages register under an entry-point group, by name, in alphabetical order.

    Listing names imports nothing; looking one up imports its module, once. `accepts` tells whether a loaded object is
    of the right kind; its `name` must be the entry point's. Looking up raises ConfigurationError for an entry point
    that cannot be loaded or holds another kind of object.

    ```python
    TRACKERS: Mapping[str, type[TrackerOptions]] = Extensions("sightline.trackers", accepts=is_tracker, kind="tracker")
    ```
    """

    def __init__(self, group: str, *, accepts: Callable[[Any], bool], kind: str) -> None:
        self._group = group
        self._accepts = accepts
        self._kind = kind
        self._known: dict[str, list[EntryPoint]] | None = None
        self._loaded: dict[str, _Extension] = {}

    def __getitem__(self, name: str) -> _Extension:
        if name not in self._loaded:
            self._loaded[name] = cast("_Extension", _load(self._entries()[name], self._accepts, kind=self._kind))
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries()

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries())

    def __len__(self) -> int:
        return len(self._entries())

    def _entries(self) -> dict[str, list[EntryPoint]]:
        if self._known is None:
            self._known = dict(sorted(_installed(self._group).items()))
        return self._known


def _installed(*groups: str) -> dict[str, list[EntryPoint]]:
    """Entry points by name; found twice through the same package (on the path twice), it is one."""
    found: dict[str, list[EntryPoint]] = {}
    for entry in (entry for group in groups for entry in installed(group)):
        others = found.setdefault(entry.name, [])
        if all((entry.value, _package(entry)) != (other.value, _package(other)) for other in others):
            others.append(entry)
    return found


def _alone(entries: Mapping[str, EntryPoint]) -> dict[str, list[EntryPoint]]:
    return {name: [entry] for name, entry in entries.items()}


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "unknown"


def _load_class(entries: list[EntryPoint], base: type[_Described]) -> type[_Described]:
    loaded = _load(entries, lambda found: isinstance(found, type) and issubclass(found, base), kind=base.__name__)
    return cast("type[_Described]", loaded)


def _load(entries: list[EntryPoint], accepts: Callable[[Any], bool], *, kind: str) -> Any:
    entry = entries[0]
    if len(entries) > 1:
        packages = " and ".join(_package(other) for other in entries)
        raise ConfigurationError(f"{entry.name!r} is offered by the packages {packages}: uninstall all but one")
    try:
        loaded = entry.load()
    except _BROKEN_MODULE as error:
        raise ConfigurationError(f"{entry.name!r} of package {_package(entry)} cannot be loaded: {error}") from error
    if not accepts(loaded):
        raise ConfigurationError(f"{entry.name!r} of package {_package(entry)} is no {kind}: {entry.value}")
    if loaded.name != entry.name:
        raise ConfigurationError(
            f"{entry.value} of package {_package(entry)} calls itself {loaded.name!r}, its entry point says "
            f"{entry.name!r}"
        )
    return loaded
