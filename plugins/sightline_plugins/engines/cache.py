"""Compiled models, kept between runs: the second start compiles nothing, and of processes that start at once one does.

They lie in `models/` of the cache folder (`sightline.cache`). A file is named after everything that went into it, so
none is ever out of date: one that nobody asks for any more goes when the folder is full. Files appear whole (written
aside and renamed) and carry a checksum; a damaged one is compiled again, with a warning.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from sightline.cache import VARIABLE, cache_folder
from sightline.errors import ModelError

LIMIT_BYTES = 2 << 30
"""When more is kept, what was not used for longest goes."""
ABANDONED_SECONDS = 3600
"""Files that were begun and not finished go after this time: whoever wrote them is gone."""
_BEGINNING = b"sightline model 1\n"
_DIGEST_BYTES = 32
_LOCKS = 64
_PROCESSOR = ("model name", "flags", "Features", "CPU implementer", "CPU part")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry:
    """What is kept of a model: `content` as the library dumped it, and `notes` that fit into JSON."""

    content: bytes
    notes: Mapping[str, Any]


def models_folder() -> Path | None:
    """Where compiled models are kept; None when nothing is."""
    folder = cache_folder()
    return None if folder is None else folder / "models"


class ModelCache:
    """Compiled models in a folder; None keeps nothing. Trouble with the folder goes to `warn` and harms nothing.

    What is `for_processor` is for processors like this machine's alone; what is not was compiled for a GPU.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        warn: Callable[[str], None],
        limit_bytes: int = LIMIT_BYTES,
        for_processor: bool = True,
    ) -> None:
        self._folder = folder
        self._warn = warn
        self._limit_bytes = limit_bytes
        self._for_processor = for_processor

    def holds(self, key: Mapping[str, Any]) -> bool:
        """Whether something is kept for the key; whether it is of use is found out when it is loaded."""
        return self._folder is not None and self._path(self._folder, key).is_file()

    def find(self, key: Mapping[str, Any]) -> Entry | None:
        """What is kept for the key; None when nothing is, or it is damaged."""
        return None if self._folder is None else self._read(self._path(self._folder, key), lambda entry: entry)

    def keep(self, key: Mapping[str, Any], entry: Entry) -> None:
        """Keep this for the key and replace what was kept."""
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            self._can_not_keep(error)
        else:
            self._write(self._path(self._folder, key), entry)

    def obtain(
        self, key: Mapping[str, Any], *, load: Callable[[Entry], T], make: Callable[[], T], dump: Callable[[T], Entry]
    ) -> tuple[T, bool]:
        """What belongs to the key, and whether it was there already: else it is made, by one process at a time.

        `load` raises ModelError for an entry that it cannot use, which is then made again.
        """
        if self._folder is None:
            return make(), False
        path = self._path(self._folder, key)
        found = self._read(path, load)
        if found is not None:
            return found, True
        with ExitStack() as stack:
            try:
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                stack.enter_context(_locked(self._folder / f"lock-{int(path.stem[:8], 16) % _LOCKS}"))
                damaged = path.exists()
                found = self._read(path, load)
                if found is not None:
                    return found, True
            except OSError as error:
                self._can_not_keep(error)
                return make(), False
            if damaged:
                self._warn(f"the compiled model {path} was damaged; it is compiled again")
            made = make()
            self._write(path, dump(made))
            return made, False

    def _path(self, folder: Path, key: Mapping[str, Any]) -> Path:
        return folder / f"{key_digest(key, for_processor=self._for_processor)}.model"

    def _read(self, path: Path, load: Callable[[Entry], T]) -> T | None:
        """What the file holds; None when there is none, or it is damaged."""
        try:
            entry = _parsed(path.read_bytes())
        except OSError:
            return None
        if entry is None:
            return None
        try:
            loaded = load(entry)
        except ModelError:
            return None
        with suppress(OSError):
            os.utime(path)
        return loaded

    def _write(self, path: Path, entry: Entry) -> None:
        try:
            with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as aside:
                try:
                    aside.write(_packed(entry))
                    aside.close()
                    Path(aside.name).replace(path)
                except BaseException:
                    Path(aside.name).unlink(missing_ok=True)
                    raise
            self._make_room(path)
        except OSError as error:
            self._can_not_keep(error)

    def _make_room(self, newest: Path) -> None:
        """Removes what was not used for longest until the rest fits, and what was never finished."""
        for part in newest.parent.glob("*.part"):
            with suppress(OSError):
                if time.time() - part.stat().st_mtime > ABANDONED_SECONDS:
                    part.unlink()
        files = sorted(((file.stat(), file) for file in newest.parent.glob("*.model")), key=lambda one: one[0].st_mtime)
        total = sum(facts.st_size for facts, _ in files)
        for facts, file in files:
            if total <= self._limit_bytes:
                break
            if file != newest:
                file.unlink(missing_ok=True)
                total -= facts.st_size

    def _can_not_keep(self, error: OSError) -> None:
        self._warn(
            f"compiled models cannot be kept in {self._folder}: {error.strerror}; set {VARIABLE} to another folder, "
            "or to off"
        )


def key_digest(key: Mapping[str, Any], *, for_processor: bool = True) -> str:
    """The name of what belongs to a key: of all its entries, our own rewriting, and this machine's processor if that
    is what it is for.
    """
    whole = {**key, "processor": _processor() if for_processor else None, "rewriting": _rewriting()}
    return hashlib.sha256(json.dumps(whole, sort_keys=True, default=repr).encode()).hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds the lock of a file, which the system lets go when the process ends."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _packed(entry: Entry) -> bytes:
    notes = json.dumps(dict(entry.notes)).encode()
    body = len(notes).to_bytes(4, "big") + notes + entry.content
    return _BEGINNING + hashlib.sha256(body).digest() + body


def _parsed(packed: bytes) -> Entry | None:
    start = len(_BEGINNING) + _DIGEST_BYTES
    body = packed[start:]
    if not packed.startswith(_BEGINNING) or hashlib.sha256(body).digest() != packed[len(_BEGINNING) : start]:
        return None
    end = 4 + int.from_bytes(body[:4], "big")
    return Entry(content=body[end:], notes=json.loads(body[4:end]))


@lru_cache(maxsize=1)
def _processor() -> tuple[str, ...]:
    """What the processor is and can do: a folder may be shared by machines."""
    try:
        first = Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0]
    except OSError:
        return ()
    return tuple(line for line in first.splitlines() if line.startswith(_PROCESSOR))


@lru_cache(maxsize=1)
def _rewriting() -> str:
    """The state of the code that rewrites models before they are compiled."""
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    for file in sorted((*folder.glob("*.py"), *(folder.parent / "onnx_graph").glob("*.py"))):
        digest.update(file.read_bytes())
    return digest.hexdigest()
