"""Judge single values that come by the API: addresses, files, outputs. Each function returns what is wrong, or None."""

from __future__ import annotations

import glob
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from urllib.parse import unquote

from sightline.graph.fields import STANDARD_STREAM, checked_url
from sightline.graph.networks import Address, resolve
from sightline.runtime.threads import Worker

OUTPUT_SUFFIXES = frozenset(
    (
        *(
            "",
            ".avi",
            ".csv",
            ".db",
            ".gz",
            ".jpeg",
            ".jpg",
            ".json",
            ".jsonl",
            ".m3u8",
            ".mkv",
            ".mov",
            ".mp4",
            ".npy",
            ".outbox",
        ),
        *(".parquet", ".png", ".rrd", ".sqlite", ".state", ".ts", ".txt", ".zst"),
    )
)
"""What the name of an output may end with: results and media, nothing that a program reads as code or settings.
Empty for a folder of Parquet.
"""

_PLACEHOLDER = re.compile(r"\{[a-z_]{1,16}\}")
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_CONTROL = re.compile(r"[\x00-\x20\x7f-\U0010ffff]")
_NUMBERED = re.compile(r"%\d*d")
_ELSEWHERE = frozenset(("host", "hostaddr", "port", "service", "servicefile", "passfile"))
"""Settings in the query of a database's URL that lead to another server, or to a file."""
_MOST_PARTS = 16
_MOST_FILES = 10_000
_MOST_LOOK_UPS = 256
_LOOK_UP_SECONDS = 5.0


def url_problem(url: str) -> str | None:
    """A URL that two readers may take apart differently: with blanks, control characters or letters beyond ASCII."""
    if _CONTROL.search(url) or "\\" in url:
        return "an address has printable ASCII characters only, and no \\: write others as %XX"
    try:
        checked_url(url)
    except ValueError as error:
        return str(error)
    return "the host of an address is written without %" if any("%" in host for host, _ in hosts_of(url)) else None


def hosts_of(url: str) -> list[tuple[str, str]]:
    """Return host and port, each as written and in lower case, of every server that a URL names."""
    authority = re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0].rpartition("@")[2]
    found = []
    for place in authority.lower().split(","):
        host, colon, port = place.rpartition(":")
        found.append((host, port) if colon and not place.endswith("]") else (place, ""))
    return found


def destination_problem(url: str, hosts: Iterable[str]) -> str | None:
    """A server that a step sends to or asks, and that is not among `hosts` (`NAME` or `NAME:PORT`)."""
    if problem := url_problem(url):
        return problem
    query = url.partition("?")[2].partition("#")[0]
    keys = {unquote(setting.partition("=")[0]).lower() for setting in re.split(r"[&;]", query)}
    if misleading := sorted(keys & _ELSEWHERE):
        return f"{misleading[0]} in an address can lead elsewhere: leave it out"
    allowed = frozenset(map(str.lower, hosts))
    for host, port in hosts_of(url):
        if host not in allowed and f"{host}:{port}" not in allowed:
            return f"the API may not name {host or 'this server'}: allow it with --allow-host {host or 'NAME'}"
    return None


def input_problem(path: str, roots: Sequence[Path]) -> str | None:
    """A file, folder or pattern that is not below one of `roots`, links followed. It says nothing of what is there."""
    outside = "the API may name files below the folders of --allow-files only" + ("" if roots else "; there are none")
    if path == STANDARD_STREAM:
        return f"the API may not read the standard input of the server: {outside}"
    if "\0" in path or path.startswith("~") or ".." in Path(path).parts:
        return f"a path has no NUL, ~ or ..: {outside}"
    if not roots:
        return outside
    absolute = Path(path).absolute()
    fixed = _before_patterns(absolute)
    if not _is_below(fixed, roots):
        return outside
    found = list(islice(_files(absolute), _MOST_FILES + 1))
    if len(found) > _MOST_FILES:
        return f"the API may name {_MOST_FILES} files at once"
    linked = next((one for one in found if not _is_below(one, roots)), None)
    return None if linked is None else f"{linked} is a link that leads elsewhere: {outside}"


def model_problem(path: str, roots: Sequence[Path], *, most_bytes: int) -> str | None:
    """A model that is not below one of `roots`, is no ONNX file by its name, or is too large."""
    if problem := input_problem(path, roots):
        return problem
    if Path(path).suffix.lower() != ".onnx":
        return "the API may name ONNX files (.onnx) and models of the store and the catalogue only"
    try:
        size = Path(path).stat().st_size
    except OSError:  # reported by the check of the configuration
        return None
    return f"the model has {size:,} bytes, and {most_bytes:,} are allowed" if size > most_bytes else None


def output_name_problem(template: str) -> str | None:
    """A name of an output that is not a plain relative path of a file with results."""
    parts = template.split("/")
    if len(parts) > _MOST_PARTS or not all(_PART.fullmatch(_PLACEHOLDER.sub("x", part)) for part in parts):
        return (
            f"the API may name outputs below the output folder: up to {_MOST_PARTS} parts of letters, digits, `.`, "
            "`_`, `-` and placeholders, 64 characters at most, which begin with a letter, a digit or `_`"
        )
    if Path(template).suffix.lower() not in OUTPUT_SUFFIXES:
        return f"by the API, the name of an output ends with {', '.join(sorted(OUTPUT_SUFFIXES - {''}))}"
    return None


def output_place_problem(path: Path, root: Path) -> str | None:
    """A file that lies outside the output folder because a part of its path is a link."""
    if path.is_symlink() or not _is_below(path.parent, (root,)):
        return "a part of its path is a link, and the API may not name outputs behind links"
    return None


def look_up(hosts: Iterable[str]) -> Mapping[str, Sequence[Address]]:
    """Return the addresses of hosts, all asked for at once; those of which none is known in time are left out, and so
    are all but the first 256.
    """
    asked = {host: _LookUp(host) for host in islice(hosts, _MOST_LOOK_UPS)}
    for worker in asked.values():
        worker.start()
    end = time.monotonic() + _LOOK_UP_SECONDS
    for worker in asked.values():
        worker.wait(max(end - time.monotonic(), 0.0))
    return {host: worker.addresses for host, worker in asked.items() if worker.addresses}


class _LookUp(Worker):
    """Asks the name service, which may not answer for long."""

    def __init__(self, host: str) -> None:
        super().__init__("look-up")
        self._host = host
        self.addresses: Sequence[Address] = ()

    def work(self) -> None:
        try:
            self.addresses = resolve(self._host, 0)
        except OSError:  # it may be known when it is connected to, and is checked then
            return


def _before_patterns(path: Path) -> Path:
    """Return the part of a path before the first one that stands for several names."""
    whole = Path(path.anchor)
    for part in path.parts[1:]:
        if glob.has_magic(part) or _NUMBERED.search(part):
            break
        whole /= part
    return whole


def _files(path: Path) -> Iterator[Path]:
    """Yield what a path stands for: itself, what its folder holds, and what it matches as a pattern."""
    yield path
    try:
        if path.is_dir():
            yield from path.iterdir()
            return
        pattern = _NUMBERED.sub("*", str(path.relative_to(path.anchor)))
        if glob.has_magic(pattern):
            yield from Path(path.anchor).glob(pattern)
    except (OSError, ValueError):
        return


def _is_below(path: Path, roots: Sequence[Path]) -> bool:
    try:
        real = Path(os.path.realpath(path))
    except (OSError, ValueError):
        return False
    return any(real.is_relative_to(os.path.realpath(root)) for root in roots)
