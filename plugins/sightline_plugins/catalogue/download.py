"""Bring a file to this machine: resumed after a break, checked by size and SHA-256, and whole or not there at all."""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sightline.errors import SightlineError
from sightline.graph.outputs import output_error
from sightline.redaction import redact

MIRROR = "SIGHTLINE_MODELS_MIRROR"
STALL_SECONDS = 30.0
"""A server that sends nothing for this long counts as gone."""
ATTEMPTS = 3
_BLOCK = 1 << 16
_PARTIAL, _RANGE_WRONG, _SERVER_ERRORS = 206, 416, 500
_TRY_AGAIN = (408, 429)

Progress = Callable[[int], None]
"""Told how many bytes are there, again and again."""


class DownloadError(SightlineError):
    """A file could not be brought to this machine; nothing of it is used."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file: where it is, and what it has to be. `path_in_mirror` is where a mirror has it."""

    url: str
    sha256: str
    bytes: int
    path_in_mirror: str


def bring(
    wanted: Wanted, target: Path, *, folder: Path | None = None, progress: Progress, stall_timeout: float
) -> None:
    """Bring a file to `target`, from a folder (or mirror) if one is given, else from its URL.

    What was brought before a break is kept beside it as `.part`, and the next attempt goes on there; a whole file that
    an earlier attempt left at `target` is taken. Proxies are those of the environment. Raises DownloadError, and
    OutputError when it cannot be written.
    """
    if _is_here(wanted, target):
        return
    part = target.with_name(f"{target.name}.part")
    mirror = os.environ.get(MIRROR, "")
    if folder is None and mirror and "://" not in mirror:
        folder = Path(mirror)
    if folder is not None:
        _copy(wanted, folder, part)
    else:
        url = f"{mirror.rstrip('/')}/{wanted.path_in_mirror}" if mirror else wanted.url
        _download(url, wanted, part, progress=progress, stall_timeout=stall_timeout)
    _check(part, wanted)
    try:
        part.replace(target)
    except OSError as error:
        raise output_error(target, error, doing="write") from error


def bring_member(
    archive: Wanted,
    member: str,
    wanted: Wanted,
    target: Path,
    *,
    folder: Path | None = None,
    progress: Progress,
    stall_timeout: float,
) -> None:
    """Bring a file that is a member of a zip, as `bring` does. A mirror has the file itself, a folder one of both.

    Raises DownloadError, also for a zip that does not hold it.
    """
    if _is_here(wanted, target):
        return
    has_file = bool(os.environ.get(MIRROR)) if folder is None else _in_folder(wanted, folder) is not None
    if has_file:
        bring(wanted, target, folder=folder, progress=progress, stall_timeout=stall_timeout)
        return
    packed = target.with_name(f"{target.name}.zip")
    bring(archive, packed, folder=folder, progress=progress, stall_timeout=stall_timeout)
    part = target.with_name(f"{target.name}.part")
    try:
        with zipfile.ZipFile(packed) as opened, opened.open(member) as source, part.open("wb") as file:
            shutil.copyfileobj(source, file)
    except (KeyError, zipfile.BadZipFile) as error:
        raise DownloadError(f"{redact(archive.url)} does not hold {member}: {error}") from error
    except OSError as error:
        part.unlink(missing_ok=True)
        raise output_error(part, error, doing="write") from error
    finally:
        packed.unlink(missing_ok=True)
    _check(part, wanted)
    part.replace(target)


def _is_here(wanted: Wanted, target: Path) -> bool:
    """Whether an earlier attempt brought the file whole, and failed at what came after; another file is removed."""
    if not target.is_file():
        return False
    try:
        _check(target, wanted)
    except DownloadError:
        return False
    return True


def _in_folder(wanted: Wanted, folder: Path) -> Path | None:
    """Return the file in a folder that holds it as a mirror does, or flat; None where there is none."""
    return next((place for place in _places(wanted, folder) if place.is_file()), None)


def _places(wanted: Wanted, folder: Path) -> list[Path]:
    name = Path(wanted.path_in_mirror).name
    return [folder / wanted.path_in_mirror, folder / name, folder / wanted.url.rpartition("/")[2]]


def _copy(wanted: Wanted, folder: Path, part: Path) -> None:
    """Copy the file from a folder that holds it, as a mirror does or flat."""
    found = _in_folder(wanted, folder)
    if found is None:
        names = dict.fromkeys(str(place.relative_to(folder)) for place in _places(wanted, folder))
        raise DownloadError(f"{folder} has none of {', '.join(names)}")
    try:
        shutil.copyfile(found, part)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise output_error(part, error, doing="write") from error


def _download(url: str, wanted: Wanted, part: Path, *, progress: Progress, stall_timeout: float) -> None:
    failure = "the connection broke off"
    for _ in range(ATTEMPTS):
        try:
            _receive(url, wanted, part, progress=progress, stall_timeout=stall_timeout)
        except urllib.error.HTTPError as error:
            failure = f"the server answers {error.code} {error.reason}"
            if error.code == _RANGE_WRONG:  # the part is no beginning of that file
                part.unlink(missing_ok=True)
            elif error.code < _SERVER_ERRORS and error.code not in _TRY_AGAIN:
                break
        except (urllib.error.URLError, TimeoutError, ConnectionError, http.client.HTTPException) as error:
            failure = _reason(error, stall_timeout)
        if _size(part) >= wanted.bytes:
            return
    kept = _size(part)
    hint = f"; {kept:,} of {wanted.bytes:,} bytes are kept, and the next attempt goes on there" if kept else ""
    raise DownloadError(
        f"{redact(url)} could not be downloaded: {failure}{hint}. Without a network, take the file from another "
        f"machine (--from FOLDER), or name a mirror ({MIRROR})"
    )


def _receive(url: str, wanted: Wanted, part: Path, *, progress: Progress, stall_timeout: float) -> None:
    """Receive what is missing of the part. Raises HTTPError, URLError, OSError of the connection, and OutputError."""
    have = _size(part)
    request = urllib.request.Request(url, headers={"User-Agent": "sightline", "Accept-Encoding": "identity"})  # noqa: S310
    if have:
        request.add_header("Range", f"bytes={have}-")
    with urllib.request.urlopen(request, timeout=stall_timeout) as answer:  # noqa: S310  the URL is the catalogue's, or the user's
        resumed = bool(have) and answer.status == _PARTIAL
        try:
            file = part.open("ab" if resumed else "wb")
        except OSError as error:
            raise output_error(part, error, doing="write") from error
        with file:
            received = have if resumed else 0
            while block := answer.read(_BLOCK):
                received += len(block)
                if received > wanted.bytes:
                    file.close()
                    part.unlink()
                    raise DownloadError(f"{redact(url)} is longer than the {wanted.bytes:,} bytes that it should have")
                try:
                    file.write(block)
                except OSError as error:
                    raise output_error(part, error, doing="write") from error
                progress(received)


def _check(part: Path, wanted: Wanted) -> None:
    """Refuse, and remove, a file that is another one than wanted."""
    size = _size(part)
    with part.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if size == wanted.bytes and digest == wanted.sha256:
        return
    part.unlink()
    raise DownloadError(
        f"{Path(wanted.path_in_mirror).name} is another file than the catalogue names: {size:,} bytes with SHA-256 "
        f"{digest[:16]}..., not {wanted.bytes:,} with {wanted.sha256[:16]}...; it was removed"
    )


def _reason(error: Exception, stall_timeout: float) -> str:
    inner = getattr(error, "reason", error)
    if isinstance(inner, TimeoutError):
        return f"the server sent nothing for {stall_timeout:g} s"
    if isinstance(error, http.client.IncompleteRead | ConnectionError):
        return "the connection broke off"
    return redact(getattr(inner, "strerror", None) or inner)


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0
