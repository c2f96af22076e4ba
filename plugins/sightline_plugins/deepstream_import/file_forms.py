"""The forms of DeepStream's files: GLib's key files, YAML, and protobuf text (nvinferserver)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from sightline_plugins.deepstream_import.sections import Configuration, Entry
from sightline_plugins.deepstream_import.source_text import Place, SourceText, read_source_text

_YAML_SUFFIXES = (".yml", ".yaml")
_COMMENTS = ("#", ";", "//")
_SHOWN = 60
_COMMENTED = re.compile(r"([+-]?\d+(?:;[+-]?\d+)*)\s+(?:#|//)")
"""Whole numbers with a comment behind them, which GLib reads as these numbers; other values have no comments."""
_TOKEN = re.compile(
    r"""\s+ | \#[^\n]* | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*') | (?P<mark>[{}\[\]:,;]) """
    r"""| (?P<word>[^\s{}\[\]:,;#"']+)""",
    re.VERBOSE,
)
_PROTO = re.compile(r"^\s*(infer_config|input_control|output_control)\s*:?\s*\{", re.MULTILINE)
MAX_DEPTH = 20


def read_configuration(path: Path) -> Configuration:
    """Return what a file holds, in whichever form it is. Raises ConfigurationError naming file and line."""
    source = read_source_text(path)
    if _PROTO.search(source.text):  # TAO's samples call such files .yml
        found = _of_proto_text(source)
    elif path.suffix.lower() in _YAML_SUFFIXES:
        found = _of_yaml(source)
    else:
        found = _of_key_file(source)
    found.assumed_encoding = source.assumed_encoding
    return found


def _of_key_file(source: SourceText) -> Configuration:
    found = Configuration(source.path)
    current = None
    for number, line in enumerate(source.text.splitlines(), 1):
        plain, place = line.strip(), Place(source.path, number)
        if not plain or plain.startswith(_COMMENTS):
            continue
        if plain.startswith("[") and (end := plain.find("]")) > 0:
            current = found.section(plain[1:end].strip(), place)
            continue
        key, equals, value = plain.partition("=")
        if not equals:
            raise place.error(f"{plain[:_SHOWN]!r} is neither [section] nor key=value")
        if current is None:
            raise place.error(f"{plain[:_SHOWN]!r} stands before the first [section]")
        commented = _COMMENTED.match(value.strip())
        current.add(Entry(key.strip(), value.strip() if commented is None else commented[1], place))
    return found


def _of_yaml(source: SourceText) -> Configuration:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError
    from ruamel.yaml.nodes import MappingNode

    # NvMultiObjectTracker's files have a directive of OpenCV that is no YAML, perhaps below comments: `%YAML:1.0`.
    text = re.sub(r"^\ufeff?%YAML:", "#YAML:", source.text, count=1, flags=re.MULTILINE)
    text = text.expandtabs(2)
    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        line = 0 if error.problem_mark is None else error.problem_mark.line + 1
        raise Place(source.path, line).error(f"is not valid YAML: {error.problem}") from error
    except (YAMLError, RecursionError) as error:
        raise Place(source.path).error("is not valid YAML") from error
    found = Configuration(source.path)
    if root is None:
        return found
    if not isinstance(root, MappingNode):
        raise Place(source.path, 1).error("sections with keys are expected")
    for key, value in root.value:
        place = Place(source.path, key.start_mark.line + 1)
        section = found.section(str(key.value), place)
        for entry in _yaml_entries(value, (), source.path, place):
            section.add(entry)
    return found


def _yaml_entries(node: object, path: tuple[str, ...], file: Path, place: Place) -> Iterator[Entry]:
    """Yield the scalars below a node; keys of inner mappings have dots between them."""
    from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

    key = ".".join(path)
    if len(path) > MAX_DEPTH:
        raise place.error(f"is nested deeper than {MAX_DEPTH} levels")
    if isinstance(node, MappingNode):
        for name, value in node.value:
            inner = Place(file, name.start_mark.line + 1)
            yield from _yaml_entries(value, (*path, str(name.value)), file, inner)
    elif isinstance(node, SequenceNode):
        if all(isinstance(item, ScalarNode) for item in node.value):
            yield Entry(key, ";".join(_scalar(item) for item in node.value), place)
        else:
            for number, item in enumerate(node.value):
                inner = Place(file, item.start_mark.line + 1)
                yield from _yaml_entries(item, (*path, str(number)), file, inner)
    elif isinstance(node, ScalarNode):
        yield Entry(key, _scalar(node), place)


def _scalar(node: object) -> str:
    value = str(getattr(node, "value", ""))
    if getattr(node, "style", None) is None:
        return {"true": "1", "false": "0", "null": "", "~": ""}.get(value.lower(), value)
    return value


def _of_proto_text(source: SourceText) -> Configuration:
    """Return protobuf text: the outermost messages are sections, keys of inner ones have dots between them."""
    found = Configuration(source.path)
    tokens = list(_tokens(source))
    _message(found, tokens, 0, ())
    return found


def _tokens(source: SourceText) -> Iterator[tuple[str, str, Place]]:
    position, line = 0, 1
    while position < len(source.text):
        match = _TOKEN.match(source.text, position)
        if match is None:
            raise Place(source.path, line).error(f"{source.text[position]!r} is not expected here")
        if match.lastgroup is not None:
            yield match.lastgroup, match[match.lastgroup], Place(source.path, line)
        line += match[0].count("\n")
        position = match.end()


def _message(found: Configuration, tokens: list[tuple[str, str, Place]], start: int, path: tuple[str, ...]) -> int:
    """Read the fields of a message from token `start` on; return the number of the token behind its `}`."""
    at = start
    while at < len(tokens):
        kind, text, place = tokens[at]
        if text == "}" and kind == "mark":
            if not path:
                raise place.error("this } closes nothing")
            return at + 1
        if kind == "mark" and text in ",;":
            at += 1
            continue
        if kind != "word":
            raise place.error(f"{text!r} stands where the name of a field is expected")
        if len(path) > MAX_DEPTH:
            raise place.error(f"is nested deeper than {MAX_DEPTH} levels")
        at = _field(found, tokens, at + 1, (*path, text), place)
    if path:
        raise Place(found.path).error(f"the {{ of {'.'.join(path)} is not closed")
    return at


def _field(
    found: Configuration, tokens: list[tuple[str, str, Place]], at: int, path: tuple[str, ...], place: Place
) -> int:
    def look(number: int) -> str:
        return tokens[number][1] if number < len(tokens) and tokens[number][0] == "mark" else ""

    if look(at) == ":":
        at += 1
    if look(at) == "{":
        return _message(found, tokens, at + 1, path)
    if look(at) == "[":
        end = at + 1
        while end < len(tokens) and look(end) != "]":
            if look(end) == "{":
                end = _message(found, tokens, end + 1, path)
                continue
            end += 1
        parts = [_proto_value(kind, text) for kind, text, _ in tokens[at + 1 : end] if kind != "mark"]
        if look(at + 1) != "{":
            _put(found, path, ";".join(parts), place)
        return end + 1
    if at >= len(tokens) or tokens[at][0] == "mark":
        raise place.error(f"{path[-1]} has no value")
    _put(found, path, _proto_value(*tokens[at][:2]), place)
    return at + 1


def _put(found: Configuration, path: tuple[str, ...], value: str, place: Place) -> None:
    key = ".".join(path[1:])
    section = found.section(path[0], place)
    if key in section.entries:  # a repeated field is a list
        value = f"{section.entries.pop(key).value};{value}"
    section.add(Entry(key, value, place))


def _proto_value(kind: str, text: str) -> str:
    """Return a value without quotes; true and false are 1 and 0, as in deepstream-app's files."""
    if kind == "text":
        return text[1:-1]
    return {"true": "1", "false": "0"}.get(text, text)
