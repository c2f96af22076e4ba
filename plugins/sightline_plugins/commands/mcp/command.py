"""`sightline mcp`: let an assistant write, check and try pipelines, by the Model Context Protocol."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sightline.cli.serving import policy_of, policy_options

if TYPE_CHECKING:
    from sightline.server.address import Address
    from sightline_plugins.commands.mcp.tools import ToolOptions


@click.command("mcp", short_help="Let an assistant write, check and try pipelines.")
@click.option(
    "--root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=".",
    help="The folder whose files may be read: pipelines, videos, models. The working directory when not given.",
)
@click.option(
    "--listen",
    "address",
    metavar="ADDRESS",
    help="Serve over HTTP at that address, to who has a token (`sightline token`), instead of standard input.",
)
@click.option("--server", metavar="URL", help="A running server (`run --listen`, `serve`) that may be asked, too.")
@click.option("--allow-changes", is_flag=True, help="Let the assistant change the pipelines of that server.")
@click.option(
    "--allow-variable",
    "names",
    multiple=True,
    metavar="NAME",
    help="An environment variable that configurations may use; none else.",
)
@policy_options
def command(
    root: Path,
    address: str | None,
    server: str | None,
    allow_changes: bool,
    names: tuple[str, ...],
    **allowed: Any,
) -> None:
    """Serve tools to an assistant: list and describe elements, read the documentation, check a pipeline, run it on a
    clip for some seconds and see counts and images, read status and events of a running server.

    Nothing is changed unless --allow-changes says so. What an assistant writes is judged as what comes by the API: it
    may read files below --root and cameras by RTSP, and names no code; what a run writes is gone after it. Needs `pip
    install 'sightline[mcp]'`. Give an assistant the command `sightline mcp --root FOLDER`.
    """
    import os
    from importlib.util import find_spec

    from sightline.errors import MissingExtra
    from sightline.server.address import Address
    from sightline_plugins.commands.mcp.workbench import Workbench

    if find_spec("mcp") is None:
        raise MissingExtra("mcp", extra="mcp", purpose="`sightline mcp`")
    from sightline_plugins.commands.mcp.tools import ToolOptions

    if allow_changes and server is None:
        raise click.UsageError("--allow-changes has a meaning with --server only.")
    policy = policy_of(**allowed)
    variables = {name: os.environ[name] for name in names if name in os.environ}
    os.chdir(root)  # paths in configurations start there
    workbench = Workbench(Path.cwd(), policy=policy, variables=variables)
    options = ToolOptions(workbench, server=server, may_change=allow_changes)
    if address is None:
        _serve_here(options)
    else:
        _listen(options, Address.parse(address))


def _serve_here(options: ToolOptions) -> None:
    from sightline_plugins.commands.mcp.tools import server_of

    server_of(options).run("stdio")


def _listen(options: ToolOptions, address: Address) -> None:
    """Serve over HTTP until it is interrupted. Raises ConfigurationError when nobody could be let in."""
    from sightline_plugins.commands.mcp.access import serve

    serve(options, address, say=lambda text: click.echo(text, err=True))
