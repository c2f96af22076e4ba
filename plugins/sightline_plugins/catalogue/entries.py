"""The entries of the catalogue, as the files in `data/` describe them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from sightline.config import read_document
from sightline.graph.described import Described

DATA = Path(__file__).resolve().parent / "data"
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Licence(Described):
    """The licences of the code and of the weights, which may differ."""

    code: str
    """Licence of the code that the model comes from."""
    weights: str
    """Licence of the weights themselves."""

    def __str__(self) -> str:
        return self.code if self.code == self.weights else f"code {self.code}, weights {self.weights}"


class Measurement(Described):
    """A figure that was measured with Sightline."""

    what: str
    """What was measured, such as `AP`."""
    value: float
    """The figure."""
    on: str
    """The data that it was measured on."""
    tested: bool = True
    """Whether a test holds the model to it; else it was measured once, because the file is not in the test data."""

    def __str__(self) -> str:
        return f"{self.what}: {self.value:g}, on {self.on}{'' if self.tested else ' (measured once)'}"


class Archive(Described):
    """The zip that a model is a member of; `url` is then that of the zip."""

    member: str
    """The path of the model in it."""
    sha256: Digest
    """The SHA-256 of the zip."""
    bytes: Annotated[int, Field(gt=0)]
    """The size of the zip."""


class EntryFile(Described):
    """What a file in `data/` holds."""

    summary: str
    """What it is for, in one line."""
    task: Literal["detect", "segment", "pose", "classify", "embed", "read"]
    """The element that takes it."""
    url: str
    """Where the file is: at a fixed commit, or a zip whose content is fixed by its SHA-256."""
    archive: Archive | None = None
    """The zip that it lies in, if it does."""
    sha256: Digest
    """The SHA-256 of the file."""
    bytes: Annotated[int, Field(gt=0)]
    """The size of the file."""
    licence: Licence
    """What may be done with it."""
    trained_on: str
    """What it was trained on, and what is known of that data's licence."""
    source: str
    """The repository that the file comes from, and the one that it was made in."""
    measured: tuple[Measurement, ...] = ()
    """What was measured; empty where the file was not at hand: then the card follows the authors' own code."""
    card: Mapping[str, Any]
    """The model card that is written beside the file; `labels` may name a file in `data/`."""


class Entry(EntryFile):
    """A model of the catalogue."""

    name: str
    """The name that `model:` takes."""
    classes: tuple[str, ...] = ()
    """The labels of its classes; empty where it has none, and for symbols of text."""

    @property
    def model_file(self) -> str:
        """The name of the model's file on this machine."""
        return f"{self.name}.onnx"

    @property
    def labels_file(self) -> Path | None:
        """The file with labels in `data/` that the card names; None where it lists them or has none."""
        labels = self.card.get("labels")
        return DATA / labels if isinstance(labels, str) else None


def entry_names() -> tuple[str, ...]:
    """Return the names of all entries, in the order of the catalogue; reads no file."""
    return tuple(_files())


def entries() -> Mapping[str, Entry]:
    """Return all entries by name, in the order of the catalogue: for each task the first choice goes first."""
    return {name: find_entry(name) for name in _files()}


@cache
def find_entry(name: str) -> Entry:
    """Return the entry of that name. Raises KeyError when there is none."""
    path = _files()[name]
    file = read_document(EntryFile, path)
    labels: Any = file.card.get("labels", ())
    if isinstance(labels, str):
        labels = (DATA / labels).read_text("utf-8").removesuffix("\n").split("\n")
    classes = () if file.task == "read" else tuple(map(str, labels))
    return Entry(**file.model_dump(), name=name, classes=classes)


@cache
def _files() -> Mapping[str, Path]:
    """Return the files by name; their names begin with a number that gives the order."""
    return {path.stem.partition("-")[2]: path for path in sorted(DATA.glob("*-*.yaml"))}
