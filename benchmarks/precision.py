"""What 8 bits lose and gain: the street detector against truth, and models whose layers gain little.

    python -m benchmarks.precision [--shared ../shared/data] [--rounds 15] [--write]

The street detector is calibrated on images of scenes that nothing else uses (rendered here, coded as H.264), and
judged by the four sample clips with their truth: COCO's average precision by class, without objects that are more than
three quarters hidden or narrower or lower than 8 pixels. Speed is measured in turns in one process, with one image at
a time and with as many as there are cores. `auto` is what `precision: auto` then takes, and why.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
from tools.train.coded import coded_frames
from tools.train.precision import LEAST_SIDE_PX, LEAST_VISIBLE
from tools.world.scene import LABELS

from sightline_plugins.commands.model_step import model_step
from sightline_plugins.commands.quantize.options import QuantizeRequest, quantize_request
from sightline_plugins.commands.quantize.report import Report, write
from sightline_plugins.commands.quantize.run import run
from sightline_plugins.engines.opening import available_cores, open_engine
from sightline_plugins.engines.protocol import Precision
from sightline_plugins.infer.precision import Chosen, Verdict, choose_model
from sightline_plugins.infer.precision_speeds import CpuSpeeds, interleaved_seconds

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "benchmarks" / "precision.md"
BEGIN, END = "<!-- precision -->", "<!-- /precision -->"
CLIPS = ("street", "entrance", "dusk", "gate")
FIRST_CALIBRATION_SEED = 800_000
SCENES = 12
SAMPLES = 72


@dataclass(frozen=True)
class Case:
    """A model, what it is for, and the clips that it is calibrated on and judged by."""

    model: Path
    frames: tuple[str, ...]
    judge: tuple[str, ...] = ()
    truth: tuple[Path, ...] = ()
    task: str | None = None
    settings: tuple[str, ...] = ()
    count: int = 32

    def request(self, folder: Path) -> QuantizeRequest:
        """Return the request; the file is written into `folder`, beside a link to the model."""
        model = folder / self.model.name
        if not model.exists():
            model.symlink_to(self.model.resolve())
            card = self.model.with_suffix(".yaml")
            if card.exists():
                (folder / card.name).symlink_to(card.resolve())
        return quantize_request(
            str(model),
            task=self.task,
            settings=self.settings,
            frames=self.frames,
            judge=self.judge,
            truth=self.truth,
            count=self.count,
        )


@dataclass(frozen=True)
class Speed:
    """Milliseconds an image of both files on an engine, so many images at a time."""

    engine: str
    at_once: int
    fp32_ms: float
    int8_ms: float


def street_case(folder: Path) -> Case:
    """The project's own detector, calibrated on scenes of its own, judged by the sample clips."""
    videos = ROOT / "sample_videos"
    truth = [write_truth(videos / f"{clip}.mot.txt", folder / f"{clip}.json") for clip in CLIPS]
    return Case(
        model=ROOT / "models" / "street.onnx",
        frames=tuple(str(scene) for scene in render(folder)),
        judge=tuple(str(videos / f"{clip}.mp4") for clip in CLIPS),
        truth=tuple(truth),
        count=SAMPLES,
    )


def render(folder: Path) -> Iterator[Path]:
    """Folders of images of scenes that nothing else uses, after H.264."""
    for seed in range(FIRST_CALIBRATION_SEED, FIRST_CALIBRATION_SEED + SCENES):
        scene = folder / str(seed)
        scene.mkdir()
        for number, (image, _) in enumerate(coded_frames(seed)):
            cv2.imwrite(str(scene / f"{number}.png"), image[..., ::-1])
        yield scene


def write_truth(mot: Path, path: Path) -> Path:
    """The truth of a sample clip with its classes, as a COCO document; what can hardly be seen counts neither way."""
    rows = [[float(field) for field in line.split(",")] for line in mot.read_text().splitlines()]
    annotations = [
        {
            "image_id": int(frame),
            "category_id": int(label),
            "bbox": [left, top, width, height],
            "iscrowd": int(visibility < LEAST_VISIBLE or min(width, height) < LEAST_SIDE_PX),
        }
        for frame, _, left, top, width, height, _, label, visibility in rows
    ]
    images = [{"id": number, "file_name": f"{number}.png"} for number in range(1, int(rows[-1][0]) + 1)]
    categories = [{"id": number, "name": label} for number, label in enumerate(LABELS)]
    path.write_text(json.dumps({"images": images, "categories": categories, "annotations": annotations}))
    return path


def shared_cases(shared: Path) -> list[Case]:
    """Public models of depthwise convolutions and shuffles."""
    models, videos = shared / "models", shared / "videos"
    street = (str(videos / "street-cars-640x360.mp4"),)
    coco = f"labels={models / 'coco80.names'}"
    return [
        Case(models / "osnet_x0_25_msmt17.onnx", (str(videos / "one-by-one-person-detection.mp4"),), task="embed"),
        Case(models / "yolox_nano.onnx", street, settings=(coco,)),
        Case(models / "FastestDet.onnx", street, settings=("head=fastestdet", coco)),
    ]


def measure(request: QuantizeRequest, report: Report, *, rounds: int) -> list[Speed]:
    """Both files in turns on each engine."""
    speeds = list[Speed]()
    for engine in request.engines:
        for at_once in sorted({1, available_cores()}):
            with ExitStack() as stack:
                opened = [
                    open_engine(model, engine=engine, image=request.form, concurrency=at_once)
                    for model in (report.request.model, report.request.output)
                ]
                for one in opened:
                    stack.callback(one.close)
                fp32, int8 = interleaved_seconds(opened, budget_seconds=0.8 * rounds, rounds=rounds)
            speeds.append(Speed(engine, at_once, fp32 * 1e3, int8 * 1e3))
    return speeds


class _NoJudge:
    """Judges nothing: this page is about 8 bits."""

    def obstacle(self, precision: Precision) -> str:
        return f"this page is not about {precision}"

    def __call__(self, precision: Precision) -> Verdict:
        return Verdict(None, self.obstacle(precision))


def chosen(case: Case, request: QuantizeRequest, engine: Any) -> Chosen:
    """What `precision: auto` takes."""
    element, _ = model_step(request.model, case.task, case.settings)
    return choose_model(
        element.model_copy(update={"precision": "auto"}),
        speeds=CpuSpeeds(engine, form=request.form, warn=print),
        judge=_NoJudge(),
    )


def quantized(case: Case, folder: Path) -> tuple[QuantizeRequest, Report]:
    """Quantised, written whatever it lost."""
    request = case.request(folder)
    print(f"\n{request.model.name}")
    model, report = run(request, progress=lambda text: print(f"  {text}"))
    write(model, report)
    print(report.as_text())
    return request, report


def accuracy_rows(report: Report) -> list[str]:
    """What it lost, one row for each engine."""
    name = report.request.model.name
    return [
        f"| {name} | {one.engine} | {one.measure} | {one.fp32_points:.2f} | {one.int8_points:.2f} | "
        f"{one.lost_points:.2f} | {report.kept.attempt.title} |"
        for one in report.kept.judgements
    ]


def speed_rows(report: Report, speeds: Sequence[Speed]) -> list[str]:
    """What it gained, one row for each engine and number of images at a time."""
    return [
        f"| {report.request.model.name} | {one.engine} | {one.at_once} | {one.fp32_ms:.2f} ms | {one.int8_ms:.2f} ms | "
        f"**{one.fp32_ms / one.int8_ms:.2f}** |"
        for one in speeds
    ]


def label_rows(report: Report) -> list[str]:
    """AP by class on the first engine."""
    details = report.kept.judgements[0].details
    labels = [name.removeprefix("fp32_ap ") for name in details if name.startswith("fp32_ap ")]
    return [
        f"| {label} | {100 * details[f'fp32_ap {label}']:.2f} | {100 * details[f'int8_ap {label}']:.2f} |"
        for label in labels
    ]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--shared", type=Path, help="folder of the shared models and clips, for models that gain little"
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/benchmarks/precision.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        lines = tables(Path(name), options.shared, rounds=options.rounds)
    print("\n" + "\n".join(lines))
    if options.write:
        before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}", "utf-8")


def tables(folder: Path, shared: Path | None, *, rounds: int) -> list[str]:
    """All tables of the page."""
    speed = [
        "",
        "| model | engine | images at a time | fp32 | int8 | times as fast |",
        "|---|---|---:|---:|---:|---:|",
    ]
    lost = ["", "| model | engine | measure | fp32 | int8 | points lost | layers |", "|---|---|---|---:|---:|---:|---|"]
    auto = ["", "| model | engine | `auto` takes | why |", "|---|---|---|---|"]
    classes = ["", "| class | AP, fp32 | AP, int8 |", "|---|---:|---:|"]
    cases = [street_case(folder), *(shared_cases(shared) if shared is not None else [])]
    for number, case in enumerate(cases):
        request, report = quantized(case, folder)
        speed += speed_rows(report, measure(request, report, rounds=rounds))
        lost += accuracy_rows(report)
        classes += [] if number else label_rows(report)
        for engine in request.engines:
            one = chosen(case, request, engine)
            reason = one.reason.replace(f"{folder}/", "")
            auto.append(f"| {report.request.model.name} | {engine} | {one.precision} | {reason} |")
    return [*speed, *lost, *classes, *auto]


if __name__ == "__main__":
    main()
