"""Bring versions from one store to another: whole, compared by SHA-256 after the transfer, resumed after a break."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

from sightline.errors import ConfigurationError, ModelError
from sightline.graph.outputs import output_error
from sightline.graph.wording import suggest
from sightline.redaction import redact
from sightline_plugins.store.folder import Store, Stored, link_or_copy
from sightline_plugins.store.places import FolderPlace, Place, Progress, TransferError
from sightline_plugins.store.record import FileRecord, Record, Reference, version_key

_FEW = 12


def open_place(text: str, *, timeout_seconds: float) -> Place:
    """Return the store at a folder, or at `s3://BUCKET/PREFIX`. Asks nothing yet.

    Raises ConfigurationError for another form of address, and MissingExtra where the client of S3 is not installed.
    """
    scheme, mark, _ = text.partition("://")
    if not mark:
        return FolderPlace(Path(text))
    if scheme != "s3":
        raise ConfigurationError(
            f"{redact(text)}: a store is a folder, or a bucket, which is written s3://BUCKET/PREFIX"
        )
    from sightline_plugins.store.bucket import BucketPlace

    return BucketPlace(text, timeout_seconds=timeout_seconds)


def find(reference: Reference, place: Place) -> Record:
    """Return the record of the version that is named, or of the newest one.

    Raises ConfigurationError, with what there is, when it is not there, and ModelError for a record that is damaged.
    """
    versions = sorted(place.versions(reference.name), key=version_key)
    if not versions:
        names = [name for name in place.names() if name != reference.name]
        near = suggest(reference.name, names) or (f"; there: {', '.join(names[:_FEW])}" if names else "")
        raise ConfigurationError(f"there is no model {reference.name!r} in {place.address}{near}")
    version = reference.version or versions[-1]
    if version not in versions:
        raise ConfigurationError(
            f"there is no version {version} of {reference.name!r} in {place.address}; there: "
            f"{', '.join(versions[-_FEW:])}"
        )
    return place.record(reference.name, version)


def push(stored: Stored, place: Place, *, progress: Progress) -> bool:
    """Bring a version to another store; return whether it was not there.

    Raises ModelError for a version that is damaged here, ConfigurationError for one that is there with other files,
    TransferError, and OutputError where a folder cannot be written.
    """
    if stored.damage is not None:
        raise ModelError(stored.damage)
    record = stored.record
    if record.version in place.versions(record.name):
        if _same(place.record(record.name, record.version), record):
            return False
        raise ConfigurationError(
            f"{record.reference} is in {place.address} with other files, and versions never change: add yours under "
            "another version (`sightline models add PATH --version V`) and push that"
        )
    place.put(stored, progress=progress)
    return True


def pull(record: Record, place: Place, store: Store, *, progress: Progress) -> tuple[Stored, bool]:
    """Bring a version from another store; return it, and whether it was not here.

    What has arrived before a break is kept, and the next attempt goes on there. Raises ConfigurationError for a version
    that is here with other files, ModelError for one that is damaged here, TransferError, and OutputError.
    """
    with store.downloading(f"{record.name}@{record.version}") as downloads:
        known = _here(record, place, store)
        if known is not None:
            return known, False
        arrived = {file: _bring(file, record, place, downloads, progress=progress) for file in record.files}
        with store.adding() as folder:
            try:
                for file, source in arrived.items():
                    target = folder / file
                    target.parent.mkdir(parents=True, exist_ok=True)
                    link_or_copy(source, target)
            except OSError as error:
                raise output_error(store.folder / record.name, error, doing="write") from error
            stored, _ = store.publish(folder, record, version=record.version)
        for source in arrived.values():
            with suppress(OSError):
                source.unlink()
    return stored, True


def _here(record: Record, place: Place, store: Store) -> Stored | None:
    """Return the version if it is here already."""
    if record.version not in store.versions(record.name):
        return None
    found = store.usable(record.reference)
    if _same(found.record, record):
        return found
    raise ConfigurationError(
        f"{record.reference} is in the store {store.folder} with other files than in {place.address}, and versions "
        f"never change: remove it (`sightline models remove {record.name}@{record.version}`), or pull into another "
        "store (SIGHTLINE_MODELS)"
    )


def _bring(file: str, record: Record, place: Place, folder: Path, *, progress: Progress) -> Path:
    """Return a file of a version that has arrived whole, kept under its SHA-256."""
    expected = record.files[file]
    whole = folder / expected.sha256
    part = folder / f"{expected.sha256}.part"
    try:
        if whole.is_file() and _is(whole, expected):
            progress(expected.bytes)
            return whole
        place.fetch(record, file, part, progress=progress)
        if not _is(part, expected):
            size = part.stat().st_size
            part.unlink()
            raise TransferError(
                f"{file} of {record.reference} arrived from {place.address} with another content ({size:,} bytes) than "
                f"its record says ({expected.bytes:,} bytes, SHA-256 {expected.sha256[:16]}...): it was removed and "
                "nothing was added. Pull again; if it stays so, the version is damaged there"
            )
        part.replace(whole)
    except OSError as error:
        raise output_error(part, error, doing="write") from error
    return whole


def _is(path: Path, expected: FileRecord) -> bool:
    """Whether a file has this content. Raises OSError."""
    if path.stat().st_size != expected.bytes:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == expected.sha256


def _same(one: Record, other: Record) -> bool:
    return dict(one.files) == dict(other.files)
