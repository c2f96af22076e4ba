"""The catalogue holds facts: fixed addresses, digests, licences, and cards that the plan of a step can read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sightline_plugins.catalogue import entries, entry_names, find_entry, pulled
from sightline_plugins.catalogue.storage import write_beside
from sightline_plugins.heads.registry import find_head
from sightline_plugins.infer.card import read_card

NAMES = entry_names()


def test_there_are_models_for_every_need() -> None:
    tasks = {entry.task for entry in entries().values()}

    assert len(NAMES) >= 12
    assert tasks == {"detect", "read", "segment", "embed", "classify", "pose"}
    assert any("face" in entry.classes for entry in entries().values())
    assert len([entry for entry in entries().values() if "person" in entry.classes and entry.task == "detect"]) >= 3


@pytest.mark.parametrize("name", NAMES)
def test_an_address_names_a_commit_or_an_archive_with_its_digest(name: str) -> None:
    entry = find_entry(name)

    fixed = r"https://[^/]+/.*/[0-9a-f]{40}/.+\.onnx$" if entry.archive is None else r"https://[^/]+/.+\.zip$"
    assert re.match(fixed, entry.url)
    assert entry.licence.code
    assert entry.licence.weights
    assert entry.trained_on


@pytest.mark.parametrize("name", NAMES)
def test_no_licence_forbids_products(name: str) -> None:
    licence = find_entry(name).licence

    assert {licence.code, licence.weights} <= {"Apache-2.0", "BSD-3-Clause", "MIT"}


@pytest.mark.parametrize("name", NAMES)
def test_the_card_that_is_written_beside_the_file_can_be_read(tmp_path: Path, name: str) -> None:
    entry = find_entry(name)
    write_beside(tmp_path, name)

    card = read_card(tmp_path / entry.model_file)

    assert card.task == entry.task
    assert card.trained_on == entry.trained_on
    assert card.head is None or find_head(card.head, entry.task) is not None
    if isinstance(card.labels, Path):
        assert card.labels.parent == tmp_path
        assert card.labels.is_file()
    assert entry.url in (card.source or "")


def test_coco_has_80_classes_and_imagenet_1000() -> None:
    assert len(find_entry("yolox-nano").classes) == len(set(find_entry("yolox-nano").classes)) == 80
    assert len(find_entry("squeezenet").classes) == 1000


def test_what_was_not_pulled_is_not_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGHTLINE_MODELS", str(tmp_path))

    assert pulled("yolox-nano") is None
    assert pulled("no-such-model") is None
