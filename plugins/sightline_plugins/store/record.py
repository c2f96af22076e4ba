"""What the store knows of a model: names and versions, and the record that lies beside each one. Data only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from sightline.errors import ConfigurationError, ModelError

RECORD_FILE = "model.json"
SCHEME = "store:"
ENCODER_TASK = "search_index"
"""The step that a pair of encoders is for; others run a model."""
_FORMAT = 1
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_VERSION = re.compile(r"(0|[1-9]\d{0,8})(\.(0|[1-9]\d{0,8})){0,4}")
_PLAIN_FILE = re.compile(r"[^/\\\0]+(/[^/\\\0]+)*")


@dataclass(frozen=True, slots=True)
class Reference:
    """A model of the store by name, and by version where one is asked for: `store:plates@2`, `store:plates`."""

    name: str
    version: str | None = None

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Return what a text with or without `store:` names. Raises ConfigurationError for a wrong name or version."""
        name, at, version = text.removeprefix(SCHEME).partition("@")
        return cls(checked_name(name), checked_version(version) if at else None)

    def __str__(self) -> str:
        return f"{SCHEME}{self.name}" + ("" if self.version is None else f"@{self.version}")


def checked_name(name: str) -> str:
    """Return a name that a model can have. Raises ConfigurationError."""
    if _NAME.fullmatch(name) is None:
        raise ConfigurationError(
            f"{name!r} is no name of a model in the store: lower-case letters, digits, `-`, `_` and `.`, 64 at most, "
            "with a letter or digit first, such as store:plates or store:plates@2"
        )
    return name


def checked_version(version: str) -> str:
    """Return a version that a model can have. Raises ConfigurationError."""
    if _VERSION.fullmatch(version) is None:
        raise ConfigurationError(
            f"{version!r} is no version: numbers with dots between, without leading zeros, such as 2 or 1.4.0"
        )
    return version


def is_name(text: str) -> bool:
    """Whether a text can be a name."""
    return _NAME.fullmatch(text) is not None


def is_version(text: str) -> bool:
    """Whether a text can be a version."""
    return _VERSION.fullmatch(text) is not None


def version_key(version: str) -> tuple[int, ...]:
    """Return what versions are ordered by: number by number, so 1.10 comes after 1.9, and 2 before 2.0."""
    return tuple(map(int, version.split(".")))


class FileRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a version: what it has to be."""

    sha256: str
    bytes: int


class Origin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a model came from: in which form it was added, and the path or address of it."""

    kind: Literal["onnx", "deepstream", "ultralytics", "huggingface", "triton", "tao", "catalogue", "encoders"]
    place: str


class Accuracy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A figure of accuracy, and the data that it was measured on, as far as it is known."""

    what: str
    value: float
    on: str

    def __str__(self) -> str:
        return f"{self.what} {self.value:g}, {self.on}"


class Speed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How fast the network ran when it was added: milliseconds of processor time per image, all cores together."""

    engine: str
    device: str
    precision: str
    milliseconds: float
    size: tuple[int, int]
    processor: str

    def __str__(self) -> str:
        image = f"image of {self.size[0]} x {self.size[1]}"
        where = f"{self.engine} {self.precision} on {self.device} ({self.processor})"
        return f"{self.milliseconds:.3g} ms of processor time per {image}, {where}"


class _Format(msgspec.Struct):
    """What is read of a record before the rest: records of later versions may have other fields."""

    format: int


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The record of one version. `files` are its files by their path in its folder; `model` is the one of them that
    is run. `not_taken_over` says what an import could not take over; `added` is the time in UTC.
    """

    format: int
    name: str
    version: str
    task: str
    model: str
    files: Mapping[str, FileRecord]
    origin: Origin
    added: str
    head: str | None = None
    classes: int | None = None
    licence: str | None = None
    trained_on: str | None = None
    source: str | None = None
    accuracy: tuple[Accuracy, ...] = ()
    speed: tuple[Speed, ...] = ()
    not_taken_over: tuple[str, ...] = ()

    @property
    def reference(self) -> Reference:
        """The name and version that pipelines use."""
        return Reference(self.name, self.version)

    @property
    def usage(self) -> str:
        """The step that uses it, as it stands in a pipeline."""
        key = "encoder" if self.task == ENCODER_TASK else "model"
        return f"{self.task}: {{{key}: {self.reference}}}"

    @property
    def model_sha256(self) -> str:
        """The SHA-256 of the model's file."""
        return self.files[self.model].sha256

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(file.bytes for file in self.files.values())


def new_record(
    *,
    name: str,
    task: str,
    model: str,
    origin: Origin,
    added: str,
    head: str | None = None,
    classes: int | None = None,
    licence: str | None = None,
    trained_on: str | None = None,
    source: str | None = None,
    accuracy: tuple[Accuracy, ...] = (),
    speed: tuple[Speed, ...] = (),
    not_taken_over: tuple[str, ...] = (),
) -> Record:
    """Return the record of a model that is about to be put into the store, which sets its version and files."""
    return Record(
        _FORMAT,
        name,
        "",
        task,
        model,
        {},
        origin,
        added,
        head,
        classes,
        licence,
        trained_on,
        source,
        accuracy,
        speed,
        not_taken_over,
    )


def encoded(record: Record) -> bytes:
    """Return the text of a record's file."""
    return msgspec.json.format(msgspec.json.encode(record)) + b"\n"


def read_record(folder: Path) -> Record:
    """Return the record of a version's folder. Raises ModelError when it is missing, damaged, or of another one."""
    path = folder / RECORD_FILE
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from error
    return decoded(content, Reference(folder.parent.name, folder.name), where=str(path))


def decoded(content: bytes, expected: Reference, *, where: str) -> Record:
    """Return the record that a file holds. Raises ModelError when it is damaged, or not the expected version's."""
    try:
        written_in = msgspec.json.decode(content, type=_Format).format
        if written_in != _FORMAT:
            raise ModelError(f"{where} has format {written_in}, and this version of Sightline reads {_FORMAT}")
        record = msgspec.json.decode(content, type=Record)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{where} is damaged: {error}") from error
    files = all(_PLAIN_FILE.fullmatch(file) and ".." not in Path(file).parts for file in record.files)
    if record.reference != expected or not files or record.model not in record.files:
        raise ModelError(f"{where} does not describe the folder that it lies in")
    return record
