"""The options of commands that serve a pipeline, and what they do."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from sightline.pipeline import Pipeline

    Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--listen", "address", metavar="ADDRESS", help="Serve page, metrics and API there: 127.0.0.1:8080."),
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
    click.option("--images", metavar="ID", help="The step whose images the page shows; the last one that draws."),
)


@dataclass(frozen=True, slots=True)
class Serving:
    """What the options said. Raises UsageError when they make no sense together."""

    address: str | None
    token: str | None
    certificate: Path | None
    key: Path | None
    images: str | None

    def __post_init__(self) -> None:
        given = (self.token, self.certificate, self.key, self.images)
        if self.address is None and any(one is not None for one in given):
            raise click.UsageError("--token, --certificate, --key and --images have a meaning with --listen only.")
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
        listener = listen(pipeline, self.address, token=self.token, images=self.images, certificate=certificate)
        if not quiet:
            click.echo(f"listening on {listener.url}", err=True)
        if listener.first_token is not None:
            link = f"{listener.url}?token={listener.first_token}"
            click.echo(f"the page, with the first token, shown this once: {link}", err=True)
        return listener


def serving_options(command: Command) -> Command:
    """Give a command the options; they become the fields of `Serving`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
