"""The page of the catalogue of models: made of the entries, so that it states what the code does."""

from __future__ import annotations

from collections.abc import Iterator

from sightline_plugins.catalogue import Entry, entries
from tools.docs.reference import table

PAGE = "guide/catalogue.md"
_INTRODUCTION = """# Catalogue of models

Generated from `plugins/sightline_plugins/catalogue/data/` by `python -m tools.docs`.

Models whose code and weights may be used in products, each at a fixed commit and with its SHA-256. They are neither
in the repository nor in the package; `sightline models pull` downloads one when you ask for it:

```console
$ sightline models list
$ sightline models pull yolox-nano
```

Then `detect: {model: yolox-nano}` takes it: the file, its card and its labels are a version in the
[store](store.md) (`~/.local/share/sightline/models`, or the folder that `SIGHTLINE_MODELS` names). A
file of that name beside the pipeline goes first. Nothing is downloaded by `run` or `check`: a model that is not on
the machine is a mistake, with the command that brings it.

A download goes on where it broke off, is checked by size and SHA-256, and leaves nothing half there. Proxies are
those of the environment (`HTTPS_PROXY`, `NO_PROXY`). `SIGHTLINE_MODELS_MIRROR` names a mirror, a URL or a folder that
has `NAME/NAME.onnx`; `--from FOLDER` takes the files from a folder, for machines without a network. The licence is
shown and asked for once; `--accept-licence` accepts it in scripts.

**What a licence does not say**: whether a model that was trained on data for research may be used for what you do.
The table says what each was trained on, as far as it is known. The figures are those that this project's tests hold
the models to, on public photographs; where there is none, the file was not at hand: its card follows the code of its
authors, and `sightline verify` compares it with a plain reference on your machine.

No model for number plates is in the list: none was found that is free to use, has a fixed source with a known digest,
and is read by a [head](models.md) of Sightline.
"""


def catalogue() -> dict[str, str]:
    """Return the page by its path below `docs/`."""
    return {PAGE: "\n".join(_page()) + "\n"}


def _page() -> Iterator[str]:
    yield _INTRODUCTION
    steps = dict.fromkeys(entry.task for entry in entries().values())
    for step in steps:
        yield f"## For `{step}`\n"
        rows = (_row(entry) for entry in entries().values() if entry.task == step)
        yield table(("name", "what for", "MB", "measured", "trained on", "licence"), rows)
        yield ""
    yield "## Sources\n"
    yield table(
        ("name", "source", "SHA-256"),
        ((f"`{one.name}`", _source(one), f"`{one.sha256}`") for one in entries().values()),
    )


def _row(entry: Entry) -> tuple[str, ...]:
    measured = "; ".join(map(str, entry.measured)) or "not measured"
    size = f"{entry.bytes / 1e6:.1f}"
    return (f"`{entry.name}`", entry.summary, size, measured, entry.trained_on, str(entry.licence))


def _source(entry: Entry) -> str:
    return f"[{entry.source}]({entry.url})"
