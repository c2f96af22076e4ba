"""The models of the catalogue on this machine: versions in the store, each with model, card, labels and licence."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from sightline.errors import ModelError
from sightline.graph.outputs import output_error
from sightline_plugins.catalogue.entries import Entry, entry_names, find_entry
from sightline_plugins.store import Accuracy, Origin, Store, Stored
from sightline_plugins.store.folder import link_or_copy
from sightline_plugins.store.record import new_record

LICENCE_FILE = "licence.txt"


def pulled(name: str) -> Path | None:
    """Return the model file of an entry that is on this machine; None where it is not. Its content is not read."""
    if name not in entry_names():
        return None
    store, entry = Store(), find_entry(name)
    for version in reversed(store.versions(name)):
        with suppress(ModelError):
            found = store.stored(name, version)
            if found.record.origin == _origin(entry) and found.torn is None:
                return found.model
    return None


def keep(entry: Entry, file: Path) -> Stored:
    """Move the file of an entry into the store, with its card, labels and licence.

    The file stays where it is until the version is there, so that the next attempt need not bring it again. Raises
    OutputError.
    """
    store = Store()
    with store.adding() as folder:
        try:
            link_or_copy(file, folder / entry.model_file)
            write_beside(folder, entry.name)
        except OSError as error:
            raise output_error(store.folder / entry.name, error, doing="write") from error
        record = new_record(
            name=entry.name,
            task=entry.task,
            model=entry.model_file,
            origin=_origin(entry),
            added=datetime.now(UTC).isoformat(timespec="seconds"),
            head=entry.card.get("head"),
            classes=len(entry.classes) or None,
            licence=str(entry.licence),
            trained_on=entry.trained_on,
            source=entry.source,
            accuracy=tuple(Accuracy(one.what, one.value, one.on) for one in entry.measured),
        )
        stored, _ = store.publish(folder, record, version=None)
    with suppress(OSError):
        file.unlink()
    return stored


def _origin(entry: Entry) -> Origin:
    return Origin("catalogue", entry.url)


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
