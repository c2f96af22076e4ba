"""The quantised file of a model is the one beside it, made from exactly this model."""

from __future__ import annotations

import hashlib
from pathlib import Path

import onnx
import pytest

from sightline.errors import ModelError
from sightline_plugins.infer.card import read_card
from sightline_plugins.infer.precision import file_digest, find_quantized
from tests.unit.engines.graphs import small_network
from tests.unit.engines.quantized_graphs import two_branches
from tests.unit.infer.precision.quantized_pair import write_pair


def test_the_file_beside_the_model_is_found_with_its_note(tmp_path: Path) -> None:
    model = write_pair(tmp_path, lost_points=0.25)

    found = find_quantized(model)

    assert found.path == tmp_path / "small.int8.onnx"
    assert (found.note.measure, found.note.lost_points, found.note.is_within_budget) == ("AP", 0.25, True)


def test_a_missing_file_is_reported_with_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"small\.int8\.onnx is missing.*sightline quantize .*small\.onnx --frames"):
        find_quantized(tmp_path / "small.onnx")


def test_a_model_that_was_trained_again_wants_a_new_quantised_file(tmp_path: Path) -> None:
    model = write_pair(tmp_path)
    onnx.save(small_network(size_wh=(64, 64)), model)

    with pytest.raises(ModelError, match=r"was made from another small\.onnx .*make it again"):
        find_quantized(model)


def test_other_weights_in_a_file_beside_the_model_want_a_new_quantised_file(tmp_path: Path) -> None:
    model = tmp_path / "small.onnx"
    onnx.save(small_network(), model, save_as_external_data=True, location="small.weights", size_threshold=0)
    before = file_digest(model)
    weights = tmp_path / "small.weights"

    weights.write_bytes(bytes(weights.stat().st_size))

    assert file_digest(model) != before


def test_the_digest_of_a_model_in_one_file_is_that_of_the_file(tmp_path: Path) -> None:
    model = write_pair(tmp_path)

    assert file_digest(model) == hashlib.sha256(model.read_bytes()).hexdigest()


def test_a_file_from_elsewhere_is_not_taken_for_the_models_own(tmp_path: Path) -> None:
    model = write_pair(tmp_path)
    onnx.save(two_branches(), tmp_path / "small.int8.onnx")

    with pytest.raises(ModelError, match="does not say what it was made from"):
        find_quantized(model)


def test_a_damaged_note_is_reported(tmp_path: Path) -> None:
    model = write_pair(tmp_path)
    damaged = onnx.load(tmp_path / "small.int8.onnx")
    damaged.metadata_props[0].value = '{"measure": 3}'
    onnx.save(damaged, tmp_path / "small.int8.onnx")

    with pytest.raises(ModelError, match="damaged"):
        find_quantized(model)


def test_the_card_of_a_model_holds_for_its_quantised_file(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text("labels: [car, van]\n")

    assert read_card(tmp_path / "small.int8.onnx").labels == ("car", "van")


def test_a_quantised_file_may_have_a_card_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text("labels: [car, van]\n")
    (tmp_path / "small.int8.yaml").write_text("labels: [bus]\n")

    assert read_card(tmp_path / "small.int8.onnx").labels == ("bus",)
