"""The models of the catalogue on this machine: one folder each, with model, card, labels and licence."""

from __future__ import annotations

from pathlib import Path

from sightline.cache import catalogue_folder
from sightline_plugins.catalogue.entries import Entry, entry_names, find_entry

LICENCE_FILE = "licence.txt"


def entry_folder(name: str) -> Path:
    """Return the folder of an entry on this machine."""
    return catalogue_folder() / name


def pulled(name: str) -> Path | None:
    """Return the model file of an entry that is on this machine; None where it is not. Its content is not read."""
    if name not in entry_names():
        return None
    path = entry_folder(name) / f"{name}.onnx"
    return path if path.is_file() and path.with_suffix(".yaml").is_file() else None


def write_beside(folder: Path, name: str) -> None:
    """Write card, labels and licence of an entry into the folder that has, or will have, its model. Raises OSError."""
    from io import StringIO

    from ruamel.yaml import YAML

    entry = find_entry(name)
    card = {
        "task": entry.task,
        **entry.card,
        "trained_on": entry.trained_on,
        "licence": str(entry.licence),
        "source": f"{entry.source} ({entry.url})",
    }
    text = StringIO()
    writer = YAML()
    writer.width = 1000
    writer.dump(card, text)
    head = f"# {entry.name}: {entry.summary}. Written by `sightline models pull`.\n"
    (folder / f"{name}.yaml").write_text(head + text.getvalue(), encoding="utf-8")
    if entry.labels_file is not None:
        (folder / entry.labels_file.name).write_bytes(entry.labels_file.read_bytes())
    (folder / LICENCE_FILE).write_text(licence_text(entry), encoding="utf-8")


def licence_text(entry: Entry) -> str:
    """Return what has to be accepted before a model is used."""
    return (
        f"{entry.name}: {entry.source}\n{entry.url}\n"
        f"Licence of the code: {entry.licence.code}\nLicence of the weights: {entry.licence.weights}\n"
        f"Trained on: {entry.trained_on}\n"
    )
