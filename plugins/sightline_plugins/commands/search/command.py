"""`sightline search`: find tracks in words, or by an image, and delete them."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sightline.cli.written import overwrite_option

if TYPE_CHECKING:
    from datetime import tzinfo

    from sightline.graph import Outputs
    from sightline.graph.track_search import FoundTrack, SearchResult

_FILE = click.Path(path_type=Path, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)


_EXAMPLES = """
\b
Examples:
  sightline search "red car leaving yesterday evening" --montage found.jpg
  sightline search --like suspect.jpg --stream gate
  sightline search --forget --stream gate --until 2026-11-01
"""


@click.command("search", epilog=_EXAMPLES, short_help="Find tracks in words, or by an image.")
@click.argument("text", nargs=-1)
@click.option(
    "--in", "index", type=_FILE, default=Path("out/tracks.db"), show_default=True, help="The file of `search_index`."
)
@click.option("--like", type=_FILE, help="Find tracks that look like this image; with TEXT, the mean of both counts.")
@click.option("-n", "--count", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many tracks.")
@click.option("--stream", "streams", multiple=True, help="Only tracks of this stream; may be repeated.")
@click.option("--label", "labels", multiple=True, help="Only tracks with this label; may be repeated.")
@click.option("--since", type=click.DateTime(), help="Only tracks that were there after this time of day.")
@click.option("--until", type=click.DateTime(), help="Only tracks that were there before this time of day.")
@click.option("--timezone", metavar="ZONE", help="Of all times, such as Europe/Berlin. Default: this machine's.")
@click.option(
    "--encoder", metavar="FOLDER", help="The encoder (or store:NAME), if it is not where the pipeline had it."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--images", type=_FOLDER, help="Write the image of each track that is found into this folder.")
@click.option("--montage", type=_FILE, help="Draw the images of the tracks that are found side by side (.jpg, .png).")
@overwrite_option
@click.option("--forget", is_flag=True, help="Delete the tracks that fit the filters, with vector and image, for good.")
@click.option("--id", "ids", type=int, multiple=True, help="With --forget: delete the track with this id; repeatable.")
@click.option("--yes", is_flag=True, help="With --forget: do not ask.")
def command(
    text: tuple[str, ...],
    index: Path,
    like: Path | None,
    count: int,
    streams: tuple[str, ...],
    labels: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    timezone: str | None,
    encoder: str | None,
    as_json: bool,
    images: Path | None,
    montage: Path | None,
    overwrite: bool,
    forget: bool,
    ids: tuple[int, ...],
    yes: bool,
) -> int:
    """Find the tracks that fit TEXT best, in the file that the step `search_index` writes.

    Names of streams, labels and times in TEXT become filters ("today", "yesterday evening", "on Monday between 8 and
    9", "in the last hour", "14:05"); the rest is compared with what the tracks look like. What was understood is
    printed first. Without words, the newest tracks that fit the filters are listed.

    Scores are cosines: they order the tracks of one search, and say nothing across encoders. The first tracks are
    printed, however little they fit.
    """
    from sightline.errors import ConfigurationError
    from sightline_plugins.search.searching import TrackSearch

    zone = _zone(timezone)
    if (ids or yes) and not forget:
        raise ConfigurationError("--id and --yes have a meaning with --forget only")
    if forget and (like is not None or images is not None or montage is not None):
        raise ConfigurationError("--forget deletes by filters and ids alone: leave --like, --images and --montage out")
    filters: dict[str, Any] = {
        "streams": streams or None,
        "labels": labels or None,
        "since": _with_zone(since, zone),
        "until": _with_zone(until, zone),
    }
    if forget:
        return _forget(index, " ".join(text), filters, ids=ids, asks=not yes, zone=zone)
    if montage is not None:
        _check_output(montage, overwrite=overwrite)
    with TrackSearch(index, encoder=encoder) as opened:
        shown = None if like is None else _image(like)
        found = opened.search(" ".join(text), count=count, like=shown, zone=zone, **filters)
    files = {} if images is None else _written(found.tracks, images, overwrite=overwrite)
    if as_json:
        click.echo(json.dumps(_document(found, files), ensure_ascii=False, indent=2))
    else:
        _print(found, files)
    if montage is not None:
        _write_montage(found.tracks, montage, overwrite=overwrite)
    return 0


def _forget(
    index: Path, text: str, filters: dict[str, Any], *, ids: tuple[int, ...], asks: bool, zone: tzinfo | None
) -> int:
    """Delete tracks; asks before, unless told not to."""
    from dataclasses import replace

    from sightline_plugins.search.searching import TrackSearch, forget_tracks

    with TrackSearch(index) as opened:
        query = opened.understand(text, zone=zone)
        query = replace(query, **{key: value for key, value in filters.items() if value is not None})
        fitting = len(ids) if ids else opened.search("", count=1, zone=zone, **_filters_of(query)).fitting
    told = f"the ids {', '.join(map(str, ids))}" if ids else query.told()
    if asks and not click.confirm(f"Delete {fitting} tracks of {index} for good ({told})?", default=False):
        click.echo("nothing was deleted")
        return 0
    gone = forget_tracks(index, query, ids=ids or None)
    click.echo(f"deleted {gone} tracks")
    return 0


def _filters_of(query: Any) -> dict[str, Any]:
    return {name: getattr(query, name) for name in ("streams", "labels", "since", "until")}


def _zone(name: str | None) -> tzinfo | None:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    from sightline.errors import ConfigurationError

    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigurationError(f"--timezone {name}: there is no such zone; write it like Europe/Berlin") from error


def _with_zone(moment: datetime | None, zone: tzinfo | None) -> datetime | None:
    if moment is None:
        return None
    return moment.astimezone() if zone is None else moment.replace(tzinfo=zone)


def _image(path: Path) -> Any:
    """Read an image as RGB (height, width, 3)."""
    import numpy as np

    from sightline.errors import ConfigurationError
    from sightline_plugins.opencv import cv2

    try:
        data = np.fromfile(path, np.uint8)
    except OSError as error:
        raise ConfigurationError(f"--like {path} cannot be read: {error.strerror}") from error
    rgb = cv2.imdecode(data, cv2.IMREAD_COLOR_RGB) if data.size else None
    if rgb is None:
        raise ConfigurationError(f"--like {path} is no image: name a JPEG or PNG file")
    return rgb


def _outputs(*, overwrite: bool) -> Outputs:
    from sightline.graph import Outputs

    outputs = Outputs()
    outputs.may_overwrite = overwrite
    return outputs


def _check_output(path: Path, *, overwrite: bool) -> None:
    from sightline.errors import ConfigurationError

    if path.suffix.lower() not in (".jpg", ".jpeg", ".png"):
        raise ConfigurationError(f"--montage {path}: must end in .jpg or .png")
    outputs = _outputs(overwrite=overwrite)
    if obstacle := outputs.obstacle(outputs.root / path):
        raise ConfigurationError(f"--montage: {obstacle}")


def _written(tracks: tuple[FoundTrack, ...], folder: Path, *, overwrite: bool) -> dict[int, Path]:
    """Write the images of tracks into a folder; return the file of each by the id of the track."""
    outputs, files = _outputs(overwrite=overwrite), dict[int, Path]()
    for track in tracks:
        if track.image is not None:
            path = folder / f"{track.id}.jpg"
            with closing(outputs.open_lines(outputs.root / path)) as file:
                file.write(track.image)
            files[track.id] = path
    return files


def _write_montage(tracks: tuple[FoundTrack, ...], path: Path, *, overwrite: bool) -> None:
    from sightline_plugins.commands.search.montage import montage
    from sightline_plugins.encode.images import encode_rgb

    outputs = _outputs(overwrite=overwrite)
    with closing(outputs.open_lines(outputs.root / path)) as file:
        file.write(encode_rgb(montage(tracks), suffix=path.suffix, quality=90))


def _print(found: SearchResult, files: dict[int, Path]) -> None:
    click.echo(f"understood: {found.query.told()}")
    if found.without_time:
        click.echo(f"left out: {found.without_time} tracks of which the time of day is not known")
    if not found.tracks:
        click.echo("no track fits")
        return
    click.echo(f"{len(found.tracks)} of {found.fitting} tracks that fit the filters:")
    for number, track in enumerate(found.tracks, start=1):
        score = "" if track.score is None else f"  {track.score:.3f}"
        said = "".join(f"  {name}={value}" for name, value in track.attributes.items())
        heading = "" if track.direction is None else f"  {track.direction}"
        file = f"  {files[track.id]}" if track.id in files else ""
        click.echo(
            f"{number:3}{score}  {track.stream}  {_when(track)}  track {track.track_id}  {track.label}{heading}{said}"
            f"  id {track.id}{file}"
        )


def _when(track: FoundTrack) -> str:
    if track.start is not None and track.end is not None:
        return f"{track.start:%Y-%m-%d %H:%M:%S}-{track.end:%H:%M:%S}"
    return f"{track.start_seconds:.1f}-{track.end_seconds:.1f} s"


def _document(found: SearchResult, files: dict[int, Path]) -> dict[str, Any]:
    query = found.query
    return {
        "understood": {
            "words": query.words,
            "streams": query.streams,
            "labels": query.labels,
            "since": None if query.since is None else query.since.isoformat(),
            "until": None if query.until is None else query.until.isoformat(),
            "daily": None if query.daily is None else [clock.isoformat("minutes") for clock in query.daily],
            "direction": query.direction,
        },
        "fitting": found.fitting,
        "without_time": found.without_time,
        "tracks": [
            {
                "id": track.id,
                "score": track.score,
                "pipeline": track.pipeline,
                "stream": track.stream,
                "track_id": track.track_id,
                "label": track.label,
                "confidence": round(track.confidence, 3),
                "start_seconds": track.start_seconds,
                "end_seconds": track.end_seconds,
                "start": None if track.start is None else track.start.isoformat(),
                "end": None if track.end is None else track.end.isoformat(),
                "frame": track.frame,
                "box": [round(value, 1) for value in track.xyxy],
                "direction": track.direction,
                "attributes": dict(track.attributes),
                "image": str(files[track.id]) if track.id in files else None,
            }
            for track in found.tracks
        ],
    }
