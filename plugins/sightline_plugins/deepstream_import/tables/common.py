"""Reasons that several tables share."""

from __future__ import annotations

from sightline_plugins.deepstream_import.settings import ignores, takes

MEMORY = ignores("memory is pooled and bounded by the runtime")
HARDWARE = ignores("the device computes it (`device`)")
GPU = ignores("`device` of the pipeline chooses the GPU")
ENABLE = takes("switches the section on or off")
COMPUTED = ignores("found out for each machine (`precision`, `batch`)")
ENGINE = ignores("engines are built from the ONNX file and cached for each machine")
COLORS = ignores("`draw` gives each class or track a colour of its own")
EVERY_GPU = {"gpu-id": GPU, "nvbuf-memory-type": MEMORY}
