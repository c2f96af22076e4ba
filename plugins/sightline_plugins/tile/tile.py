"""`tile`: a grid of all streams in one video."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, ClassVar, Self

from pydantic import BeforeValidator, Field, model_validator

from sightline.graph import ChangesLive, CheckContext, Element, Problem, Sink, Site, Threading
from sightline.graph.fields import options_of
from sightline.graph.wording import allowed, suggest
from sightline.media.time import Duration
from sightline_plugins.publish.publish import Publish
from sightline_plugins.sinks.video import Video
from sightline_plugins.tile.grid import LEAST_SIDE, grid_for

_VIDEO = BeforeValidator(
    lambda value: {"path": value} if isinstance(value, str) else value, json_schema_input_type=str | Video
)
_Side = Annotated[int, Field(ge=64, le=8192, multiple_of=2)]
_Count = Annotated[int, Field(ge=1, le=32)]
_OWN = ("id", "streams", "on_error")


class Tile(Element):
    """Show all streams in one video, as a grid of tiles: a video wall, written by `video` and sent by `publish`.

    A tile shows what reaches this step: what `privacy` has hidden is hidden in it, and what `draw` has drawn is there.
    Each frame is resized into its place as it is (4:2:0, without a conversion to RGB).

    Files are matched by their timestamps, so that an image shows all streams at the same moment, whatever their frame
    rates; a stream that is over keeps its last image. Cameras are not waited for: an image shows the newest frame of
    each, and a camera that sends nothing keeps its last image and is marked as lost, unless all are silent at once: no
    image is made then, and the messages of the streams tell of it. Streams that are added get a tile,
    and cameras that are removed lose it, while the video goes on.

    The image is put together and encoded on the CPU. Frames in a GPU's memory are made as small as their tiles there
    before they come down; the kernel was tested on the CPU, where its pixels are the same, and on no GPU yet
    ([what has run on GPUs](../benchmarks/gpu.md)).

    The video has the name of the step (`id`), for `publish` and in reports. `select` shows one stream alone, and
    changes while the pipeline runs.

    ```yaml
    - tile: {size: [1280, 720], video: out/wall.mp4, publish: {rtsp: "127.0.0.1:8554/wall"}}
    ```
    """

    name: ClassVar[str] = "tile"
    threading: ClassVar[Threading] = Threading.OWN
    sink: ClassVar[bool] = True

    size: tuple[_Side, _Side] = (1920, 1080)
    """Width and height of the video in pixels, both even."""
    columns: ChangesLive[_Count | None] = None
    """Tiles side by side; when neither this nor `rows` is given, the grid is as square as fits. Tiles are in the order
    of `streams`, else of the sources."""
    rows: ChangesLive[_Count | None] = None
    """Tiles one below the other."""
    select: ChangesLive[str | None] = None
    """The stream that is shown alone; all when not given, and as long as there is no such stream."""
    keep_aspect: ChangesLive[bool] = True
    """Keep the proportions of frames, with black bars; else they fill their tiles."""
    labels: ChangesLive[bool] = True
    """Write the name of its stream on each tile. What is lost or over is marked all the same."""
    fps: Annotated[float, Field(gt=0, le=120)] | None = None
    """Images a second; when not given, those of the stream that has most of them."""
    lost_after: ChangesLive[Annotated[Duration, Field(gt=0)]] = 3_000_000_000
    """A camera that sends nothing for so long is marked as lost."""
    video: Annotated[Video, _VIDEO] | None = None
    """Write a file: its path, or the options of `video`."""
    publish: Publish | None = None
    """Publish it live: the options of `publish`."""

    @model_validator(mode="after")
    def _has_a_way(self) -> Self:
        outputs = {key: value for key, value in (("video", self.video), ("publish", self.publish)) if value is not None}
        if not outputs:
            raise ValueError("say where the video goes: video, publish or both")
        for key, output in outputs.items():
            for option in _OWN:
                if option in output.model_fields_set:
                    raise ValueError(f"{key} has no {option} here: it is an option of tile")
            for option, _, value in options_of(output):
                if isinstance(value, str) and "{stream}" in value:
                    raise ValueError(f"{key}.{option}: there is one video of all streams: name it without {{stream}}")
        return self

    def reason_against_processes(self) -> str | None:
        """It shows all streams in one image."""
        return "it needs the images of several streams together"

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check that the streams fit the grid and that `select` is one of them; then what `video` and `publish` do."""
        streams = context.streams
        columns, rows = grid_for(len(streams), columns=self.columns, rows=self.rows)
        if columns * rows < len(streams):
            yield Problem(f"{len(streams)} streams do not fit {columns} x {rows} tiles: leave out rows", ("rows",))
        if self.size[0] // columns < LEAST_SIDE or self.size[1] // rows < LEAST_SIDE:
            text = f"{columns} x {rows} tiles would be narrower than {LEAST_SIDE} pixels: choose a larger size"
            yield Problem(text, ("size",))
        if self.select is not None and self.select not in streams and not context.streams_may_come:
            near = suggest(self.select, streams) or f"; streams: {allowed(streams)}"
            yield Problem(f"no stream is called {self.select!r}{near}", ("select",))
        own = replace(context, streams=(self.id or self.name,))
        for key, output in (("video", self.video), ("publish", self.publish)):
            for problem in () if output is None else output.check(own):
                yield Problem(problem.message, (key, *problem.key))

    def build(self, site: Site) -> Sink:
        """Make the operator and start the servers of `publish`. Raises OutputError when a port is taken."""
        from sightline_plugins.tile.tiler import Tiler

        return Tiler(self, site=site)
