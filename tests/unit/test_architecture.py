"""Arrows point one way, and what must live in one place does."""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

FOUNDATION = {"cache", "errors", "installed", "libraries", "redaction"}
ALLOWED = {
    "media": FOUNDATION,
    "devices": {"media", *FOUNDATION},
    "graph": {"media", "devices", *FOUNDATION},
    "config": {"graph", "media", "devices", *FOUNDATION},
    "rtsp": FOUNDATION,
    "runtime": {"graph", "media", "devices", *FOUNDATION},
    "cluster": {"graph", "media", "devices", "runtime", "pipeline", *FOUNDATION},
    "control": {"config", "graph", "media", "devices", "runtime", *FOUNDATION},
    "client": {"api", *FOUNDATION},
    "server": {"api", "config", "control", "graph", "media", "devices", "runtime", "pipeline", *FOUNDATION},
    "telemetry": {"graph", "media", "runtime", *FOUNDATION},
    "testing": {"rtsp", "graph", "media", "devices", "config", "runtime", *FOUNDATION},
    "cli": {"api", "client", "config", "graph", "media", "devices", "runtime", "server", "pipeline", *FOUNDATION},
}


@cache
def imports(file: Path) -> frozenset[str]:
    nodes = list(ast.walk(ast.parse(file.read_text())))
    plain = (alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names)
    return frozenset(plain) | {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}


def sources(repository: Path, *folders: str) -> list[Path]:
    return [file for folder in folders for file in sorted((repository / folder).rglob("*.py"))]


@pytest.mark.parametrize("layer", ALLOWED)
def test_a_layer_imports_only_the_layers_below_it(repository: Path, layer: str) -> None:
    wrong = []
    for file in sources(repository, f"pipeline/sightline/{layer}"):
        used = {name.split(".")[1] for name in imports(file) if name.startswith("sightline.")}
        wrong += [f"{file.name} imports {other}" for other in used - ALLOWED[layer] - {layer}]

    assert wrong == []


def test_the_framework_never_imports_its_plugins(repository: Path) -> None:
    wrong = [
        file.name
        for file in sources(repository, "pipeline")
        if any(name.split(".")[0] == "sightline_plugins" for name in imports(file))
    ]

    assert wrong == []


def test_no_two_kinds_of_plugins_import_each_other(repository: Path) -> None:
    folders = [folder for folder in (repository / "plugins/sightline_plugins").iterdir() if folder.is_dir()]
    graph = {
        folder.name: {
            name.split(".")[1]
            for file in folder.rglob("*.py")
            for name in imports(file)
            if name.startswith("sightline_plugins.") and name.split(".")[1] != folder.name
        }
        for folder in folders
    }

    assert list(TopologicalSorter(graph).static_order())


@pytest.mark.parametrize("library", ["av", "cv2", "openvino", "onnxruntime", "onnx"])
def test_the_framework_knows_no_codec_and_no_engine(repository: Path, library: str) -> None:
    users = [
        file.name
        for file in sources(repository, "pipeline")
        if any(name.split(".")[0] == library for name in imports(file)) and file.name != "doctor.py"
    ]

    assert users == []


@pytest.mark.parametrize(
    ("pattern", "home"),
    [
        (
            r"\bav\.open\(",
            [
                "plugins/sightline_plugins/decode/open_media.py",
                "plugins/sightline_plugins/decode/matroska_head.py",
                "plugins/sightline_plugins/encode/muxer.py",
            ],
        ),
        (r"(?m)^\s*(from|import) queue\b", ["pipeline/sightline/cli/interrupts.py"]),
        (r"\bO_NOFOLLOW\b", ["pipeline/sightline/graph/outputs.py", "pipeline/sightline/server/audit.py"]),
        (
            r"\bthreading\.Thread\b|\(Thread\)",
            ["pipeline/sightline/runtime/threads.py"],
        ),
        (r"(?m)^\s*import cv2\b", ["plugins/sightline_plugins/opencv.py"]),
        (r"\bentry_points\(", ["pipeline/sightline/installed.py"]),
    ],
    ids=[
        "containers are opened",
        "queues",
        "output files are opened",
        "threads are started",
        "OpenCV is imported",
        "entry points are read",
    ],
)
def test_what_must_live_in_one_place_does(repository: Path, pattern: str, home: list[str]) -> None:
    users = {
        str(file.relative_to(repository))
        for file in sources(repository, "pipeline", "plugins")
        if re.search(pattern, file.read_text())
    }

    assert users <= set(home)
