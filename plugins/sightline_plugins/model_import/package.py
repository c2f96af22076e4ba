"""A model as it was found, before it is in the store: its file, its card, and what could not be taken over."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline_plugins.infer.card import ModelCard, read_alphabet, read_card, read_labels
from sightline_plugins.store import Accuracy, Origin

_UNSAFE = re.compile(r"[^a-z0-9]+")
_VARIANT = re.compile(r"-(fp16|fp32|float32|b\d+|batch\d+|simplified|sim|pt|pth)$")


@dataclass(frozen=True, slots=True)
class ModelPackage:
    """A model that can be added. `card` has the keys of a model card as plain data; its labels are a list.

    `name` is what it would be called, `accuracy` what its makers measured, and `not_taken_over` says what has no
    counterpart here, or was left to Sightline.
    """

    model: Path
    card: Mapping[str, Any]
    origin: Origin
    name: str
    accuracy: tuple[Accuracy, ...] = ()
    not_taken_over: tuple[str, ...] = ()


def own_card(model: Path) -> dict[str, Any]:
    """Return the card that lies beside a model as plain data, its labels as a list; empty without one.

    Raises ModelError for a card or labels that cannot be read.
    """
    card: ModelCard = read_card(model)
    data: dict[str, Any] = card.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    if isinstance(card.labels, Path):
        data["labels"] = list(read_alphabet(card.labels) if card.task == "read" else read_labels(card.labels))
    return data


def name_of(text: str) -> str:
    """Return a name for the store that is made of a file's or folder's: `YOLOv8n_fp16` becomes `yolov8n`."""
    plain = _UNSAFE.sub("-", text.lower()).strip("-")
    return _VARIANT.sub("", plain)[:64].strip("-") or "model"
