"""The reference of the command line: one page per command, made from what click knows, and the pages' index."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points

import click

from sightline.cli.main import COMMANDS, INSTALLED, cli
from tools.docs.reference import PACKAGE, cell, options_table, table

EXIT_CODES: Mapping[int, str] = {
    0: "Done. Also after SIGTERM, when the outputs are complete.",
    1: "Failed while running: a step or a stream failed, or output was lost. `eval`, `models show`, `outbox drain`, "
    "`quantize`, `soak`, `tune` and `verify` also end with it when the answer is no; their pages say when.",
    2: "Wrong configuration, model or usage. Nothing ran.",
    3: "Done, but output was lost at steps with `on_error: skip`.",
    130: "Interrupted with Ctrl-C. The outputs are closed and readable.",
    141: "Nobody reads standard output any more, as behind `| head`. The outputs are closed; nothing is reported.",
}
VARIABLES: Mapping[str, str] = {
    "SIGHTLINE_TOKENS": "File of the tokens that `sightline token` makes. Default: `sightline/tokens.json` in "
    "`XDG_CONFIG_HOME`, else `~/.config/sightline/tokens.json`.",
    "SIGHTLINE_TOKEN": "The only token of `--listen`, instead of those of `sightline token`. Other users of the "
    "machine can see `--token`, but not this. See [Monitoring](../guide/monitoring.md). Clients of a server show it.",
    "SIGHTLINE_CLUSTER_TOKEN": "The secret that all machines of a [cluster](../guide/cluster.md) have: 32 characters "
    "or more.",
    "SIGHTLINE_CLUSTER_MACHINE": "Set by `sightline cluster` for what Ray starts on a machine; not to be set by hand.",
    "SIGHTLINE_URL": "Where the server is that `sightline ctl` and `sightline.client` ask. Default: `http://127.0.0.1:8080`.",
    "SIGHTLINE_CACHE": "Folder for compiled models and kernels; `off` keeps none. Default: `sightline` in "
    "`XDG_CACHE_HOME`, else `~/.cache/sightline`.",
    "SIGHTLINE_PRECISION": "Precision of models whose step names none: `auto`, `fp32`, `bf16`, `fp16` or `int8`. "
    "Default: `auto`. See [Models](../guide/models.md#precision-float32-16-and-8-bits).",
    "SIGHTLINE_GPU_MEMORY_FRACTION": "Part of the free memory of a GPU that a run uses, such as `0.5`; else `0.8`. "
    "See [On a GPU](../guide/gpu.md#memory).",
    "SIGHTLINE_MODELS": "Folder of the [store of models](../guide/store.md). Default: `sightline/models` in "
    "`XDG_DATA_HOME`, else `~/.local/share/sightline/models`.",
    "SIGHTLINE_MODELS_MIRROR": "Where `sightline models pull` takes files from instead of their sources: a URL or a "
    "folder that has `NAME/NAME.onnx`.",
    "HTTPS_PROXY": "Proxy for `sightline models pull`, as for other programs.",
    "XDG_DATA_HOME": "Parent of the store of models, as for other programs.",
    "XDG_CACHE_HOME": "Parent of the cache folder, as for other programs.",
    "CAMERA_USER": "`NAME:PASSWORD` that `sightline camera` asks for, instead of `--user`.",
}
DEVELOPMENT: Mapping[str, str] = {
    "SIGHTLINE_SHARED_DATA": "Folder of the test data that is not part of the repository.",
    "SIGHTLINE_REQUIRE_ALL": "With `1`, a test fails instead of skipping when a part is missing.",
    "SIGHTLINE_LONG": "With `1`, tests that have a longer form run in it, up to hours.",
    "SIGHTLINE_FIGURES": "File to which tests of the fault table write what they measured, with strict limits.",
    "SIGHTLINE_SYSTEM": "System for which the wheel is compiled, such as `Linux-aarch64`; without it, this one.",
    "SIGHTLINE_NULL_GPUS": "How many GPUs the null driver of the tests has in a child process; 1 by default.",
    "SIGHTLINE_SANITIZE_KERNELS": "With `1`, the host build of the kernels is compiled with sanitizers.",
}
INDEX = """# Command line

Generated from the code by `python -m tools.docs`. `sightline COMMAND --help` prints the same for what is installed on
your machine, including commands of other packages.
"""
_METAVARS = {"INTEGER RANGE": "INTEGER", "FLOAT RANGE": "NUMBER", "FLOAT": "NUMBER"}
"""What click calls a value, and the plainer word."""
COMPLETION = """## Completion

[`sightline completion`](completion.md) prints what makes bash, zsh or fish complete commands, options, elements and
files. In bash, add this line to `~/.bashrc`:

```sh
eval "$(sightline completion bash)"
```
"""
STREAMS = """## Standard output and standard error

Standard output carries what you asked for: a list, JSON, a drawing. Progress, logs and errors go to standard error.
Passwords in addresses are replaced by `***` in both.
"""


def commands() -> dict[str, str]:
    """Return the text of every page about the command line by its path below `docs/`."""
    own = own_commands()
    pages = {"commands/index.md": "\n\n".join(part.strip() for part in _index(own)) + "\n"}
    for name, command in own.items():
        pages[f"commands/{name}.md"] = "\n\n".join(part.strip() for part in _page(f"sightline {name}", command)) + "\n"
    return pages


def own_commands() -> dict[str, click.Command]:
    """Return the commands that come with Sightline by name, in the order of the help page."""
    context = click.Context(cli, info_name="sightline")
    found = {name: cli.get_command(context, name) for name in COMMANDS}
    entries = {
        entry.name: entry for entry in entry_points(group=INSTALLED) if entry.dist and entry.dist.name == PACKAGE
    }
    found |= {name: entry.load() for name, entry in sorted(entries.items())}
    return {name: command for name, command in found.items() if command is not None}


def _index(own: Mapping[str, click.Command]) -> Iterator[str]:
    yield INDEX
    yield "## Commands"
    rows = (
        (f"[`sightline {name}`]({name}.md)", cell(COMMANDS.get(name) or command.get_short_help_str(200)))
        for name, command in own.items()
    )
    yield table(("command", "purpose"), rows)
    yield "## Exit codes"
    yield table(("code", "meaning"), ((f"`{code}`", meaning) for code, meaning in EXIT_CODES.items()))
    yield "## Environment variables"
    yield table(("variable", "meaning"), ((f"`{name}`", meaning) for name, meaning in VARIABLES.items()))
    yield (
        "Pipeline files take any other variable as `${NAME}` or `${NAME:-default}`: see "
        "[YAML](../guide/yaml.md#environment)."
    )
    yield "Tests of the project also read these:"
    yield table(("variable", "meaning"), ((f"`{name}`", meaning) for name, meaning in DEVELOPMENT.items()))
    yield STREAMS
    yield COMPLETION


def _page(name: str, command: click.Command, *, level: int = 1) -> Iterator[str]:
    """Yield the parts of a command's page; commands below it follow with lower headings."""
    context = click.Context(command, info_name=name)
    yield f"{'#' * level} {name}"
    yield _prose(command.help or "")
    yield f"```console\n$ {name} {' '.join(command.collect_usage_pieces(context))}\n```"
    options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    if options:
        yield f"{'#' * (level + 1)} Options"
        yield options_table(("option", "default", "meaning"), (_row(option, context) for option in options))
    if command.epilog:
        yield f"```text\n{inspect.cleandoc(command.epilog).replace(chr(8), '').strip()}\n```"
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            if found is not None:
                yield from _page(f"{name} {below}", found, level=level + 1)


def _prose(text: str) -> str:
    """Return help as Markdown: paragraphs as they are, and those that click must not wrap as text blocks."""
    parts = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text).replace("\f", "")):
        kept = paragraph.startswith("\b")
        parts.append(f"```text\n{paragraph.lstrip(chr(8)).strip(chr(10))}\n```" if kept else paragraph)
    return "\n\n".join(parts)


def _row(option: click.Option, context: click.Context) -> tuple[str, str, str]:
    value = "" if option.is_flag else f" {_METAVARS.get(name := option.make_metavar(context), name)}"
    *others, last = option.opts
    names = ", ".join([*(f"`{name}`" for name in others), f"`{cell(last + value)}`"])
    return names, _default(option), cell(_meaning(option))


def _default(option: click.Option) -> str:
    if option.required:
        return "required"
    shown = option.to_info_dict()["default"]
    return "" if option.is_flag or shown is None or shown == () or callable(shown) else f"`{cell(str(shown))}`"


def _meaning(option: click.Option) -> str:
    """Return the help of an option with its limits."""
    parts = [option.help or ""]
    if isinstance(option.type, click.IntRange | click.FloatRange):
        parts.append(f"Range: {option.type._describe_range()}.")  # noqa: SLF001  as in click's own help
    if option.multiple and "epeat" not in parts[0]:
        parts.append("May be repeated.")
    return " ".join(part for part in parts if part)
