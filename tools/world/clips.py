"""The clips of `sample_videos/`: their plans, and writing them with their truth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.world.arrays import RgbImage
from tools.world.entrance import EntrancePlan, build_entrance
from tools.world.gate import GatePlan, build_gate
from tools.world.render import Renderer, Truth
from tools.world.rules import Line, Zone
from tools.world.scene import Effects, Scene
from tools.world.street import StreetPlan, build_street
from tools.world.truth import document, mot_lines, plates_document, table
from tools.world.writer import write_video


@dataclass(frozen=True, slots=True)
class Clip:
    """A clip: its name, what it shows, the plan of its scene and the quality of its coding."""

    name: str
    plan: StreetPlan | EntrancePlan | GatePlan
    crf: int

    def scene(self) -> Scene:
        """The scene of the plan."""
        match self.plan:
            case StreetPlan():
                return build_street(self.plan)
            case EntrancePlan():
                return build_entrance(self.plan)
            case GatePlan():
                return build_gate(self.plan)


CLIPS = (
    Clip(
        "street",
        StreetPlan(
            seed=3,
            frames=600,
            camera_x=-5.5,
            camera_height=9.5,
            target=(0.8, 22.0),
            field_of_view_degrees=58.0,
            seconds_between=3.0,
            walkers=8,
            cyclists=3,
            lines=(Line("road", (0.18, 0.62), (0.82, 0.58)),),
            zones=(Zone("box", ((0.19, 0.50), (0.69, 0.42), (0.82, 0.57), (0.19, 0.61))),),
        ),
        crf=27,
    ),
    Clip(
        "entrance",
        EntrancePlan(
            seed=7,
            frames=540,
            camera_x=2.5,
            camera_height=5.2,
            target=(0.0, 12.0),
            seconds_between_visitors=1.9,
            passers=4,
            waiting=2,
            lines=(Line("door", (0.37, 0.375), (0.71, 0.415)),),
            zones=(Zone("meeting point", ((0.04, 0.47), (0.11, 0.375), (0.36, 0.425), (0.30, 0.56))),),
        ),
        crf=26,
    ),
    Clip(
        "dusk",
        StreetPlan(
            seed=9,
            size_wh=(960, 540),
            fps=15,
            frames=320,
            light="dusk",
            lanes_each_way=1,
            camera_x=6.5,
            camera_height=6.5,
            target=(-0.5, 17.0),
            field_of_view_degrees=60.0,
            seconds_between=1.6,
            walkers=7,
            cyclists=3,
            parked=False,
            effects=Effects(noise=3.5, shake_px=2.5, blur_px=0.5, clouds=0.0, leaves=2),
            lines=(Line("gate", (0.28, 0.55), (0.67, 0.62)),),
            zones=(Zone("far side", ((0.43, 0.41), (0.72, 0.47), (0.68, 0.58), (0.34, 0.50))),),
        ),
        crf=30,
    ),
    Clip(
        "gate",
        GatePlan(seed=46, frames=440, lines=(Line("gateway", (0.09, 0.54), (0.9, 0.52)),)),
        crf=26,
    ),
)


def write_clip(clip: Clip, *, folder: Path) -> None:
    """Write `<name>.mp4`, `<name>.mot.txt` and `<name>.truth.json` into the folder; where there are number plates,
    `<name>.plates.json` too.
    """
    scene = clip.scene()
    truths: list[Truth] = []
    video = folder / f"{clip.name}.mp4"
    write_video(_images(scene, truths), path=video, size_wh=scene.size_wh, fps=scene.fps, crf=clip.crf)
    rows = table(truths)
    (folder / f"{clip.name}.mot.txt").write_text(mot_lines(rows), encoding="utf-8")
    (folder / f"{clip.name}.truth.json").write_text(document(rows, scene=scene, clip=video.name), encoding="utf-8")
    if any(truth.plates for truth in truths):
        plates = plates_document(truths, scene=scene, clip=video.name)
        (folder / f"{clip.name}.plates.json").write_text(plates, encoding="utf-8")


def _images(scene: Scene, truths: list[Truth]) -> Iterator[RgbImage]:
    renderer = Renderer(scene)
    for index in range(scene.frames):
        image, truth = renderer.frame(index)
        truths.append(truth)
        yield image
