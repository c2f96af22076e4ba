"""Options that several kinds of source share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import AliasChoices, Field, model_validator

from sightline.graph import SourceElement
from sightline.graph.fields import InputUri
from sightline.graph.networks import Network, Networks
from sightline.media.time import Duration
from sightline_plugins.decode.kinds import CONFINED, DEFAULT_MAX_PIXELS

if TYPE_CHECKING:
    from sightline_plugins.decode.orientation import Orientation

Loop = bool | Annotated[int, Field(ge=1)]
Side = Annotated[int, Field(ge=1, le=16384)]


def passes_of(loop: Loop) -> int | None:
    """How often an input is read with that `loop` option; None for ever."""
    if isinstance(loop, bool):
        return None if loop else 1
    return loop


class InputOptions(SourceElement):
    """Options of sources that read an input."""

    uri: InputUri
    """Input to read."""
    max_fps: Annotated[float, Field(gt=0)] | None = None
    """Maximum frames per second; other frames are skipped evenly by their timestamps, and counted."""
    rotate: Literal["auto", 0, 90, 180, 270] = "auto"
    """Degrees clockwise to turn images by; `auto` follows the metadata of the input (EXIF for images)."""
    max_pixels: Annotated[int, Field(ge=1)] = DEFAULT_MAX_PIXELS
    """Refuse frames with more pixels."""

    @property
    def orientation(self) -> Orientation | None:
        """Orientation that `rotate` asks for; None follows the metadata."""
        from sightline_plugins.decode.orientation import orientation_from_degrees

        return None if self.rotate == "auto" else orientation_from_degrees(self.rotate)


class LiveOptions(InputOptions):
    """Options of sources that can be live: limits of silence and of reconnecting, the fate of damaged frames, and
    whether NVDEC is verified.
    """

    # The published YAML format also writes `stall`; no other option has a second spelling (decision 25).
    stall_timeout: Annotated[
        Duration, Field(ge=200_000_000, validation_alias=AliasChoices("stall_timeout", "stall"))
    ] = 5_000_000_000
    """Reconnect when a live stream delivers no data for this long; never less than three of its own frame intervals, so
    slow cameras need no other value."""
    max_reconnect_time: Annotated[Duration, Field(gt=0)] | None = None
    """Let a live stream fail when it delivers no frame for this long; by default it reconnects without end."""
    damaged: Literal["keep", "skip"] = "keep"
    """Frames of a live stream decoded from incomplete data, from a loss to the next intact key frame: `keep` passes
    them on, marked and counted as `damaged`; `skip` drops and counts them."""
    verify_nvdec: bool = True
    """On a GPU: compare the first frame that NVDEC decodes, and the first after each change of format, with the CPU's
    decoding of it. Where they differ, the CPU decodes the stream, and a warning reports it."""

    @property
    def live(self) -> bool:
        """True: the camera sets the pace."""
        return True

    @property
    def stall_ns(self) -> int | None:
        """`stall_timeout` of a live stream, else None."""
        return self.stall_timeout if self.live else None

    @property
    def gives_up_ns(self) -> int | None:
        """`max_reconnect_time`."""
        return self.max_reconnect_time

    @property
    def skips_damaged(self) -> bool:
        """Whether this is a live stream with `damaged: skip`."""
        return self.live and self.damaged == "skip"


class NetworkOptions(LiveOptions):
    """Options of sources that can be read over a network: where their connections may end."""

    networks: Annotated[tuple[Network, ...], Field(min_length=1)] | None = None
    """Networks that the source may be read from: `private`, `public`, and ranges such as `10.20.0.0/16`. For `rtsp`,
    `rtsps`, `http` and `https`: the host's address is looked up and checked before each connection, which is made to
    just that address, and redirects, playlists and UDP are refused. Default: everywhere."""

    @property
    def allowed_networks(self) -> Networks | None:
        """`networks` as an object that checks addresses; None for anywhere."""
        return None if self.networks is None else Networks(self.networks)

    @model_validator(mode="after")
    def _can_be_confined(self) -> Self:
        scheme = self.uri.partition("://")[0].lower()
        if self.networks is not None and scheme not in CONFINED:
            raise ValueError(f"networks is for addresses that begin with {', '.join(CONFINED)}: leave it out")
        return self
