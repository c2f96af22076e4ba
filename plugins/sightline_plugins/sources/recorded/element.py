"""The `recorded` source: a stream of a run that `sightline run --record` has recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from sightline.graph import Site, SourceElement, SourceReader
from sightline.graph.fields import InputUri
from sightline.media import Stream
from sightline.runtime.recording.file import SUFFIX, Recording

if TYPE_CHECKING:
    from typing import Self


class Recorded(SourceElement):
    """Read what went into a run that was recorded with `sightline run --record`: the frames that entered its first
    step, with their numbers, times and pixels. Frames that the run had dropped are not among them.

    `sightline replay` runs the recorded pipeline as it was, in the same batches. With this source any other pipeline
    can have the same frames. Without `stream` there is one stream for each of the recording.

    ```yaml
    sources:
      gate: {uri: run.slr, stream: gate}
    ```
    """

    name: ClassVar[str] = "recorded"
    priority: ClassVar[int] = 1

    uri: InputUri
    """The recording, a file that ends with `.slr`."""
    stream: str | None = None
    """The name of the stream in the recording; default: all of them."""
    decoder: Literal["auto", "cpu"] = "auto"
    """What decodes: `auto` is what the run has, `cpu` never a GPU."""
    threads: Annotated[int, Field(ge=0, le=64)] = 1
    """Decoder threads of the CPU; 0 takes one per core."""

    @classmethod
    def accepts(cls, uri: str) -> bool:
        """Accept files that end with `.slr`."""
        return uri.lower().endswith(SUFFIX)

    def split(self) -> Mapping[str, Self] | None:
        """Return one source for each stream of the recording when none is named."""
        if self.stream is not None:
            return None
        return {one.name: self.model_copy(update={"stream": one.name}) for one in Recording.read(self.uri).streams}

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        """Make a reader for one attempt."""
        from sightline_plugins.sources.recorded.reader import RecordedReader

        return RecordedReader(self, stream=stream, site=site)
