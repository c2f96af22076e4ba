"""The command `python -m tools.world`."""

from __future__ import annotations

from pathlib import Path

import click
import cv2
from tools.world.clips import CLIPS, write_clip
from tools.world.render import Renderer

NAMES = [clip.name for clip in CLIPS]


@click.group()
def main() -> None:
    """The sample world: renders the clips of sample_videos and their exact truth."""


@main.command()
@click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False), default=Path("sample_videos"), show_default=True
)
@click.option("--only", type=click.Choice(NAMES), multiple=True, help="Write only these clips.")
def clips(folder: Path, only: tuple[str, ...]) -> None:
    """Write the clips, their boxes (MOT) and what happens in them (JSON)."""
    folder.mkdir(parents=True, exist_ok=True)
    for clip in CLIPS:
        if not only or clip.name in only:
            write_clip(clip, folder=folder)
            size = (folder / f"{clip.name}.mp4").stat().st_size
            click.echo(f"{clip.name}: {size / 1e6:.2f} MB")


@main.command()
@click.argument("name", type=click.Choice(NAMES))
@click.argument("frame", type=click.IntRange(min=0))
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False))
def image(name: str, frame: int, path: Path) -> None:
    """Write one image of a clip as PNG, before coding."""
    scene = next(clip for clip in CLIPS if clip.name == name).scene()
    if frame >= scene.frames:
        raise click.BadParameter(f"{name} has the frames 0 to {scene.frames - 1}", param_hint="FRAME")
    rendered, _ = Renderer(scene).frame(frame)
    if not cv2.imwrite(str(path), rendered[..., ::-1]):
        raise click.ClickException(f"cannot write {path}; give a path that ends in .png in a folder that exists")


if __name__ == "__main__":
    main()
