"""The `images` source: a folder or glob of images, or a single one."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from sightline.graph import Site, SourceReader
from sightline.graph.fields import InputUri
from sightline.media import Stream
from sightline_plugins.decode.kinds import names_images
from sightline_plugins.sources.options import InputOptions, Loop


class Images(InputOptions):
    """Read images (JPEG, PNG, BMP, WebP, TIFF, PNM) as the frames of a stream, in natural order of their names.

    `uri` is a folder, a glob (`frames/*.jpg`), a numbered name (`frames/%06d.jpg`) or one image, which makes a stream
    of one frame. Sizes may differ. An unreadable image is skipped, counted as damaged and reported; the others keep
    their times. JPEG images have exactly the pixels that OpenCV reads, so that a model gives the same results as in a
    notebook; alpha is dropped, 16 bits become 8, EXIF orientation is applied.

    ```yaml
    sources:
      shelf: {uri: "frames/*.jpg", fps: 10}
    ```
    """

    name: ClassVar[str] = "images"

    uri: InputUri
    """Folder, glob, numbered name or image."""
    fps: Annotated[float, Field(gt=0, le=1000)] = 25.0
    """Frames per second of stream time."""
    loop: Loop = False
    """Repeat without end (`true`), or this many times in all."""

    @classmethod
    def accepts(cls, uri: str) -> bool:
        """Accept folders, images and globs of images."""
        return names_images(uri)

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        """Make a reader for one attempt."""
        from sightline_plugins.sources.images.reader import ImagesReader

        return ImagesReader(self, stream=stream, warn=lambda text: site.warn(text, stream=stream.name))
