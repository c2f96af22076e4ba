"""The command `sightline`: finds commands by name, imports the one that is called, and turns errors into exit codes.

0 done, 1 failed while running, 2 wrong configuration or usage, 3 done without all of the output that steps may skip,
130 interrupted after the outputs were closed, 141 when nobody reads standard output any more (as a shell tells of
`cat`, which SIGPIPE ends).
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path
from types import TracebackType
from typing import NoReturn

import click

from sightline.cli.options import DEBUG
from sightline.cli.terminal import make_output_visible
from sightline.errors import ConfigurationError, ModelError, ReaderGone, SightlineError
from sightline.installed import installed
from sightline.redaction import redact, shortened

COMMANDS: Mapping[str, str] = {
    "run": "Run a pipeline.",
    "serve": "Run several pipelines, each in a process of its own, in one server.",
    "check": "Say everything that is wrong with a pipeline, without running it.",
    "elements": "List the installed elements and sources, or explain one.",
    "explain": "Print every value of a pipeline, and where it comes from.",
    "graph": "Draw a pipeline.",
    "ctl": "See and steer a pipeline that runs with --listen.",
    "token": "Make, list or remove the tokens of those who may watch and steer.",
    "outbox": "Show, deliver or remove records that wait for destinations.",
    "bench": "Measure how fast a pipeline is, and what holds it back.",
    "doctor": "Say what this installation has, what it lacks, and why.",
    "schema": "Print the JSON Schema of the YAML file, for editors.",
    "completion": "Print what makes a shell complete commands and options.",
}
INSTALLED = "sightline.commands"
"""Entry points of commands that packages add: name = module:command, a click command with a `short_help`."""
FAILED, WRONG, INTERRUPTED, READER_GONE = 1, 2, 130, 141
_SHORT = ("check", "elements", "explain", "graph", "schema", "completion")


class Commands(click.Group):
    """The commands, each imported only when it is called, so that help and completion are quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order in which people meet them; those of other packages follow by name."""
        del ctx
        return [*COMMANDS, *sorted(_installed())]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        del ctx
        if cmd_name in COMMANDS:
            command = import_module(f"sightline.cli.{cmd_name}").command
        elif cmd_name in (installed := _installed()):
            command = installed[cmd_name].load()
        else:
            return None
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a misspelt one is answered with the nearest, or with all."""
        name = args[0]
        if name not in COMMANDS and name not in (known := self.list_commands(ctx)) and not name.startswith("-"):
            near = get_close_matches(name, known, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Commands: {', '.join(known)}."
            ctx.fail(f"No such command {name!r}. {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in the help page; the framework's own commands are not imported for it."""
        others = {name: self.get_command(ctx, name) for name in sorted(_installed())}
        helps = {name: command.get_short_help_str(80) for name, command in others.items() if command is not None}
        with formatter.section("Commands"):
            formatter.write_dl([*COMMANDS.items(), *helps.items()])


def _installed() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in installed(INSTALLED)}


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    del param
    if value:
        from importlib.metadata import version

        click.echo(f"sightline {version('sightline')}")
        ctx.exit()


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "color": True}
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
def cli() -> None:
    """Video analytics pipelines: decode, detect, track, count, draw and record, from YAML."""


def execute(arguments: Sequence[str], command: click.Command = cli) -> int:
    """Run a command and return its exit code; expected errors are one message on standard error."""
    try:
        code = command.main(list(arguments), prog_name="sightline", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return WRONG
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        return _without_reader()
    except SightlineError as error:
        if DEBUG.wanted:
            raise
        if _is_reader_gone(error):
            return _without_reader()
        _say(_as_text(error))
        return WRONG if isinstance(error, ConfigurationError | ModelError) else FAILED
    except OSError as error:
        if DEBUG.wanted:
            raise
        where = f"{error.filename}: " if error.filename else ""
        _say(f"error: {redact(where)}{error.strerror or redact(error)}")
        return FAILED
    return code if isinstance(code, int) else 0


def _is_reader_gone(error: BaseException | None) -> bool:
    """Whether an error comes of standard output that nobody reads."""
    while error is not None and not isinstance(error, ReaderGone):
        error = error.__cause__
    return error is not None


def _without_reader() -> int:
    """Return the exit code; what Python still holds for standard output goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return READER_GONE


def main() -> NoReturn:
    """The entry point of the command."""
    if sys.argv[1:2] and sys.argv[1] in _SHORT:
        _collect_no_garbage()
    prepare()
    sys.exit(execute(sys.argv[1:]))


def prepare() -> None:
    """Make this process one of the program: what it prints cannot steer the terminal, and errors are short."""
    sys.excepthook = _say_internal_error
    _replace_closed_streams()
    make_output_visible()
    if sys.path[0] != "":  # so that `apply: my_module:function` finds a module in the working directory
        sys.path.insert(0, str(Path.cwd()))


def _collect_no_garbage() -> None:
    """Leave garbage to the end of the process, which comes soon: looking for it takes a sixth of the time of `check`.

    What is frozen before the interpreter ends is not looked at then, either.
    """
    gc.disable()
    atexit.register(gc.freeze)


def _replace_closed_streams() -> None:
    """Standard output or error may be closed (`>&-`): what is written there then goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115  open to the end


def _as_text(error: SightlineError) -> str:
    """The message; a list of mistakes speaks for itself."""
    return redact(error) if hasattr(error, "problems") else f"error: {shortened(redact(error))}"


def _say(text: str) -> None:
    """Print on standard error. With colour, click leaves escape sequences in the text, so that they become visible."""
    click.echo(text, err=True, color=True)


def _say_internal_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """What an exception that nobody expected looks like: one line, unless `--debug` asks for more. Exit code 1."""
    if DEBUG.wanted:
        sys.__excepthook__(kind, error, trace)
    else:
        text = " ".join(redact(error).split())
        _say(f"internal error: {kind.__name__}: {text} (--debug shows the traceback)")


if __name__ == "__main__":
    main()
