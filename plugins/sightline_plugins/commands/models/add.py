"""`sightline models add`: put a model into the store, from a file or from what other tools leave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sightline.cli.options import debug_option
from sightline_plugins.commands.model_step import parse_settings
from sightline_plugins.commands.models.store_options import store_of, store_option

if TYPE_CHECKING:
    from sightline_plugins.model_import.adding import Added
    from sightline_plugins.store import Store

_FEW_LABELS = 8
_MB = 1e6


@click.command("add", short_help="Put a model into the store: a file, or the folder of another tool.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--name", metavar="NAME", help="What to call it. Default: after the file.")
@click.option("--version", metavar="V", help="Its version, such as 2 or 1.4.0. Default: one after the newest.")
@click.option("--licence", metavar="TEXT", help="Its licence, where neither card nor file states it.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="A key of its card, such as head=yolox or labels=FILE.",
)
@click.option("--sha256", metavar="DIGEST", help="Refuse another file than the one with this SHA-256.")
@store_option
@debug_option
def add(
    path: Path,
    name: str | None,
    version: str | None,
    licence: str | None,
    settings: tuple[str, ...],
    sha256: str | None,
    store_folder: Path | None,
) -> None:
    """Put the model at PATH into the store, for `model: store:NAME@VERSION` in pipelines.

    PATH is an ONNX file, with or without its card; a configuration of DeepStream's nvinfer
    (config_infer_primary.txt) or the folder that it is in, with ONNX file and labels; the folder of an Ultralytics
    export or training run; a folder of Hugging Face (config.json, preprocessor_config.json, model.onnx or
    onnx/model.onnx); a model of a Triton repository (config.pbtxt, 1/model.onnx); or the folder of an export of TAO
    (nvinfer_config.txt, labels.txt). Each becomes a model with a card, and what could not be taken over is listed.

    PATH may also be a pair of encoders for `search_index: {encoder: store:NAME}`: a folder with vision_model.onnx,
    text_model.onnx, preprocessor_config.json and tokenizer.json.

    The model is copied, its card is compared with its graph, and the network runs once on an image of noise. A file
    that is torn, a card that is not true or a full disk is one error, and nothing of the model is in the store. A
    version never changes; the same files again are the version that is there.
    """
    from sightline.errors import ConfigurationError
    from sightline_plugins.model_import.adding import add_package, known_digest
    from sightline_plugins.model_import.encoders import add_encoder, is_encoder
    from sightline_plugins.model_import.find import read_package

    store = store_of(store_folder)
    digest = None if sha256 is None else known_digest(sha256)
    if is_encoder(path):
        if settings:
            raise ConfigurationError("--set is for keys of a card, and a pair of encoders has none")
        pair = add_encoder(path, store, name=name, version=version, licence=licence, sha256=digest)
        click.echo("\n".join(_told(pair, store)))
        return
    given = {**parse_settings(settings), **({} if licence is None else {"licence": licence})}
    package = read_package(path)
    added = add_package(package, store, name=name, version=version, settings=given, sha256=digest)
    click.echo("\n".join(_told(added, store)))


def _told(added: Added, store: Store) -> Iterator[str]:
    from sightline_plugins.store import Store

    record, judged = added.stored.record, added.judged
    state = "" if added.is_new else " (was there: the same files)"
    yield f"{record.reference}{state}: {added.stored.model}, {record.bytes / _MB:.1f} MB"
    yield f"  step      {judged.task}: {judged.reason}"
    if judged.head is not None:
        yield f"  head      {judged.head}"
    if judged.labels:
        more = len(judged.labels) - _FEW_LABELS
        names = ", ".join(judged.labels[:_FEW_LABELS])
        yield f"  labels    {len(judged.labels)}: {names}" + (f", and {more} more" if more > 0 else "")
    yield f"  licence   {record.licence or 'not stated: give it with --licence'}"
    yield f"  SHA-256   {record.model_sha256}"
    yield f"  from      {record.origin.place} ({record.origin.kind})"
    for figure in record.accuracy:
        yield f"  accuracy  {figure}"
    yield f"  speed     {judged.speed}"
    for doubt in judged.doubts:
        yield f"  look at   {doubt}"
    if record.not_taken_over:
        yield "  not taken over"
        yield from (f"    - {text}" for text in record.not_taken_over)
    yield f"  use it with `{record.usage}`" + (
        "" if store.folder == Store().folder else f" and SIGHTLINE_MODELS={store.folder}"
    )
