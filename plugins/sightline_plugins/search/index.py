"""`search_index`: keep one vector of each track, so that tracks can be found in words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import BeforeValidator, Field

from sightline.errors import ConfigurationError, ModelError
from sightline.graph import Capability, CheckContext, Element, OutputPath, Problem, Site, Threading
from sightline.graph.described import Described
from sightline.graph.fields import InputPath
from sightline.graph.fields import Size as Bytes
from sightline.graph.references import Named
from sightline.media.time import Duration
from sightline_plugins.sinks.files import path_problems
from sightline_plugins.store.record import SCHEME

if TYPE_CHECKING:
    from sightline.graph import Outputs
    from sightline_plugins.search.finder import IndexFinder
    from sightline_plugins.search.indexer import Indexer


class KeepTracks(Described):
    """Limits on the tracks that an index holds, those of earlier runs among them."""

    age: Annotated[Duration, Field(gt=0)] | None = None
    """Tracks that were added longer ago are deleted."""
    size: Annotated[Bytes, Field(gt=0)] | None = None
    """When the file holds more than this, the oldest tracks are deleted."""
    count: Annotated[int, Field(ge=1)] | None = None
    """When there are more tracks than this, the oldest are deleted."""


def _as_tuple(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _found(value: object) -> object:
    """Return the folder of a pair that is named as one of the store."""
    if not isinstance(value, str) or not value.startswith(SCHEME):
        return value
    from sightline_plugins.search.encoders import encoder_folder

    try:
        return encoder_folder(value)
    except (ConfigurationError, ModelError) as error:
        raise ValueError(str(error)) from error


class SearchIndex(Element):
    """Keep one vector of each track in a file, with time, stream, label, attributes and an image, for
    `sightline search`.

    The vector is that of the best crop: large, sharp, sure, not cut off by the edge and not covered by others. It is
    computed when the track has lasted `settle`, when it ends, and in between when it is seen better, at most `updates`
    times: once or a few times for each track, and not for each frame. A track has ended when it was not seen for
    `timeout`.

    Times of day are known of live streams; of a file, only the time in the file. Attributes (`classify`, `read`) are
    those found most often. Put the step behind them, and behind `privacy` to keep redacted images only.

    A vector of a person is personal data, like an image: give `keep` an age, and see the guide to searching. When the
    disk is full, the step reports `sink_degraded` and continues when there is room.

    ```yaml
    - search_index: {path: out/tracks.db, encoder: models/search, keep: {age: 30d, size: 10GB}}
    ```
    """

    name: ClassVar[str] = "search_index"
    sink: ClassVar[bool] = True
    scalar: ClassVar[str | None] = "path"
    threading: ClassVar[Threading] = Threading.OWN

    path: OutputPath
    """The file, an SQLite database, for all streams. One that an earlier run has written is continued."""
    encoder: Annotated[InputPath, BeforeValidator(_found)]
    """The folder of a pair of encoders: `vision_model.onnx`, `text_model.onnx`, `preprocessor_config.json` and
    `tokenizer.json`, as CLIP, SigLIP and MobileCLIP are exported; or one of the store, as `store:clip@1`."""
    classes: Annotated[tuple[str, ...], BeforeValidator(_as_tuple), Field(min_length=1)] | None = None
    """Labels of the objects that are kept; all when not given."""
    min_size: Annotated[float, Field(gt=0, le=4096)] = 16.0
    """The least width and height in pixels from which an object is worth a crop."""
    least: Duration = 500_000_000
    """Tracks that were seen for a shorter time are not kept."""
    settle: Duration = 5_000_000_000
    """After how long a track that goes on gets its first vector; one that ends before gets it at its end."""
    updates: Annotated[int, Field(ge=1, le=100)] = 4
    """How often the vector of a track is computed at most."""
    timeout: Annotated[Duration, Field(gt=0)] = 2_000_000_000
    """After how long without a sighting a track has ended."""
    image_size: Annotated[int, Field(ge=0, le=1024)] = 256
    """The longest side of the images that are kept, in pixels; 0 keeps none."""
    keep: KeepTracks | None = None
    """What is kept of the tracks; all when not given."""

    def required(self) -> frozenset[Capability]:
        """Tracked objects."""
        return frozenset({Capability.OBJECTS, Capability.TRACKS})

    def wanted_labels(self) -> Named:
        """The labels in `classes`."""
        return [(("classes", number), label) for number, label in enumerate(self.classes or ())]

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check that the encoder is one, and that the file can be written."""
        from sightline_plugins.search.encoders import EncoderFolder
        from sightline_plugins.store import stored_model

        try:
            stored = stored_model(EncoderFolder.at(self.encoder).image_model)
        except ModelError as error:
            yield Problem(str(error), ("encoder",))
        else:
            if stored is not None and stored.damage is not None:
                yield Problem(stored.damage, ("encoder",))
        if self.path == "-":
            yield Problem("a database cannot be written to standard output: name a file", ("path",))
        elif "{" in self.path:
            yield Problem("the path is one file for all streams: leave placeholders out", ("path",))
        else:
            yield from path_problems(self, self.path, context=context, shareable=True)

    def build(self, site: Site) -> Indexer:
        """Make the operator; it opens the encoder, and the file at the first track."""
        from sightline_plugins.search.indexer import Indexer

        return Indexer(self, site)

    def track_finder(self, outputs: Outputs) -> IndexFinder:
        """Return what searches the file of this step."""
        from sightline_plugins.search.finder import IndexFinder

        return IndexFinder(outputs.path(self.path), encoder=Path(self.encoder))
