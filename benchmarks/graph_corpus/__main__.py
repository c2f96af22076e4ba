"""Compare what rewritten graphs compute with what their files say, over many architectures.

    python -m benchmarks.graph_corpus [--folder out/graph_corpus] [--only TEXT] [--write]

The graphs written by hand (`backbones`, `heads`) are put into the folder; `benchmarks.graph_corpus.export` adds those
that PyTorch exports. Each file is prepared as an engine does at its first compile, for OpenVINO and for ONNX Runtime,
and compared with ONNX Runtime on the file, with nothing changed but the form of the image, on noise and on an image
with smooth areas and edges. Each pass that finds something is also applied alone, in ONNX Runtime, so that none hides
behind another one or behind OpenVINO. The exit code is 1 if a pass changed results. `--write` writes the page.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import onnx

from benchmarks.graph_corpus.comparison import Compared, compare
from benchmarks.graph_corpus.page import line, write
from benchmarks.graph_corpus.registry import structures
from benchmarks.graph_passes import ROOT


def files(folder: Path, *, only: str) -> Iterator[Path]:
    """Write the graphs that need no PyTorch, and return all files of the folder whose names hold `only`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, structure in structures().items():
        onnx.save(structure.model(), folder / f"byhand-{name}.onnx")
    return (path for path in sorted(folder.glob("*.onnx")) if only in path.name)


def main() -> None:
    """Compare, print, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "out/graph_corpus")
    parser.add_argument("--only", default="", help="files whose names hold this text")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    rows: list[Compared] = []
    for path in files(arguments.folder, only=arguments.only):
        rows.append(compare(path))
        print(line(rows[-1]), flush=True)
    if arguments.write:
        write(rows)
    wrong = [row.name for row in rows if row.wrong]
    print(f"{len(rows)} graphs, changed by a pass: {', '.join(wrong) or 'none'}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
