"""The clip and the model that contestants work on: given ones, those of the shared data, or what anybody can have."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from benchmarks.pipelines.job import Job
from benchmarks.pipelines.rounds import ROOT

from sightline_plugins.catalogue.entries import find_entry
from sightline_plugins.catalogue.storage import pulled

DATA = Path(os.environ.get("SIGHTLINE_SHARED_DATA", ROOT.parent / "shared" / "data"))
_CLIP, _MODEL = "car-detection.mp4", "FastestDet.onnx"
_ENTRY = "fastestdet"


def add_file_options(parser: argparse.ArgumentParser) -> None:
    """Add the options `--clip` and `--model`."""
    parser.add_argument("--clip", help=f"a video (default: {_CLIP} of the shared data, else a sample of this project)")
    parser.add_argument("--model", help=f"{_MODEL} (default: of the shared data, else the catalogue's)")


def job_for(asked: argparse.Namespace, *, streams: int) -> Job:
    """Return the job on these files, without passes and folder. Raises SystemExit when there is no model."""
    entry = find_entry(_ENTRY)
    assert entry.labels_file is not None
    clip = Path(asked.clip or DATA / "videos" / _CLIP)
    if not asked.clip and not clip.exists():
        clip = ROOT / "sample_videos" / "street.mp4"
    model = Path(asked.model or DATA / "models" / _MODEL)
    if not asked.model and not model.exists():
        stored = pulled(_ENTRY)
        if stored is None:
            raise SystemExit(f"there is no model: `sightline models pull {_ENTRY}`, or give {_MODEL} as --model")
        model = stored
    return Job(clip, model, entry.labels_file, Path(), streams, 1, asked.confidence)
