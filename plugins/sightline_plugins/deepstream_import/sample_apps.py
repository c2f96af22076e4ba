"""YAML of DeepStream's sample applications: sections that set the properties of one element each.

deepstream-test1 to -test5, the TAO applications and the retail sample name sections by what they make (`filesink`,
`msgconv`, `analytics`), and their keys are properties of that element. deepstream-app's sections are left as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from sightline_plugins.deepstream_import.elements import GstElement, to_sections
from sightline_plugins.deepstream_import.outcomes import Outcomes
from sightline_plugins.deepstream_import.sections import Configuration, Entry, Section

_ELEMENTS: Mapping[str, str] = {
    **dict.fromkeys(("eglsink", "sink", "sink-type"), "nveglglessink"),
    "filesink": "filesink",
    "fakesink": "fakesink",
    "rtspsink": "udpsink",
    "output": "filesink",
    "analytics": "nvdsanalytics",
    "msgconv": "nvmsgconv",
    "msgbroker": "nvmsgbroker",
    "tiler": "nvmultistreamtiler",
}
_LOCATION = ("source", "filesrc", "location")
_KINDS: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("sink", "sink-type"): {"0": "fakesink", "1": "filesink", "2": "udpsink", "3": "nveglglessink"},
    ("output", "type"): {"1": "filesink", "2": "fakesink", "3": "nveglglessink", "4": "udpsink"},
}
"""Keys that say which sink it is, in two samples with other numbers than deepstream-app."""
_CODECS = ("codec", "enc")
_H264 = "0"
_MODEL = re.compile(r"(primary|secondary)-gie\d*")
_DRAWING = "nvdsosd"
_RENAMED = {"preprocess": "pre-process", "secondary-preprocess": "secondary-pre-process"}
_NUMBER = re.compile(r"\d+$")


def is_sample_app(configuration: Configuration) -> bool:
    """Return whether a file has sections of the sample applications that deepstream-app has not."""
    return any(name in _ELEMENTS for name in configuration.sections) or _has_location(configuration)


def _has_location(configuration: Configuration) -> bool:
    source = configuration.sections.get(_LOCATION[0])
    return source is not None and _LOCATION[2] in source.entries


def of_sample_app(found: Configuration, outcomes: Outcomes) -> Configuration:
    """Return the file with the sections of deepstream-app; keys are reported as they were given.

    These applications draw always, so there is a section for that wherever one of the sinks shows images.
    """
    elements = list(_elements(found))
    made = to_sections(elements, found.path, outcomes)
    for name, section in found.sections.items():
        if name in _ELEMENTS or (name == _LOCATION[0] and _has_location(found)):
            continue
        number = _NUMBER.search(name)
        plain = name if number is None else name[: number.start()]
        new = _RENAMED.get(plain, plain) + ("" if number is None else number[0])
        made.sections[new] = Section(new, section.place, _entries(section), section.replaced)
    return made


def _entries(section: Section) -> dict[str, Entry]:
    """Return the entries of a section of deepstream-app; the id of a model has the name of the property."""
    if not _MODEL.fullmatch(section.name):
        return dict(section.entries)
    entries = {}
    for key, entry in section.entries.items():
        name = "gie-unique-id" if key == "unique-id" else key
        entries[name] = Entry(name, entry.value, entry.place, (section.name, key))
    return entries


def _elements(found: Configuration) -> Iterator[GstElement]:
    if _has_location(found):
        yield _element(found.sections[_LOCATION[0]], _LOCATION[1])
    if "osd" not in found.sections:
        yield GstElement(_DRAWING, next(iter(found.sections.values())).place)
    for name, section in found.sections.items():
        if name in _ELEMENTS:
            yield _element(section, _kind(section))


def _kind(section: Section) -> str:
    """Return the element that a section makes."""
    for (name, key), kinds in _KINDS.items():
        if section.name == name and key in section.entries:
            return kinds.get(section.entries[key].value, _ELEMENTS[name])
    return _ELEMENTS[section.name]


def _element(section: Section, kind: str) -> GstElement:
    element = GstElement(kind, section.place)
    for key, entry in section.entries.items():
        name, value = key, entry.value
        if (section.name, key) in _KINDS:
            name, value = "type", {"filesink": "3", "fakesink": "1", "udpsink": "4"}.get(kind, "2")
        elif section.name == "output" and key in _CODECS:
            name, value = "codec", "1" if entry.value == _H264 else "2"
        elif section.name == "output" and key == "filename":
            name, value = "output-file", f"{entry.value}.mp4"
        element.properties[name] = Entry(name, value, entry.place, (section.name, key))
    return element
