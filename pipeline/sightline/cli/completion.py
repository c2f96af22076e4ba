"""`sightline completion`: what makes a shell complete commands, options and files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from sightline.cli.options import debug_option

_WHERE = {
    "bash": 'add `eval "$(sightline completion bash)"` to ~/.bashrc',
    "zsh": 'add `eval "$(sightline completion zsh)"` to ~/.zshrc',
    "fish": "run `sightline completion fish > ~/.config/fish/completions/sightline.fish`",
}


@click.command("completion")
@click.argument("shell", required=False, type=click.Choice(list(_WHERE)))
@debug_option
def command(shell: str | None) -> None:
    """Print the script that makes SHELL (bash, zsh or fish) complete commands, options and files.

    Without SHELL, it is that of the SHELL variable. In bash, add `eval "$(sightline completion bash)"` to ~/.bashrc; in
    zsh, `eval "$(sightline completion zsh)"` to ~/.zshrc; in fish, run `sightline completion fish >
    ~/.config/fish/completions/sightline.fish`.
    """
    from click.shell_completion import get_completion_class

    name = shell or Path(os.environ.get("SHELL", "")).name
    if name not in _WHERE:
        raise click.UsageError(f"give the shell: {', '.join(_WHERE)}")
    kind = get_completion_class(name)
    assert kind is not None
    root = click.get_current_context().find_root().command
    click.echo(kind(root, {}, "sightline", "_SIGHTLINE_COMPLETE").source())
    if sys.stdout.isatty():
        click.echo(f"To use it, {_WHERE[name]}.", err=True)
