"""What the commands below `sightline ctl` share: the server, options, completion, and how things are printed."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from sightline.api import Changed
    from sightline.client import PipelineClient

_COMPLETION_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Server:
    """Which pipeline of which server is meant."""

    url: str | None
    token: str | None
    pipeline: str | None
    ca_file: Path | None

    @contextmanager
    def open(self, *, timeout_seconds: float = 30.0) -> Iterator[PipelineClient]:
        """Connect. Raises ClientError, ConfigurationError."""
        from sightline.client import Client

        client = Client(self.url, token=self.token, ca_file=self.ca_file, timeout_seconds=timeout_seconds)
        with client:
            yield client.pipeline(self.pipeline)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
server_of_context = click.make_pass_decorator(Server)
prove_option = click.option(
    "--prove", type=click.FloatRange(0, 300), metavar="SECONDS", help="Wait until the change has worked for this time."
)


def _names(list_names: Callable[[PipelineClient], list[str]]) -> Callable[..., list[str]]:
    """Make what completes an argument by asking the server; nothing when it does not answer soon."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        del parameter
        from sightline.errors import SightlineError

        given = {} if context.parent is None else context.parent.params
        server = Server(*(given.get(name) for name in ("url", "token", "pipeline", "ca_file")))
        with suppress(SightlineError), server.open(timeout_seconds=_COMPLETION_SECONDS) as pipeline:
            return [name for name in list_names(pipeline) if name.startswith(incomplete)]
        return []

    return complete


stream_names = _names(lambda pipeline: [one.name for one in pipeline.streams()])
rule_names = _names(lambda pipeline: [f"{one.element}/{one.name}" for one in pipeline.rules()])
element_names = _names(lambda pipeline: [one.id for one in pipeline.elements()])


def print_json(value: object) -> None:
    """Print answers of the server as JSON."""
    click.echo(json.dumps(_plain(value), indent=2))


def tell(changed: Changed, text: str, *, as_json: bool) -> None:
    """Print what became of a change: as JSON, or a sentence on standard error."""
    if as_json:
        print_json(changed)
    else:
        how = "" if changed.proven else "; it is taken back if the pipeline is not well in the next seconds"
        click.echo(f"{text}: configuration {changed.etag}{how}", err=True)


def mapping(text: str | None, file: io.TextIOBase | None, hint: str) -> dict[str, Any]:
    """Read options from an argument or a file. Raises UsageError."""
    if (text is None) == (file is None):
        raise click.UsageError(f"give either {hint} or --file.")
    found = value_of(text if file is None else file.read(), hint)
    if not isinstance(found, dict):
        raise click.BadParameter("give options in braces, as in YAML or JSON.", param_hint=hint)
    return found


def value_of(text: str | None, hint: str) -> Any:
    """Read a value as in YAML. Raises BadParameter."""
    from sightline.config.document import plain
    from sightline.config.yaml_tree import parse

    document = parse(text or "", name=hint)
    if document.problems or document.root is None:
        raise click.BadParameter("; ".join(one.message for one in document.problems) or "it is empty.", param_hint=hint)
    return plain(document.root)


def short(value: object) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {short(one)}" for name, one in value.items())
    return value if isinstance(value, str) else json.dumps(value)


def _plain(value: object) -> Any:
    from pydantic import BaseModel

    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value
