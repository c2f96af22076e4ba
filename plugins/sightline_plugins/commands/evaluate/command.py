"""`sightline eval`: score the boxes and tracks of a run against ground truth."""

from __future__ import annotations

import json
from dataclasses import asdict
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

if TYPE_CHECKING:
    from sightline_plugins.commands.evaluate.annotations import Annotations, Format
    from sightline_plugins.commands.evaluate.yolo_dataset import Split

_FORMATS = click.Choice(["mot", "kitti", "jsonl", "coco", "yolo"])


class _Recording(click.Path):
    """A file or folder that exists, or a pattern that matches the parts of a rotated recording."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Fails when there is nothing."""
        from sightline_plugins.replay.files import matching_files

        path = Path(value)
        return path if has_magic(str(path)) and matching_files(path) else super().convert(value, param, ctx)


_FILE = _Recording(exists=True, path_type=Path)
ANY_LABEL = "object"


@click.command("eval", short_help="Score a run's boxes and tracks against ground truth.")
@click.argument("results", type=_FILE)
@click.option(
    "--truth",
    type=_FILE,
    required=True,
    help="Ground truth: MOT text, KITTI labels, JSON lines, COCO JSON, or data.yaml of a YOLO dataset.",
)
@click.option("--format", "result_format", type=_FORMATS, help="Format of RESULTS; guessed when not given.")
@click.option("--truth-format", type=_FORMATS, help="Format of the truth; guessed when not given.")
@click.option("--stream", default="", help="Which stream of a JSON lines file that holds several.")
@click.option(
    "--split",
    type=click.Choice(["train", "val", "test"]),
    help="Which images of a YOLO dataset; val when not given, or what there is.",
)
@click.option("--label", "labels", multiple=True, help="Only objects with this label; may be repeated.")
@click.option("--any-label", is_flag=True, help="Ignore labels: all objects are of one class.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    results: Path,
    truth: Path,
    result_format: str | None,
    truth_format: str | None,
    stream: str,
    split: str | None,
    labels: tuple[str, ...],
    any_label: bool,
    as_json: bool,
) -> None:
    """Score the boxes and tracks in RESULTS, which `jsonl`, `mot`, `kitti` or `coco` wrote, against ground truth.

    A pattern in quotes ("out/gate-*.jsonl*") stands for the parts of a rotated file, compressed or not.

    Prints COCO's average precision (pycocotools), HOTA, MOTA and IDF1 where both sides have tracks (TrackEval), and the
    errors of the counts. Images of a COCO document or a YOLO dataset (Ultralytics, Roboflow) count as frames in the
    natural order of their names, as the `images` source reads them: run the pipeline with `valid/images` as its source.
    Files without labels (MOT) are compared without regard to labels.
    """
    from sightline_plugins.commands.evaluate.annotations import read_annotations

    part = cast("Split | None", split)
    found = read_annotations(results, file_format=cast("Format | None", result_format), stream=stream, split=part)
    known = read_annotations(
        truth, file_format=cast("Format | None", truth_format), stream=stream, truth=True, split=part
    )
    found, known = _alike(found, known, any_label=any_label, labels=labels)
    scores = _scores(found, known)
    click.echo(json.dumps(scores, indent=2) if as_json else _as_text(scores))


def _alike(
    found: Annotations, truth: Annotations, *, any_label: bool, labels: tuple[str, ...]
) -> tuple[Annotations, Annotations]:
    """Return both sides with labels that can be compared."""
    from dataclasses import replace

    import numpy as np

    from sightline.errors import ConfigurationError

    if labels:
        known = sorted({*found.label.tolist(), *truth.label.tolist()})
        for label in labels:
            if label not in known:
                raise ConfigurationError(f"nothing is labelled {label!r}; labels: {', '.join(known)}")
        found, truth = (table.select(np.isin(table.label, labels)) for table in (found, truth))
    if any_label or ANY_LABEL in (*found.label.tolist()[:1], *truth.label.tolist()[:1]):
        found, truth = (replace(table, label=np.full(len(table), ANY_LABEL, np.str_)) for table in (found, truth))
    return found, truth


def _scores(found: Annotations, truth: Annotations) -> dict[str, Any]:
    from sightline_plugins.commands.evaluate.scores import score_counts, score_detections, score_tracks

    scores: dict[str, Any] = {
        "boxes": {"found": len(found), "true": int((~truth.ignored).sum())},
        "detection": asdict(score_detections(found, truth=truth)),
        "counting": asdict(score_counts(found, truth=truth)),
    }
    if (found.identity >= 0).any() and (truth.identity >= 0).any():
        scores["tracking"] = asdict(score_tracks(found, truth=truth))
    return scores


def _as_text(scores: dict[str, Any]) -> str:
    boxes, detection, counting = scores["boxes"], scores["detection"], scores["counting"]
    lines = [
        f"boxes      {boxes['found']} found, {boxes['true']} true",
        f"detection  AP {detection['ap']:.3f}   AP50 {detection['ap50']:.3f}   AP75 {detection['ap75']:.3f}",
    ]
    if len(detection["by_label"]) > 1:
        lines += [f"           {value:.3f} {label}" for label, value in detection["by_label"].items()]
    if "tracking" in scores:
        tracking = scores["tracking"]
        lines.append(
            f"tracking   HOTA {tracking['hota']:.3f}   MOTA {tracking['mota']:.3f}   IDF1 {tracking['idf1']:.3f}   "
            f"{tracking['switches']} switches, {tracking['false']} false, {tracking['missed']} missed"
        )
    lines.append(
        f"counting   {counting['tracks']} tracks, {counting['true_tracks']} true; "
        f"off by {counting['error_per_frame']:.2f} objects a frame"
    )
    return "\n".join(lines)
