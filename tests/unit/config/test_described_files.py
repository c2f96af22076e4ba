"""Files beside a configuration, such as model cards: each text is read once, and a changed one anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sightline.config import InvalidConfiguration, read_document
from sightline_plugins.infer.card import ModelCard


def test_a_file_is_parsed_once(tmp_path: Path) -> None:
    card = tmp_path / "model.yaml"
    card.write_text("task: detect\n")
    assert read_document(ModelCard, card) is read_document(ModelCard, card)


def test_a_changed_file_is_parsed_anew(tmp_path: Path) -> None:
    card = tmp_path / "model.yaml"
    card.write_text("licence: MIT\n")
    times = card.stat()
    assert read_document(ModelCard, card).licence == "MIT"
    card.write_text("licence: BSD\n")
    os.utime(card, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert read_document(ModelCard, card).licence == "BSD"


def test_files_of_one_text_keep_their_names(tmp_path: Path) -> None:
    for name in ("one.yaml", "two.yaml"):
        (tmp_path / name).write_text("task: nothing\n")
        with pytest.raises(InvalidConfiguration, match=name):
            read_document(ModelCard, tmp_path / name)
