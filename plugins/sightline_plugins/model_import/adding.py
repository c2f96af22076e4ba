"""Put a model into the store: copied whole, with a card of its own, judged, and only then there."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

from sightline.errors import ConfigurationError, ModelError
from sightline.graph.outputs import output_error
from sightline_plugins.engines.model_file import external_files
from sightline_plugins.infer.card import read_card, read_labels
from sightline_plugins.model_import.judging import Judged, judge
from sightline_plugins.model_import.package import ModelPackage
from sightline_plugins.store import Store, Stored
from sightline_plugins.store.record import RECORD_FILE, checked_name, checked_version, new_record

_WIDTH = 1000


@dataclass(frozen=True, slots=True)
class Added:
    """A version that was added; `is_new` is false where the same files were there already."""

    stored: Stored
    judged: Judged
    is_new: bool


def add_package(
    package: ModelPackage,
    store: Store,
    *,
    name: str | None = None,
    version: str | None = None,
    settings: Mapping[str, Any] | None = None,
    sha256: str | None = None,
) -> Added:
    """Add a model to the store. `settings` are keys of the card that go before those of the package.

    Nothing is in the store unless the model is: with `sha256` its file has to have that digest, its card has to be
    true, and an engine has to run it. Raises ModelError, ConfigurationError for a wrong name or a version that is there
    with other files, and OutputError where the store cannot be written.
    """
    chosen = package.name if name is None else name
    checked_name(chosen)
    if version is not None:
        checked_version(version)
    card = _card(package, settings or {})
    with store.adding() as folder:
        model = folder / f"{chosen}.onnx"
        try:
            copy_model(package.model, model, sha256=sha256)
            _write_card(model.with_suffix(".yaml"), card, about=f"{chosen}, added from {package.model.name}")
        except OSError as error:
            raise output_error(store.folder / chosen, error, doing="write") from error
        try:
            judged, stated = judge(model), read_card(model)
        except ModelError as error:
            raise ModelError(_in_words_of(package, error, model)) from error
        record = new_record(
            name=chosen,
            task=judged.task,
            model=model.name,
            origin=package.origin,
            added=datetime.now(UTC).isoformat(timespec="seconds"),
            head=judged.head,
            classes=judged.classes,
            licence=stated.licence,
            trained_on=stated.trained_on,
            source=stated.source,
            accuracy=package.accuracy,
            speed=(judged.speed,),
            not_taken_over=package.not_taken_over,
        )
        stored, is_new = store.publish(folder, record, version=version)
    return Added(stored, judged, is_new)


def _card(package: ModelPackage, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the card with the settings, its labels as a list."""
    card = {**package.card, **settings}
    for key in ("input", "nms"):
        if isinstance(settings.get(key), Mapping) and isinstance(package.card.get(key), Mapping):
            card[key] = {**package.card[key], **settings[key]}
    if isinstance(card.get("labels"), str):
        card["labels"] = list(read_labels(Path(card["labels"])))
    return card


def copy_model(source: Path, target: Path, *, sha256: str | None) -> None:
    """Copy a model with the files that hold its weights. Raises OSError, and ModelError for another digest."""
    shutil.copyfile(source, target)
    if sha256 is not None:
        with target.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != sha256.lower():
            raise ModelError(
                f"model {str(source)!r} is another file than --sha256 names: it has {digest[:16]}..., not "
                f"{sha256[:16].lower()}...; nothing was added"
            )
    root = source.parent.resolve()
    for weights in external_files(source):
        place = target.parent / weights.relative_to(root)
        if place.name == RECORD_FILE or place in (target, target.with_suffix(".yaml")):
            raise ModelError(f"model {str(source)!r} keeps weights in {place.name}, a name that the store needs itself")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(weights, place)


def _write_card(path: Path, card: Mapping[str, Any], *, about: str) -> None:
    from ruamel.yaml import YAML

    text, writer = StringIO(), YAML()
    writer.width = _WIDTH
    if card:
        writer.dump(dict(card), text)
    path.write_text(f"# {about}. Written by `sightline models add`.\n{text.getvalue()}", encoding="utf-8")


def _in_words_of(package: ModelPackage, error: ModelError, model: Path) -> str:
    """Return the message with the names of what was given, not those of the copy."""
    text = str(error).replace(str(model.with_suffix(".yaml")), f"of {package.model}")
    return text.replace(str(model), str(package.model))


def known_digest(text: str) -> str:
    """Return a SHA-256 in hexadecimal. Raises ConfigurationError for anything else."""
    if len(text) != hashlib.sha256().digest_size * 2 or not all(one in "0123456789abcdef" for one in text.lower()):
        raise ConfigurationError(f"--sha256 {text}: give the 64 hexadecimal digits of the SHA-256")
    return text.lower()
