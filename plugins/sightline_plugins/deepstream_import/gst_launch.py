"""`gst-launch-1.0` lines: the elements of DeepStream and of DL Streamer with their properties.

The line is read as gst-launch reads it: elements with `property=value` and `!` between them, references to pads
(`mux.sink_0`) and caps (`video/x-raw,...`). How elements are linked is not needed: the order of steps is that of
DeepStream, whose branches end in sinks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from sightline_plugins.deepstream_import.application import add_application, add_results
from sightline_plugins.deepstream_import.dlstreamer import ELEMENTS, add_elements
from sightline_plugins.deepstream_import.elements import GstElement, to_sections
from sightline_plugins.deepstream_import.plan import Import, Plan, safe_name
from sightline_plugins.deepstream_import.source_text import Place, is_file, read_source_text

_PROGRAM = re.compile(r"gst-launch-1\.0")
_TOKEN = re.compile(r"""(?:[^\s"'!\\]|"(?:[^"\\]|\\.)*"|'[^']*'|\\.)+|!""", re.DOTALL)
_PROPERTY = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)=(.*)", re.DOTALL)
_ELEMENT = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_PAD = re.compile(r"[A-Za-z][A-Za-z0-9_-]*\.([A-Za-z][A-Za-z0-9_%-]*)?")
_FLAGS = re.compile(r"--?[A-Za-z][A-Za-z-]*")
COMMAND_LINE = Path("gst-launch-1.0")
"""What places of a line that was given as text are reported as."""


def import_gst(text: str, *, folder: Path, compat: bool = False, fps: float = 30.0) -> Import:
    """Return the plan of a line, or of the first one in a file. Raises ConfigurationError for what is no such line.

    Files of a line are relative to the working directory, those of a file's line to the file.
    """
    path = Path(text)
    has_file = is_file(path)
    source, name = (read_source_text(path).text, path) if has_file else (text, COMMAND_LINE)
    imported = Import(
        folder, Plan(safe_name(path.stem, default="pipeline") if has_file else "pipeline"), compat=compat, fps=fps
    )
    if not has_file and "!" not in text and not any(one.isspace() for one in text.strip()):
        raise Place(path).error("is no file, and no line of elements with ! between them")
    elements = list(_elements(source, name))
    if not elements:
        raise Place(name).error(
            "holds no elements: a line such as `gst-launch-1.0 filesrc location=a.mp4 ! ...` is expected"
        )
    others = [one for one in elements if one.kind not in ELEMENTS]
    add_application(to_sections(others, name, imported.outcomes), imported)
    add_elements([one for one in elements if one.kind in ELEMENTS], imported)
    add_results(imported)
    return imported


def _elements(text: str, path: Path) -> Iterator[GstElement]:
    """Yield the elements of the line in a text, with the number of the line that each stands in."""
    element, is_new, is_caps = None, True, False
    for word, place in _words(text, path):
        plain = _unquoted(word)
        if word == "!":
            is_new, is_caps = True, False
        elif is_caps or (_FLAGS.fullmatch(plain) and element is None):
            continue
        elif element is not None and not is_new and (given := _PROPERTY.fullmatch(plain)):
            if given[1] != "name":
                element.set(given[1], _unquoted(given[2]), place)
        elif _PAD.fullmatch(plain) or "/" in plain:  # a pad, or caps, which go on to the next link
            is_new, is_caps = True, "/" in plain
        elif _ELEMENT.fullmatch(plain):
            if element is not None:
                yield element
            element, is_new = GstElement(plain, place), False
        else:
            raise place.error(f"{plain[:60]!r} is no element, property or link")
    if element is not None:
        yield element


def _words(text: str, path: Path) -> Iterator[tuple[str, Place]]:
    """Yield the words of a line with their places; in a script, from `gst-launch-1.0` to the end of the command."""
    begin = _PROGRAM.search(text)
    start = begin.end() if begin is not None else 0
    whole = _joined(text)
    for match in _TOKEN.finditer(whole, start):
        if begin is not None and not _continues(text, start, match.start()):
            return
        yield match[0], Place(path, whole.count("\n", 0, match.start()) + 1)


def _joined(text: str) -> str:
    """Return a text whose lines go on behind a backslash; places stay the same."""
    return text.replace("\\\r\n", "  \n").replace("\\\n", " \n")


def _continues(text: str, start: int, end: int) -> bool:
    """Return whether all ends of lines in between are behind a backslash."""
    part = text[start:end]
    lines: Sequence[str] = part.split("\n")[:-1]
    return all(line.rstrip("\r").endswith("\\") or not line.strip() for line in lines)


def _unquoted(word: str) -> str:
    """Return a word without quotes around it or its parts."""
    return re.sub(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|\\(.)", lambda one: one[1] or one[2] or one[3] or "", word)
