"""Service-maker's YAML: `deepstream: {nodes: [...], edges: {...}}`, whose nodes are elements with properties."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sightline_plugins.deepstream_import.elements import GstElement
from sightline_plugins.deepstream_import.sections import Configuration, Section

SECTION = "deepstream"
_NODE = re.compile(r"nodes\.(\d+)\.(type|name|properties\.(.+))")


def is_service_maker(configuration: Configuration) -> bool:
    """Return whether a file describes a pipeline of service-maker."""
    section = configuration.sections.get(SECTION)
    return section is not None and any(_NODE.fullmatch(key) for key in section.entries)


def nodes_of(section: Section) -> Sequence[GstElement]:
    """Return the nodes as elements, in the order of the file. Raises ConfigurationError for one without a type."""
    found: dict[int, GstElement] = {}
    for key, entry in section.entries.items():
        match = _NODE.fullmatch(key)
        if match is None:
            continue
        element = found.setdefault(int(match[1]), GstElement("", entry.place))
        if match[2] == "type":
            element.kind = entry.value
    for key, entry in section.entries.items():
        match = _NODE.fullmatch(key)
        if match is not None and match[3]:
            found[int(match[1])].set(match[3], entry.value, entry.place)
    for element in found.values():
        if not element.kind:
            raise element.place.error("the node has no type")
    return [found[number] for number in sorted(found)]
