"""The options of commands that serve a pipeline, and what they do."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sightline.pipeline import Pipeline
    from sightline.server import Listener
    from sightline.server.policy import Policy

    Command = TypeVar("Command", bound=Callable[..., Any])

_ACCESS = (
    click.option(
        "--token",
        metavar="TOKEN",
        help="The only token, instead of those of `sightline token`. Prefer SIGHTLINE_TOKEN: others see command lines.",
    ),
    click.option(
        "--certificate",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Serve HTTPS by this certificate (PEM).",
    ),
    click.option("--key", type=click.Path(path_type=Path), metavar="FILE", help="The key of the certificate (PEM)."),
)
_POLICY = (
    click.option(
        "--allow-scheme",
        multiple=True,
        type=click.Choice(["http", "https"]),
        help="Let the API add sources of this scheme besides RTSP.",
    ),
    click.option(
        "--allow-network",
        multiple=True,
        metavar="CIDR",
        help="Let the API add sources in this network: loopback, link-local or 169.254.0.0/16 are not allowed else.",
    ),
    click.option(
        "--allow-host", multiple=True, metavar="HOST[:PORT]", help="Let the API add steps that send to this server."
    ),
    click.option(
        "--allow-files",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="FOLDER",
        help="Let the API name files below this folder: videos, models, labels.",
    ),
    click.option("--allow-code", is_flag=True, help="Let the API name Python functions and modules to run."),
)
_OPTIONS = (
    click.option("--listen", "address", metavar="ADDRESS", help="Serve page, metrics and API there: 127.0.0.1:8080."),
    *_ACCESS,
    click.option("--images", metavar="ID", help="The step whose frames are shown; by default the end of all steps."),
    *_POLICY,
)


@dataclass(frozen=True, slots=True)
class Serving:
    """What the options said. Raises UsageError when they make no sense together."""

    address: str | None
    token: str | None
    certificate: Path | None
    key: Path | None
    images: str | None
    allow_scheme: tuple[str, ...]
    allow_network: tuple[str, ...]
    allow_host: tuple[str, ...]
    allow_files: tuple[Path, ...]
    allow_code: bool

    def __post_init__(self) -> None:
        allowed = self.allow_code or any((self.allow_scheme, self.allow_network, self.allow_host, self.allow_files))
        given = any(one is not None for one in (self.token, self.certificate, self.key, self.images))
        if self.address is None and (given or allowed):
            text = "--token, --certificate, --key, --images and --allow-... have a meaning with --listen only."
            raise click.UsageError(text)
        if (self.certificate is None) != (self.key is None):
            raise click.UsageError("--certificate and --key go together.")

    def serve(self, pipeline: Pipeline, *, quiet: bool) -> AbstractContextManager[object]:
        """Serve a pipeline while the block is open, when an address is given."""
        if self.address is None:
            return nullcontext()
        from sightline.server import Certificate, listen

        certificate = None
        if self.certificate is not None and self.key is not None:
            certificate = Certificate(self.certificate, self.key)
        listener = listen(
            pipeline,
            self.address,
            token=self.token,
            images=self.images,
            certificate=certificate,
            policy=policy_of(
                allow_scheme=self.allow_scheme,
                allow_network=self.allow_network,
                allow_host=self.allow_host,
                allow_files=self.allow_files,
                allow_code=self.allow_code,
            ),
        )
        show(listener, quiet=quiet)
        return listener


def policy_of(
    *,
    allow_scheme: Sequence[str],
    allow_network: Sequence[str],
    allow_host: Sequence[str],
    allow_files: Sequence[Path],
    allow_code: bool,
) -> Policy:
    """Return what clients of the API may change, from the options `--allow-...`. Raises BadParameter."""
    from pydantic import ValidationError

    from sightline.server.policy import Policy

    try:
        return Policy.model_validate(
            {
                "schemes": [*Policy().schemes, *allow_scheme],
                "networks": allow_network,
                "hosts": allow_host,
                "files": allow_files,
                "allow_code": allow_code,
            }
        )
    except ValidationError as error:
        first = error.errors()[0]
        names = {"schemes": "scheme", "networks": "network", "hosts": "host", "files": "files"}
        option = f"--allow-{names.get(str(first['loc'][0]), 'code')}"
        raise click.BadParameter(first["msg"].removeprefix("Value error, "), param_hint=option) from error


def show(listener: Listener, *, quiet: bool = False) -> None:
    """Say where the page is; the first token, which nobody can see again, in any case."""
    if not quiet:
        click.echo(f"listening on {listener.url}", err=True)
    if listener.first_token is not None:
        link = f"{listener.url}?token={listener.first_token}"
        click.echo(f"the page, with the first token, shown this once: {link}", err=True)


def access_options(command: Command) -> Command:
    """Give a command the options about who is let in (`token`, `certificate`, `key`), and to what (`policy_of`)."""
    return _with(command, (*_ACCESS, *_POLICY))


def policy_options(command: Command) -> Command:
    """Give a command the options about what clients may name (`policy_of`)."""
    return _with(command, _POLICY)


def serving_options(command: Command) -> Command:
    """Give a command the options; they become the fields of `Serving`."""
    return _with(command, _OPTIONS)


def _with(command: Command, options: Sequence[Callable[[Command], Command]]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command
