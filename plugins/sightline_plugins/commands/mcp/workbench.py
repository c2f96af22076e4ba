"""What an assistant may ask about a configuration: is it right, what does it mean, and may it run here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, Field

from sightline.config import InvalidConfiguration, LocatedProblem, Place, check_description, description_from
from sightline.config.document import Entry, Items, Node, Scalar, Table, dotted
from sightline.config.environment import Environment
from sightline.config.spans import located
from sightline.config.yaml_tree import parse
from sightline.errors import ConfigurationError
from sightline.graph import Outputs, PipelineDescription, Registry
from sightline.graph.advice import advice_of
from sightline.redaction import redact
from sightline.server.policy import Policy

_GIVEN = "the configuration"
_SUFFIXES = (".yaml", ".yml")
_MOST_BYTES = 1 << 20
MOST_SECONDS = 120.0
MOST_IMAGES = 8
_NOTHING = PipelineDescription(sources={})


@dataclass(frozen=True, slots=True)
class Judged:
    """A configuration that may run, and advice about it."""

    name: str
    description: PipelineDescription
    advice: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: the key path of the value, its line and column (from 1; 0 for none), and what is wrong."""

    path: str
    line: int
    column: int
    message: str


class RunRequest(BaseModel):
    """What to run: `seconds` of each stream, for `wall_seconds` on the clock at most, with `images` of each stream."""

    name: str
    text: str
    root: Path
    policy: Policy
    variables: dict[str, str]
    seconds: float = Field(gt=0, le=MOST_SECONDS)
    wall_seconds: float = Field(gt=0)
    images: int = Field(ge=0, le=MOST_IMAGES)


class Workbench:
    """Reads configurations for assistants, which are trusted with the files below one folder and with nothing else.

    What a configuration names is judged by the policy of the API (`sightline.server.policy`) before anything of it is
    used. Relative paths start at the folder, which has to be the working directory, and in a file at the file's.
    `variables` are those of the environment that configurations may use; others are refused.
    """

    def __init__(self, root: Path, *, policy: Policy, variables: Mapping[str, str]) -> None:
        self.root = root.resolve()
        self.policy = policy.model_copy(update={"files": (self.root, *policy.files)})
        self.variables = variables
        self.registry = Registry()

    def text_of(self, configuration: str) -> tuple[str, str]:
        """Return name and text of a configuration: what was given, or what stands in the file below the root that was
        named. Raises ConfigurationError.
        """
        if "\n" in configuration or not configuration.strip().endswith(_SUFFIXES):
            return _GIVEN, configuration
        path = self.file(configuration.strip())
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ConfigurationError(f"{configuration}: cannot be read: {error.strerror}") from error
        if len(data) > _MOST_BYTES:
            raise ConfigurationError(f"{configuration} has {len(data):,} bytes, and {_MOST_BYTES:,} are allowed")
        return configuration.strip(), data.decode("utf-8", "replace")

    def file(self, name: str) -> Path:
        """Return the path of a file below the root, links followed. Raises ConfigurationError for any other."""
        try:
            path = (self.root / name).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise ConfigurationError(f"{name!r} is no path: {error}") from error
        if not path.is_relative_to(self.root):
            raise ConfigurationError(f"{name} is not below {self.root}")
        return path

    def judged(self, configuration: str) -> Judged:
        """Return what a configuration describes, as `judged_text` does; it may be the name of a file."""
        return self.judged_text(*self.text_of(configuration), outputs=self.root)

    def judged_text(self, name: str, text: str, *, outputs: Path) -> Judged:
        """Return what a configuration describes, when it has no mistake and names nothing that an assistant may not.

        Outputs are meant below `outputs`. Raises InvalidConfiguration with every mistake and its place in the text.
        """
        document = parse(text, name=name)
        root: Node = document.root or Scalar(Place(name, 1, 1), None)
        environment = Environment(self.variables)
        folder = (self.root / name).parent if name != _GIVEN else self.root
        filled = _without_dots(environment.fill(root), folder)
        known = self._references(environment.problems)
        if document.problems or known:
            raise InvalidConfiguration([*document.problems, *known])
        try:
            return Judged(name, *self._described(filled, folder, Outputs(outputs)))
        except InvalidConfiguration as error:
            raise self._hidden(located(error.problems, root), environment) from None

    def _described(self, root: Node, folder: Path, outputs: Outputs) -> tuple[PipelineDescription, tuple[str, ...]]:
        judged = self.policy.text_problems(root, registry=self.registry)
        if judged:
            raise InvalidConfiguration(judged)
        given = description_from(root, base_folder=folder, outputs=outputs, registry=self.registry, checked=False)
        admitted = self.policy.admitted(given, changed_from=_NOTHING, outputs=outputs)
        if problems := check_description(admitted, outputs=outputs, registry=self.registry):
            raise InvalidConfiguration(problems)
        return admitted, tuple(advice_of(admitted))

    def _references(self, problems: list[LocatedProblem]) -> list[LocatedProblem]:
        """Tell a variable that is not given to assistants from one that is not set."""
        found = []
        for problem in problems:
            withheld = next((name for name in os.environ if f"variable {name} is not set" in problem.message), None)
            if withheld is not None:
                text = f"the environment variable {withheld} is not given to assistants: allow it with --allow-variable"
                problem = LocatedProblem(problem.place, problem.key, text)
            found.append(problem)
        return found

    @staticmethod
    def _hidden(error: InvalidConfiguration, environment: Environment) -> InvalidConfiguration:
        return InvalidConfiguration(
            [LocatedProblem(one.place, one.key, environment.hide(one.message)) for one in error.problems]
        )


def _without_dots(node: Node, folder: Path) -> Node:
    """Return a tree in which paths that lead up (`../videos/gate.mp4`) are absolute, as the policy judges them."""
    if isinstance(node, Items):
        return replace(node, items=tuple(_without_dots(item, folder) for item in node.items))
    if isinstance(node, Table):
        entries = {name: Entry(one.key_place, _without_dots(one.node, folder)) for name, one in node.entries.items()}
        return replace(node, entries=entries)
    if ".." not in node.text.split("/") or "://" in node.text:
        return node
    path = os.path.normpath(folder / node.text)
    return replace(node, value=path, text=path)


def problems_of(error: ConfigurationError) -> list[Problem]:
    """Return the mistakes as plain values, without secrets."""
    if not isinstance(error, InvalidConfiguration):
        return [Problem("", 0, 0, redact(str(error)))]
    return [Problem(dotted(one.key), one.place.line, one.place.column, redact(one.message)) for one in error.problems]
