"""Writes a quantised model and its report beside each other, whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import onnx

from sightline.errors import ConfigurationError, OutputError
from sightline_plugins.infer.precision.quantized_file import is_quantized
from sightline_plugins.quantize.report import Report


def check_output(output: Path, *, model: Path) -> None:
    """Raise ConfigurationError where nothing can be written, before anything is computed."""
    if output.suffix != ".onnx":
        raise ConfigurationError(f"--output {output}: give a name that ends in .onnx")
    if not output.parent.is_dir():
        raise ConfigurationError(f"--output {output}: there is no folder {output.parent}")
    if output.exists() and model.exists() and output.samefile(model):
        raise ConfigurationError(f"--output {output}: is the model itself; the float32 file is needed further on")
    if output.exists() and not is_quantized(output):
        raise ConfigurationError(
            f"--output {output}: is there already, and sightline quantize did not make it: name another file, or "
            "remove it"
        )
    if not os.access(output.parent, os.W_OK):
        raise ConfigurationError(f"--output {output}: no permission to write to {output.parent}; name a file elsewhere")


def write(model: onnx.ModelProto, report: Report) -> None:
    """Write the model, then its report. Raises OutputError."""
    _replace(report.output, model.SerializeToString())
    _replace(report.output.with_suffix(".json"), json.dumps(report.as_json(), indent=2).encode() + b"\n")


def _replace(path: Path, content: bytes) -> None:
    """The file appears whole."""
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, suffix=".part", delete=False) as aside:
            part = Path(aside.name)
            try:
                aside.write(content)
                aside.close()
                part.chmod(0o644)
                part.replace(path)
            except OSError:
                part.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from error
