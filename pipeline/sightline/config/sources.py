"""The sources: streams by name, each a URI, a URI with options, or another kind of source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from sightline.config.nodes import Entry, Node, Scalar, Table
from sightline.config.problems import Key, LocatedProblem, Place, allowed
from sightline.config.stream_names import name_problems
from sightline.config.validation import Validator
from sightline.errors import ConfigurationError
from sightline.graph.fields import is_url
from sightline.graph.registry import Registry, suggest
from sightline.graph.source import SourceElement


class UnreadSource(SourceElement):
    """Stands where a source has mistakes, so that the streams keep their names."""

    name: ClassVar[str] = "?"


class SourceParser:
    """Makes sources of nodes; what is wrong is noted in the validator's problems."""

    def __init__(self, registry: Registry, validator: Validator, *, base_folder: Path | None) -> None:
        self._registry = registry
        self._validator = validator
        self._base_folder = base_folder

    def sources(self, node: Node, *, key: Key) -> dict[str, SourceElement]:
        """The sources of a mapping by name; a wrong one becomes an `UnreadSource`."""
        if not isinstance(node, Table):
            if not (isinstance(node, Scalar) and node.value is None):
                self._problem(node.place, key, "must give each stream a name: {gate: gate.mp4}")
            return {}
        self._check_names(node, key)
        return {
            name: self.source(entry.node, key=(*key, name), place=entry.key_place)
            for name, entry in node.entries.items()
        }

    def source(self, node: Node, *, key: Key, place: Place) -> SourceElement:
        """One source; `place` is where what is missing is noted."""
        if isinstance(node, Scalar) and isinstance(node.value, str) and node.value:
            node = Table(node.place, {"uri": Entry(node.place, node)})
        if not isinstance(node, Table):
            self._problem(place, key, f"must be a file, a URL, or a mapping with {self._starts()}")
            return UnreadSource()
        kind_and_options = self._kind(node, key, place)
        if kind_and_options is None:
            return UnreadSource()
        kind, options = kind_and_options
        return self._validator.model(kind, options, key=key, place=place) or UnreadSource()

    def _kind(self, node: Table, key: Key, place: Place) -> tuple[type[SourceElement], Table] | None:
        try:
            if "uri" in node.entries:
                return self._kind_of_uri(node, key)
            for name in node.entries:
                if name in self._registry.source_names:
                    return _as_kind(self._registry.source(name), node)
        except ConfigurationError as error:
            uri = node.entries["uri"].node if "uri" in node.entries else node
            certain = uri.variables if isinstance(uri, Scalar) else ()
            self._problem(place, key, self._validator.hide(str(error), certain=certain))
            return None
        near = next(
            (word for name in node.entries if (word := suggest(name, ["uri", *self._registry.source_names]))), ""
        )
        self._problem(place, key, f"needs {self._starts()}{near}")
        return None

    def _kind_of_uri(self, node: Table, key: Key) -> tuple[type[SourceElement], Table] | None:
        uri = node.entries["uri"].node
        if not isinstance(uri, Scalar) or not isinstance(uri.value, str) or not uri.value:
            self._problem(uri.place, (*key, "uri"), "must be a file or a URL, as a text")
            return None
        resolved = uri.value
        if self._base_folder is not None and not is_url(resolved):
            resolved = str(self._base_folder / resolved)
        return self._registry.source_for(resolved), node

    def _starts(self) -> str:
        return f"`uri:`, or one of {allowed([f'`{name}:`' for name in self._registry.source_names])}"

    def _check_names(self, node: Table, key: Key) -> None:
        for name, message in name_problems(node.entries):
            self._problem(node.entries[name].key_place, (*key, name), message)

    def _problem(self, place: Place, key: Key, message: str) -> None:
        self._validator.problems.append(LocatedProblem(place, key, message))


def _as_kind(kind: type[SourceElement], node: Table) -> tuple[type[SourceElement], Table]:
    """The options as the kind knows them: `images: folder` means `uri` where the kind has no field of its own name."""
    names = {field.alias or name for name, field in kind.model_fields.items()}
    if kind.name in names or "uri" not in names:
        return kind, node
    entries = {("uri" if name == kind.name else name): entry for name, entry in node.entries.items()}
    return kind, replace(node, entries=entries)
