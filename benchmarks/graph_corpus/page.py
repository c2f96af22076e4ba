"""The page docs/benchmarks/graph-corpus.md."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Sequence

import onnx

from benchmarks.graph_corpus.comparison import Compared, Opened
from benchmarks.graph_passes import ROOT, processor
from sightline_plugins.engines.onnxruntime import OnnxRuntime
from sightline_plugins.engines.openvino import OpenVino
from sightline_plugins.onnx_graph.simplify import OPENVINO

PAGE = ROOT / "docs/benchmarks/graph-corpus.md"
_PREFACE = """# Graph corpus

The passes that rewrite a model's graph ([Graph passes](graph-passes.md)) must not change what it computes. This page
compares {count} graphs of {different} architectures with their files. {by_hand} are written by hand in the manner of
several exporters; {exported} are exported by PyTorch: networks of torchvision, timm, transformers and
segmentation-models-pytorch, and detectors in the manner of Ultralytics, PaddleDetection, MMDetection and NanoDet, in
several settings of the exporter. All weights are random.

Measured on {date} with `python -m benchmarks.graph_corpus --write` on {processor}, OpenVINO {openvino}, ONNX Runtime
{onnxruntime}, onnx {onnx}. That command writes the graphs by hand; the others need PyTorch, in its own environment:

    python -m venv torch; torch/bin/pip install torchvision timm transformers segmentation-models-pytorch onnxscript
    torch/bin/python -m benchmarks.graph_corpus.export out/graph_corpus

The reference is ONNX Runtime on the unchanged file. A difference is the largest one of any value, on noise and on an
image with smooth areas and edges, divided by the root mean square of its output (at least 0.001). A pass is left out
where the root mean square of the differences is above the limit of the file's precision: 0.1 % in float32, 3 % with
float16, 25 % with int8. That is what Sightline does when it compiles a model for the first time
([Models](../guide/models.md)).
"""
_LEGEND = """Nodes: of the file, then after the passes for OpenVINO and for ONNX Runtime, both with about six more that
normalise the image. Passes: at how many places each applied for OpenVINO. OpenVINO, ONNX Runtime: largest difference
there. Left out: passes whose results differed, and how much."""
_COLUMNS = (
    *("architecture", "family", "exported", "precision", "nodes", "passes"),
    *("OpenVINO", "ONNX Runtime", "left out"),
)

_REMARKS = """
Random weights make some results depend on rounding alone: in `efficientnetv2_rw_t` one level changed in 10000 of the
noise changes the output by 55 %, and in `ssdlite320_mobilenet_v3_large` many candidates of the suppression have equal
scores. Sightline runs such a model on ONNX Runtime (`engine: auto`). ONNX Runtime has no kernel for a `GridSample` of
`DeformableDetr` as exported.
"""


def write(rows: Sequence[Compared]) -> None:
    """Write the page. The figures stand for this machine and today."""
    by_hand = sum(row.family.endswith("by hand") for row in rows)
    preface = _PREFACE.format(
        count=len(rows),
        different=len({row.name for row in rows}),
        by_hand=by_hand,
        exported=len(rows) - by_hand,
        date=dt.date.today().isoformat(),
        processor=processor(),
        openvino=str(OpenVino(concurrency=1).settings["version"]).partition("-")[0],
        onnxruntime=OnnxRuntime(concurrency=1).settings["version"],
        onnx=onnx.__version__,
    )
    PAGE.write_text(f"{preface}\n{summary(rows)}{_REMARKS}\n{table(rows)}")


def summary(rows: Sequence[Compared]) -> str:
    """Counts of what came of the files, and a table of the passes."""
    lines = ["| result | OpenVINO | ONNX Runtime |", "|---|---|---|"]
    counts = [Counter(result(row, getattr(row, side)) for row in rows) for side in ("openvino", "onnxruntime")]
    lines += [f"| {name} | {counts[0][name]} | {counts[1][name]} |" for name in sorted(counts[0] | counts[1])]
    lines += [
        "",
        "Each pass alone, in ONNX Runtime, on the graphs in which it finds something without the others:",
        "",
        "| pass | graphs | places | largest difference |",
    ]
    lines.append("|---|---|---|---|")
    for rule in OPENVINO:
        own = [row.alone[rule.__name__] for row in rows if rule.__name__ in row.alone]
        places = sum(row.places[rule.__name__] for row in rows)
        lines.append(f"| `{rule.__name__}` | {len(own)} | {places} | {max(own, default=0.0):.0e} |")
    return "\n".join(lines) + "\n"


def result(row: Compared, one: Opened) -> str:
    """What came of one file in one library."""
    if row.refused:
        return "the file itself is refused"
    if one.itself:
        return "the library computes the file itself otherwise"
    if one.left_out:
        return "a pass is left out"
    return "refused by the library" if math.isnan(one.largest) else "as the file says"


def table(rows: Sequence[Compared]) -> str:
    """One line for each file."""
    lines = ["## Each graph", "", _LEGEND, "", f"| {' | '.join(_COLUMNS)} |", f"|{'---|' * len(_COLUMNS)}"]
    return "\n".join([*lines, *map(line, rows)]) + "\n"


def line(row: Compared) -> str:
    """One line of the table."""
    passes = ", ".join(f"{name}: {count}" for name, count in row.places.items())
    sides = (("OpenVINO", row.openvino), ("ONNX Runtime", row.onnxruntime))
    notes = [_note(name, one) for name, one in sides if one.why]
    notes += [f"`{name}` alone is wrong" for name in dict.fromkeys(row.wrong)]
    cells = [row.name, row.family, row.exporter, row.precision]
    cells.append(f"{row.nodes}, {row.openvino.nodes}, {row.onnxruntime.nodes}")
    cells += [passes, *(f"{one.largest:.0e}" for _, one in sides), row.refused or "; ".join(notes)]
    return "| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in cells) + " |"


def _note(name: str, one: Opened) -> str:
    if one.itself:
        return f"{name} computes the file itself otherwise: {one.itself}"
    return f"{name}: {', '.join(one.left_out)} ({one.why})"
