"""Files of a configuration shown by fake cameras that have bad days."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from sightline.errors import ConfigurationError
from sightline.graph import PipelineDescription, SourceElement
from sightline.graph.fields import is_url
from sightline.testing.camera import FakeCamera, Step
from sightline_plugins.decode.clip_packets import load_clip
from sightline_plugins.sources.media import Media
from sightline_plugins.sources.rtsp import Rtsp

Fault = tuple[tuple[Mapping[str, object], float], ...]

FAULTS: tuple[Fault, ...] = (
    (({"kill": True}, 1.0),),
    (({"stall": True}, 8.0),),
    (({"loss": 0.1}, 4.0),),
    (({"corruption": 0.05}, 4.0),),
    (({"kill": True}, 0.3), ({"refuse": 503}, 2.0)),
    (({"kill": True}, 0.3), ({"garbage": True}, 2.0)),
    (({"jump": 3600.0}, 5.0),),
    (({"timestamps": "zero"}, 4.0),),
    (({"trickle": 2000.0}, 6.0),),
)
"""What may happen to a camera: what begins together, each for so many seconds."""
ROUNDS = 20
"""Faults of one camera before they come in the same order again."""
_LONGEST_PART = 0.5


def fault_steps(number: int, *, cameras: int, every_seconds: float, seed: int) -> tuple[list[Step], float]:
    """What happens to one of several cameras, and after how many seconds it happens again: every so many seconds a
    fault meets one camera, and they take turns. The same seed gives the same faults. No fault lasts until the next.
    """
    chance = random.Random(f"{seed} {number}")
    period = every_seconds * cameras
    steps = []
    for turn in range(ROUNDS):
        at = (turn * cameras + number + 1) * every_seconds
        for what, seconds in chance.choice(FAULTS):
            steps.append(Step.model_validate({"at": at, "lasts": min(seconds, period * _LONGEST_PART), **what}))
    return steps, (ROUNDS + 1) * period


@contextmanager
def shown_by_cameras(
    description: PipelineDescription, *, every_seconds: float, seed: int, say: Callable[[str], None]
) -> Iterator[PipelineDescription]:
    """The pipeline with cameras in the place of its files while the block is open; `say` hears of every fault.

    Raises ConfigurationError when no source is a file, StreamUnreadable when a camera cannot show one.
    """
    files = {
        name: source
        for name, source in description.sources.items()
        if isinstance(source, Media) and not is_url(source.uri)
    }
    if not files:
        raise ConfigurationError("--faults shows files as cameras, and no source of this pipeline is a file")
    with ExitStack() as stack:
        sources: dict[str, SourceElement] = dict(description.sources)
        for number, (name, media) in enumerate(files.items()):
            steps, repeat = fault_steps(number, cameras=len(files), every_seconds=every_seconds, seed=seed)
            camera = FakeCamera(
                {name: load_clip(media.uri, stream_number=media.stream_index)},
                script=steps,
                repeat_seconds=repeat,
                seed=seed,
                on_event=lambda text, name=name: say(f"{name}: {text}"),  # type: ignore[misc]
            )
            _fill(camera)
            stack.enter_context(camera)
            sources[name] = Rtsp(uri=camera.url, max_fps=media.max_fps, rotate=media.rotate, stall=media.stall)
        yield description.model_copy(update={"sources": sources})


def _fill(camera: FakeCamera) -> None:
    """Cut all images into packets now: what would be held later is no growth."""
    for mount in camera.mounts.values():
        for number in range(len(mount.clip.packets)):
            mount.reel.payloads(number)
