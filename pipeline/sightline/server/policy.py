"""What may come by the API: which sources, steps, models and outputs a change may add to a pipeline, or alter.

Who may use the API to change a pipeline is trusted with the pipeline, and not with the machine. The file that the
server was started with may name every file, server and function; what comes by the API may not. A value that the
pipeline has already in the same option is admitted again, so that a configuration can be read, changed and given back.

The policy is asked twice, before anything that comes is used. `text_problems` sees what was written, before it is read
into elements, which already looks at files. `problems` sees the elements, before they check themselves, which imports
functions and asks name services; `confined` then returns the description to run. `admitted` is both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from sightline.cache import store_folder
from sightline.config.checks import placed
from sightline.config.document import InvalidConfiguration, Items, Key, LocatedProblem, Node, Place, Scalar
from sightline.errors import ConfigurationError, OutputError
from sightline.graph.described import Described
from sightline.graph.fields import PathRole, Reach, is_url, matching, options_of, reach_of, role_of
from sightline.graph.networks import PRIVATE, PUBLIC, Network, Networks
from sightline.graph.outputs import Outputs
from sightline.graph.registry import Registry
from sightline.graph.source import SourceElement
from sightline.graph.tree import PipelineDescription
from sightline.server.judging import (
    destination_problem,
    hosts_of,
    input_problem,
    look_up,
    model_problem,
    output_name_problem,
    output_place_problem,
    url_problem,
)

_Found = tuple[Key, str]
Scheme = Literal["rtsp", "rtsps", "http", "https"]

_STREAM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_STREAM = "{stream}"
_NETWORKS = "networks"
_URI = "uri"
_CAMERAS: tuple[Scheme, ...] = ("rtsp", "rtsps")
_IN_FILE = "write it into the pipeline's file"
_SOURCES_FILE = f"the API may not name a file of sources: {_IN_FILE}"
_CODE = "it names code that would run, which the API may not: allow it with --allow-code"
_LISTENS = f"it opens a port, which the API may not: {_IN_FILE}"
_REFERENCE = "the API may not use ${...}, which would give it the server's environment: write the value itself"


def _checked_host(host: str) -> str:
    if not re.fullmatch(r"[a-z0-9._-]+(:\d{1,5})?|\[[0-9a-f:.]+\](:\d{1,5})?", host.lower()):
        raise ValueError(f"{host!r} is no host: write NAME or NAME:PORT")
    return host.lower()


def _checked_folder(path: Path) -> Path:
    if not path.is_dir():
        raise ValueError(f"there is no folder {path}")
    return path.resolve()


class Policy(Described):
    """What the API may name. Without options: cameras by RTSP that are other machines, models of the store, and
    outputs below the output folder.
    """

    schemes: frozenset[Scheme] = frozenset(_CAMERAS)
    """Schemes that URLs of sources may have."""
    networks: tuple[Network, ...] = ()
    """Networks that sources may be read from besides the usual ones: `private` and `public` for RTSP, `public` for
    HTTP. Loopback, link-local, multicast and the metadata services of clouds are in neither."""
    hosts: frozenset[Annotated[str, AfterValidator(_checked_host)]] = frozenset()
    """Servers that steps may send to or ask, as `NAME` or `NAME:PORT`."""
    files: tuple[Annotated[Path, AfterValidator(_checked_folder)], ...] = ()
    """Folders whose files may be read: videos, images, models, labels, certificates, and with `/dev` cameras."""
    allow_code: bool = False
    """Whether functions and other code may be named."""
    largest_model_bytes: Annotated[int, Field(gt=0)] = 2**31 - 1
    """The largest model file."""

    def text_problems(
        self, given: Node, *, changed_from: Node | None = None, registry: Registry, key: Key = ()
    ) -> tuple[LocatedProblem, ...]:
        """Return what is wrong with what was written, before it is read. `key` is its path in a configuration, such as
        `("sources", "gate")`; `changed_from` is the whole configuration as it is written now.
        """
        known = set() if changed_from is None else {_known_text(*one) for one in _texts(changed_from, ())}
        found = []
        for at, scalar in _texts(given, key):
            if _known_text(at, scalar) in known:
                continue
            if "${" in scalar.text or any("${" in str(part) for part in at):
                found.append(LocatedProblem(scalar.place, at, _REFERENCE))
            elif at == ("sources_file",):
                found.append(LocatedProblem(scalar.place, at, _SOURCES_FILE))
            elif _names_input(at, registry) and (problem := self._input_problem(scalar.text)):
                found.append(LocatedProblem(scalar.place, at, problem))
        return tuple(found)

    def admitted(
        self, description: PipelineDescription, *, changed_from: PipelineDescription, outputs: Outputs
    ) -> PipelineDescription:
        """Return what a change may make of a pipeline: the description, its new sources confined. It may wait for the
        name service. Raises InvalidConfiguration with everything that may not come by the API.
        """
        found = self.problems(description, changed_from=changed_from, outputs=outputs)
        if found:
            raise InvalidConfiguration(found)
        return self.confined(description, changed_from=changed_from)

    def problems(
        self, description: PipelineDescription, *, changed_from: PipelineDescription, outputs: Outputs
    ) -> tuple[LocatedProblem, ...]:
        """Return what a change adds or alters that may not come by the API. It may wait for the name service."""
        judge = _Judge(self, _Known(changed_from), outputs, description)
        found = [*judge.top_level(changed_from), *judge.sources(changed_from), *judge.steps(changed_from)]
        return tuple(LocatedProblem(Place(), key, message) for key, message in found)

    def confined(self, description: PipelineDescription, *, changed_from: PipelineDescription) -> PipelineDescription:
        """Return a description without problems with its new sources confined to the networks of this policy."""
        known = _Known(changed_from)
        sources = {
            name: self.confined_source(source) if known.is_foreign(source) else source
            for name, source in description.sources.items()
        }
        return description.model_copy(update={"sources": sources})

    def networks_for(self, scheme: str) -> tuple[str, ...]:
        """Return the networks that sources of a scheme may be read from."""
        usual = (PRIVATE, PUBLIC) if scheme in _CAMERAS else (PUBLIC,)
        return tuple(dict.fromkeys((*usual, *self.networks)))

    def _input_problem(self, text: str) -> str | None:
        return None if is_url(text) else input_problem(text, self.files)

    def confined_source(self, source: SourceElement) -> SourceElement:
        """Return a source that has a URL, confined to the networks for it. Raises ConfigurationError."""
        if _NETWORKS not in type(source).model_fields:
            raise ConfigurationError(f"`{source.name}` cannot be confined to networks: {_IN_FILE}")
        wanted = self.networks_for(_scheme(str(getattr(source, _URI))))
        given = getattr(source, _NETWORKS)
        if given is not None and given != wanted:
            raise ConfigurationError(f"the API may not choose networks: leave them out ({', '.join(wanted)})")
        options = source.model_dump(by_alias=True, exclude_unset=True)
        try:
            return type(source).model_validate({**options, _NETWORKS: wanted})
        except ValidationError as error:
            raise ConfigurationError(error.errors()[0]["msg"].removeprefix("Value error, ")) from None


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A single value below an element: its key path, and what its option is for."""

    key: Key
    value: object
    role: PathRole | None
    reach: Reach | None


def _leaves(part: BaseModel) -> Iterator[_Leaf]:
    for name, field, value in options_of(part):
        marks = (None, None) if field is None else (role_of(field), reach_of(field))
        yield from _below(value, (name,), *marks)


def _below(value: object, key: Key, role: PathRole | None, reach: Reach | None) -> Iterator[_Leaf]:
    if isinstance(value, BaseModel):
        for leaf in _leaves(value):
            yield _Leaf((*key, *leaf.key), leaf.value, leaf.role, leaf.reach)
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _below(inner, (*key, str(name)), role, reach)
    elif isinstance(value, tuple | list | set | frozenset):
        for number, inner in enumerate(value):
            yield from _below(inner, (*key, number), role, reach)
    elif value is not None:
        yield _Leaf(key, value, role, reach)


class _Known:
    """The values that a pipeline has, by the kind of part and the option that have them."""

    def __init__(self, description: PipelineDescription) -> None:
        parts = (*description.sources.values(), *(element for _, element in placed(description.steps)))
        self._values = {self._fact(part, leaf) for part in parts for leaf in _leaves(part)}
        self._connections = {self._connection(source) for source in description.sources.values()}

    def has(self, part: BaseModel, leaf: _Leaf) -> bool:
        return self._fact(part, leaf) in self._values

    def is_foreign(self, source: SourceElement) -> bool:
        """Whether a source connects to somewhere, and not as one of the pipeline does."""
        return is_url(str(getattr(source, _URI, ""))) and self._connection(source) not in self._connections

    @staticmethod
    def _fact(part: BaseModel, leaf: _Leaf) -> tuple[type, Key, str]:
        option = tuple(one for one in leaf.key if isinstance(one, str))
        return type(part), option, repr(leaf.value)

    @staticmethod
    def _connection(source: SourceElement) -> tuple[type, str, object]:
        return type(source), str(getattr(source, _URI, "")), getattr(source, _NETWORKS, None)


class _Judge:
    """Judges one change; each finding is the key path of a value and what is wrong with it."""

    def __init__(self, policy: Policy, known: _Known, outputs: Outputs, description: PipelineDescription) -> None:
        self._policy, self._known, self._outputs, self._description = policy, known, outputs, description

    def top_level(self, before: PipelineDescription) -> Iterator[_Found]:
        now = self._description
        if now.overwrite and not before.overwrite:
            yield ("overwrite",), f"the API may not let outputs replace files of others: {_IN_FILE}"
        if now.sources_file is not None and now.sources_file != before.sources_file:
            yield ("sources_file",), _SOURCES_FILE
        if now.telemetry is not None and now.telemetry != before.telemetry:
            yield ("telemetry",), f"the API may not send telemetry to a collector: {_IN_FILE}"
        if now.outbox_path != before.outbox_path and (problem := self._output(now.outbox_path, ())):
            yield ("outbox", "path"), problem
        if now.state_path not in (None, before.state_path) and (problem := self._output(str(now.state_path), ())):
            yield ("state",), problem

    def sources(self, before: PipelineDescription) -> Iterator[_Found]:
        foreign = []
        for name, source in self._description.sources.items():
            key: Key = ("sources", name)
            if name not in before.sources and not _STREAM_NAME.fullmatch(name):
                yield key, "by the API, a stream's name has letters, digits, `.`, `_` and `-`, 64 at most"
            is_foreign = self._known.is_foreign(source)
            for leaf in _leaves(source):
                if leaf.key == (_URI,) and is_url(str(leaf.value)):
                    problem = self._connection(source, str(leaf.value)) if is_foreign else None
                    foreign += [(key, str(leaf.value))] if is_foreign and problem is None else []
                elif leaf.key == (_URI,) and not self._known.has(source, leaf):
                    problem = self._text(str(leaf.value)) or input_problem(str(leaf.value), self._policy.files)
                else:
                    problem = self._value(source, leaf, ())
                if problem:
                    yield (*key, *leaf.key), problem
        yield from self._addresses(foreign)

    def steps(self, before: PipelineDescription) -> Iterator[_Found]:
        for key, element in placed(self._description.steps):
            streams = matching(element.streams, self._description.sources)
            new = tuple(name for name in streams if name not in before.sources)
            for leaf in _leaves(element):
                if leaf.role is PathRole.OUTPUT and self._known.has(element, leaf):
                    problem = self._output_of_new(str(leaf.value), new)
                else:
                    problem = self._value(element, leaf, streams)
                if problem:
                    yield (*key, *leaf.key), problem

    def _connection(self, source: SourceElement, url: str) -> str | None:
        scheme = _scheme(url)
        if problem := self._text(url) or url_problem(url):
            return problem
        if scheme not in self._policy.schemes:
            allowed = ", ".join(sorted(self._policy.schemes))
            return f"the API may name sources at {allowed}: allow {scheme} with --allow-scheme {scheme}"
        try:
            self._policy.confined_source(source)
        except ConfigurationError as error:
            return str(error)
        return None

    def _addresses(self, connections: Sequence[tuple[Key, str]]) -> Iterator[_Found]:
        """Find the sources whose hosts are elsewhere. One whose host is not known now is checked when it connects."""
        found = look_up(dict.fromkeys(hosts_of(url)[0][0] for _, url in connections))
        for key, url in connections:
            host = hosts_of(url)[0][0]
            networks = Networks(self._policy.networks_for(_scheme(url)))
            kinds = {address: networks.refusal(address) for address in found.get(host, ())}
            for address, kind in kinds.items():
                if kind:
                    text = f"{host} is {address} ({kind}), and the API may name addresses in {networks}"
                    yield (*key, _URI), f"{text}: allow it with --allow-network"
                    break

    def _value(self, part: BaseModel, leaf: _Leaf, streams: tuple[str, ...]) -> str | None:
        if self._known.has(part, leaf):
            return None
        if leaf.reach is Reach.CODE:
            return None if self._policy.allow_code else _CODE
        if leaf.reach is Reach.LISTENS:
            return _LISTENS
        if not isinstance(leaf.value, str | Path):
            return None
        text = str(leaf.value)
        if problem := self._text(text):
            return problem
        if isinstance(leaf.value, str) and is_url(text):
            return destination_problem(text, self._policy.hosts)
        if leaf.role is PathRole.OUTPUT:
            return self._output(text, streams)
        if leaf.role is PathRole.INPUT_URI or isinstance(leaf.value, Path):
            roots = (*self._policy.files, store_folder()) if leaf.reach is Reach.MODEL else self._policy.files
            if leaf.reach is Reach.MODEL:
                return model_problem(text, roots, most_bytes=self._policy.largest_model_bytes)
            return input_problem(text, roots)
        return None

    def _output_of_new(self, template: str, streams: tuple[str, ...]) -> str | None:
        """Judge where the files of new streams lie, of an output that the pipeline has: in no link of that name."""
        if _STREAM not in template:
            return None
        for stream in streams:
            try:
                folder = self._outputs.path(f"{template.partition(_STREAM)[0]}x").parent
                path = self._outputs.path(template, stream=stream)
            except OutputError:  # reported by the check of the configuration
                continue
            if problem := output_place_problem(path, folder):
                return problem
        return None

    def _text(self, text: str) -> str | None:
        return _REFERENCE if "${" in text else None

    def _output(self, template: str, streams: tuple[str, ...]) -> str | None:
        if problem := output_name_problem(template):
            return problem
        for stream in streams if _STREAM in template else (None,):
            try:
                path = self._outputs.path(template, stream=stream)
            except OutputError as error:
                return str(error)
            if problem := output_place_problem(path, self._outputs.root):
                return problem
        return None


def _scheme(url: str) -> str:
    return url.partition("://")[0].lower()


def _texts(node: Node, key: Key) -> Iterator[tuple[Key, Scalar]]:
    """Yield every single value of a tree with its key path."""
    if isinstance(node, Scalar):
        yield key, node
    elif isinstance(node, Items):
        for number, item in enumerate(node.items):
            yield from _texts(item, (*key, number))
    else:
        for name, entry in node.entries.items():
            yield from _texts(entry.node, (*key, name))


def _known_text(key: Key, scalar: Scalar) -> tuple[Key, str]:
    return tuple(part for part in key if isinstance(part, str)), scalar.text


def _names_input(key: Key, registry: Registry) -> bool:
    """Whether the text at a key path is what a source reads, in any of the ways in which that is written."""
    if key[:1] != ("sources",) or len(key) not in (2, 3):
        return False
    if len(key) == 2 or key[2] == _URI:
        return True
    if key[2] not in registry.source_names:
        return False
    try:
        fields = registry.source(str(key[2])).model_fields
    except ConfigurationError:  # reported when it is read
        return True
    return _URI in fields and key[2] not in {field.alias or name for name, field in fields.items()}
