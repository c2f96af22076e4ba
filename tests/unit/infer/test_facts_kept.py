"""The facts of a model file are kept by content: a second process does not parse it, and nothing stale is used."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import external_data_helper, helper, numpy_helper

from sightline.cache import VARIABLE
from sightline.errors import ModelError
from sightline_plugins.infer import facts
from sightline_plugins.infer.facts import read_facts
from tests.unit.infer.tiny import write_detector


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))


def forget() -> None:
    """Do as another process would."""
    facts._file_facts.cache_clear()


def test_kept_facts_are_those_of_the_file(tmp_path: Path) -> None:
    model = write_detector(tmp_path / "m.onnx")
    first = read_facts(model)
    forget()

    assert read_facts(model) == first
    assert len(list((tmp_path / "cache" / "facts").iterdir())) == 1


def test_a_file_of_the_same_content_is_not_parsed_again(tmp_path: Path, repository: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from sightline_plugins.infer.facts import read_facts; "
        "read_facts(Path(sys.argv[1])); print('onnx' in sys.modules)"
    )
    copy = tmp_path / "copy.onnx"
    shutil.copy(repository / "models" / "street.onnx", copy)

    def imports_onnx(path: Path) -> str:
        done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert imports_onnx(repository / "models" / "street.onnx") == "True"
    assert imports_onnx(copy) == "False"


def test_another_content_in_the_same_file_is_read(tmp_path: Path) -> None:
    model = write_detector(tmp_path / "m.onnx")
    read_facts(model)
    parsed = onnx.load(model)
    parsed.metadata_props.add(key="names", value="{0: 'cat'}")
    onnx.save(parsed, model)
    forget()

    assert read_facts(model).metadata["names"] == "{0: 'cat'}"


def test_kept_facts_do_not_hide_weights_that_are_gone(tmp_path: Path) -> None:
    model = _with_weights_beside(tmp_path / "m.onnx")
    assert read_facts(model).weights == ("m.bin",)
    (tmp_path / "m.bin").unlink()
    forget()

    with pytest.raises(ModelError, match=r"'m\.bin', which is missing"):
        read_facts(model)


def _with_weights_beside(path: Path) -> Path:
    weights = numpy_helper.from_array(np.ones((3, 8, 8), np.float32), "w")
    node = helper.make_node("Add", ["x", "w"], ["y"])
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node],
        "g",
        [value("x", onnx.TensorProto.FLOAT, (1, 3, 8, 8))],
        [value("y", onnx.TensorProto.FLOAT, (1, 3, 8, 8))],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    external_data_helper.convert_model_to_external_data(model, location="m.bin", size_threshold=0)
    onnx.save(model, path)
    return path
