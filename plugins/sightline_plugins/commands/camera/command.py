"""`sightline camera`: serve clips as RTSP cameras, with faults on request."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from sightline.cli.options import DURATION, debug_option
from sightline.errors import ConfigurationError

if TYPE_CHECKING:
    from sightline_plugins.commands.camera.clip import Clip
    from sightline_plugins.commands.camera.server import FakeCamera


_PATH = click.Path(exists=True, dir_okay=False, path_type=Path)
_EXAMPLES = """
\b
Examples:
  sightline camera sample_videos/street.mp4
  sightline camera gate=street.mp4 yard=entrance.mp4 --user admin:secret
  sightline camera street.mp4 --loss 5% --fps 10
  sightline camera street.mp4 --script bad-day.yaml

\b
A script lists faults and their times; `lasts` ends them again:
  steps:
    - {at: 5s, loss: 5%, lasts: 10s}        # also: corruption
    - {at: 20s, stall: true, lasts: 8s}     # open, and silent
    - {at: 40s, kill: true, lasts: 1s}      # gone, and back on its port
    - {at: 50s, clip: other.mp4}            # another size, rate or codec
    - {at: 60s, jump: -1h}                  # timestamps
  repeat: 90s
Further: fps, refuse (401, 404, 503), garbage, trickle (bytes a second), late_key, wrap,
timestamps (zero, doubled), reports (none, 1970, future), camera (one of several).
"""


class FractionType(click.ParamType[float]):
    """A share such as `5%` or 0.05."""

    name = "percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Convert to a number from 0 to 1."""
        from pydantic import TypeAdapter, ValidationError

        from sightline_plugins.commands.camera.clip import Fraction

        try:
            return TypeAdapter[float](Fraction).validate_python(value)
        except ValidationError:
            self.fail(f"{value!r} is no part of all: write it like 5% or 0.05", param, ctx)


@dataclass(frozen=True, slots=True)
class _Options:
    clips: tuple[str, ...]
    host: str
    port: int
    user: str | None
    authentication: Literal["digest", "basic"]
    transport: Literal["tcp", "udp", "both"]
    fps: float | None
    passes: int | None
    live: bool
    loss: float
    corruption: float
    seed: int
    script: Path | None
    tls: Path | None
    duration: int | None


@click.command("camera", short_help="Show a video file as a camera does, with faults on purpose.", epilog=_EXAMPLES)
@click.argument("clips", nargs=-1, required=True, metavar="CLIP...")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8554, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option("--user", envvar="CAMERA_USER", metavar="NAME:PASSWORD", help="Ask for these. Also: CAMERA_USER.")
@click.option(
    "--authentication",
    type=click.Choice(["digest", "basic"]),
    default="digest",
    show_default=True,
    help="How the password is asked for, with --user.",
)
@click.option(
    "--transport",
    type=click.Choice(["tcp", "udp", "both"]),
    default="both",
    show_default=True,
    help="What clients may ask for; others are refused with 461.",
)
@click.option("--tls", type=_PATH, help="Speak rtsps with this key and certificate (one PEM file).")
@click.option("--fps", type=click.FloatRange(0, 10_000, min_open=True), help="Another rate than the clip's own.")
@click.option("--passes", type=click.IntRange(1), help="End sessions after this many passes; default: repeat clips.")
@click.option("--live", is_flag=True, help="Join what all see; else every session begins at the beginning.")
@click.option("--loss", type=FractionType(), default=0.0, metavar="PERCENT", help="RTP packets that are lost.")
@click.option("--corruption", type=FractionType(), default=0.0, metavar="PERCENT", help="RTP packets with wrong bytes.")
@click.option("--seed", default=0, show_default=True, help="Which packets: the same seed hits the same.")
@click.option("--script", type=_PATH, help="A YAML file with faults and their times (below).")
@click.option("--duration", type=DURATION, help="End after this long, such as 30s; else with Ctrl-C.")
@debug_option
def command(**arguments: Any) -> None:
    """Show video files as network cameras do (RTSP), to try a pipeline without one.

    CLIP is a file with H.264, H.265 or MJPEG video; it is sent as it is, in real time, round and round. NAME=CLIP
    chooses the name of the camera, which is the file's name otherwise. The addresses go to standard output, what
    happens to standard error.
    """
    options = _Options(**arguments)
    camera = _camera(options)
    for mount in camera.mounts.values():
        mount.faults.loss, mount.faults.corruption = options.loss, options.corruption
    with _ended_by_sigterm():
        try:
            camera.start()
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise ConfigurationError(
                f"cannot listen on port {options.port} of {options.host} ({reason}): choose another --port, 0 for any"
            ) from error
        try:
            _show(camera, options)
        finally:
            camera.stop()
            for name, mount in camera.mounts.items():
                sent = mount.sent
                click.echo(
                    f"{name}: {sent.sessions} sessions, {sent.refused} requests refused, {sent.images} images, "
                    f"{sent.packets} packets sent, {sent.lost_packets} lost, {sent.corrupted_packets} with wrong bytes",
                    err=True,
                )


def _camera(options: _Options) -> FakeCamera:
    from sightline_plugins.commands.camera.script import read_script
    from sightline_plugins.commands.camera.server import FakeCamera
    from sightline_plugins.commands.camera.session import CameraOptions

    if options.user is not None and ":" not in options.user:
        raise ConfigurationError("--user is written NAME:PASSWORD")
    steps, repeat_seconds = read_script(options.script) if options.script is not None else ([], None)
    try:
        return FakeCamera(
            _clips(options.clips, fps=options.fps),
            port=options.port,
            credentials=options.user,
            certificate=options.tls,
            options=CameraOptions(
                host=options.host,
                transports=("tcp", "udp") if options.transport == "both" else (options.transport,),
                authentication=options.authentication,
                passes=options.passes,
                live=options.live,
            ),
            script=steps,
            repeat_seconds=repeat_seconds,
            seed=options.seed,
            on_event=lambda text: click.echo(text, err=True),
        )
    except ValueError as error:
        raise ConfigurationError(str(error)) from error


def _clips(arguments: Sequence[str], *, fps: float | None) -> Mapping[str, Clip]:
    from sightline_plugins.commands.camera.packets import load_clip

    clips: dict[str, Clip] = {}
    for argument in arguments:
        name, separator, path = argument.partition("=")
        name, path = (name, path) if separator else (Path(argument).stem, argument)
        if not name or "/" in name or name in clips:
            raise ConfigurationError(f"{argument!r}: each camera has a name of its own without slashes: NAME=CLIP")
        clip = load_clip(path)
        clips[name] = clip if fps is None else clip.at_fps(fps)
    return clips


def _show(camera: FakeCamera, options: _Options) -> None:
    """Print the cameras, and wait until the time is over."""
    for name, mount in camera.mounts.items():
        clip = mount.clip
        size = "x".join(map(str, clip.size_wh))
        click.echo(camera.url_of(name))
        click.echo(f"{name}: {clip.codec}, {size}, {clip.fps:.3g} fps, {clip.duration_ns / 1e9:.1f} s", err=True)
    if options.user is not None:
        click.echo("user and password go into the address: rtsp://NAME:PASSWORD@...", err=True)
    threading.Event().wait(None if options.duration is None else options.duration / 1e9)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the command regularly, with exit code 0."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
