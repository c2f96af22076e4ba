"""Who may ask for what: roles, and tokens, of which only hashes are kept."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from fcntl import LOCK_EX, flock
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Lock
from typing import Any, Protocol

from sightline.errors import ConfigurationError

VARIABLE = "SIGHTLINE_TOKENS"
"""Environment variable that names the file of the tokens."""
_SCRYPT = {"n": 1 << 14, "r": 8, "p": 1}
_MOST_VERIFIED = 256
_MOST_TOKENS = 1000
_SESSION_SECONDS = 30 * 24 * 3600
SHORTEST_TOKEN = 16


class Role(StrEnum):
    """What somebody may do: look (`viewer`), steer what runs (`operator`), change what runs (`admin`).

    Each may do what those before it may.
    """

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def covers(self, needed: Role) -> bool:
        """Whether this role may do what another one may."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody who has shown a token: its name, and the role that goes with it."""

    name: str
    role: Role


class Credentials(Protocol):
    """Knows tokens, and makes sessions for browsers out of them."""

    def identify(self, token: str) -> Identity | None:
        """Return who has that token; None when nobody has. It may take a tenth of a second; from any thread."""
        ...

    def identify_quickly(self, token: str) -> Identity | None:
        """Return who has a token that was identified before, without computing its hash."""
        ...

    def session(self, token: str) -> str | None:
        """Return a session (the value of a cookie) that stands for a token which was identified."""
        ...

    def identify_session(self, session: str) -> Identity | None:
        """Return whose session that is; None when it is over, or of nobody."""
        ...


class OneToken:
    """The token that was given by the caller, or by the environment; whoever has it is the admin."""

    def __init__(self, token: str) -> None:
        """Raises ConfigurationError when it is too short to keep anybody out."""
        check_token(token)
        self._token = token
        self._key = hmac.new(token.encode(), b"sightline session", hashlib.sha256).digest()
        self._identity = Identity("token", Role.ADMIN)

    def identify(self, token: str) -> Identity | None:
        """See `Credentials`."""
        return self._identity if hmac.compare_digest(token.encode(), self._token.encode()) else None

    identify_quickly = identify

    def session(self, token: str) -> str | None:
        """See `Credentials`."""
        return None if self.identify(token) is None else _signed("token", key=self._key)

    def identify_session(self, session: str) -> Identity | None:
        """See `Credentials`."""
        return None if _name_in(session, key=self._key) is None else self._identity


@dataclass(frozen=True, slots=True)
class Entry:
    """What is kept of a token: who it is for, and the hash (scrypt) of its secret part. Times are epoch seconds."""

    id: str
    name: str
    role: Role
    salt: str
    hash: str
    made_at: int


@dataclass(frozen=True, slots=True)
class _Content:
    key: bytes
    entries: tuple[Entry, ...]

    def to_json(self) -> dict[str, Any]:
        return {"key": _text(self.key), "tokens": [asdict(one) for one in self.entries]}

    @classmethod
    def of(cls, plain: Any) -> _Content:
        entries = tuple(Entry(**{**one, "role": Role(one["role"])}) for one in plain["tokens"])
        return cls(_bytes(plain["key"]), entries)


class TokenFile:
    """Tokens that are kept as hashes in a file which only its owner may read (mode 0600).

    A token is `ID.SECRET`: the id finds the entry, the secret is hashed with scrypt. A change of the file takes effect
    at once in every program that uses it: a token that was removed is refused, and so are its sessions. From any
    thread and several processes.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = token_file() if path is None else path
        self._lock = Lock()
        self._stamp: tuple[int, int] | None = None
        self._content = _Content(b"", ())
        self._verified: OrderedDict[bytes, str] = OrderedDict()

    def begin(self) -> str | None:
        """Make the first token, for the admin, when there is no token yet: return it, this once.

        Raises ConfigurationError when the file cannot be read or written.
        """
        made: list[str] = []

        def first(content: _Content) -> _Content:
            if content.entries:
                return content
            entry, token = _new_entry("admin", Role.ADMIN)
            made.append(token)
            return _Content(content.key, (entry,))

        self._change(first)
        return made[0] if made else None

    def add(self, name: str, role: Role) -> str:
        """Make a token and return it, this once. Raises ConfigurationError when the name is taken."""
        entry, token = _new_entry(name, role)

        def added(content: _Content) -> _Content:
            if any(one.name == name for one in content.entries):
                raise ConfigurationError(f"there is a token {name!r} already: remove it first, or take another name")
            if len(content.entries) >= _MOST_TOKENS:
                raise ConfigurationError(f"there are {_MOST_TOKENS} tokens: remove those that nobody uses")
            return _Content(content.key, (*content.entries, entry))

        self._change(added)
        return token

    def remove(self, name: str) -> None:
        """Forget a token; its sessions end. Raises ConfigurationError when there is none of that name."""

        def removed(content: _Content) -> _Content:
            kept = tuple(one for one in content.entries if one.name != name)
            if len(kept) == len(content.entries):
                names = ", ".join(one.name for one in content.entries) or "none"
                raise ConfigurationError(f"there is no token {name!r}; tokens: {names}")
            return _Content(content.key, kept)

        self._change(removed)

    def entries(self) -> tuple[Entry, ...]:
        """The tokens, without what was secret about them. Raises ConfigurationError."""
        return self._read().entries

    def identify(self, token: str) -> Identity | None:
        """See `Credentials`."""
        if (known := self.identify_quickly(token)) is not None:
            return known
        entry = self._entry(token.partition(".")[0])
        if entry is None or not hmac.compare_digest(_hash(token, salt=entry.salt), entry.hash):
            return None
        with self._lock:
            self._verified[_digest(token)] = entry.id
            if len(self._verified) > _MOST_VERIFIED:
                self._verified.popitem(last=False)
        return Identity(entry.name, entry.role)

    def identify_quickly(self, token: str) -> Identity | None:
        """See `Credentials`."""
        with self._lock:
            entry_id = self._verified.get(_digest(token))
        entry = None if entry_id is None else self._entry(entry_id)
        return None if entry is None else Identity(entry.name, entry.role)

    def session(self, token: str) -> str | None:
        """See `Credentials`."""
        if self.identify(token) is None:
            return None
        return _signed(token.partition(".")[0], key=self._read().key)

    def identify_session(self, session: str) -> Identity | None:
        """See `Credentials`."""
        entry_id = _name_in(session, key=self._read().key)
        entry = None if entry_id is None else self._entry(entry_id)
        return None if entry is None else Identity(entry.name, entry.role)

    def _entry(self, entry_id: str) -> Entry | None:
        return next((one for one in self._read().entries if one.id == entry_id), None)

    def _read(self) -> _Content:
        """The content; the file is read when it has changed."""
        try:
            found = self.path.stat()
            stamp = (found.st_mtime_ns, found.st_ino)
            with self._lock:
                if stamp == self._stamp:
                    return self._content
            content = _Content.of(json.loads(self.path.read_bytes()))
        except FileNotFoundError:
            stamp, content = None, _Content(b"", ())
        except OSError as error:
            raise ConfigurationError(f"{self.path}: the tokens cannot be read: {error.strerror}") from error
        except (ValueError, KeyError, TypeError) as error:
            text = f"{self.path} is no file of tokens: move it away; the next start makes one"
            raise ConfigurationError(text) from error
        with self._lock:
            self._stamp, self._content = stamp, content
        return content

    def _change(self, change: Callable[[_Content], _Content]) -> None:
        try:
            with self._alone():
                old = self._read()
                new = change(old if old.key else _Content(secrets.token_bytes(32), old.entries))
                if new == old:
                    return
                with NamedTemporaryFile("w", dir=self.path.parent, suffix=".part", delete=False) as aside:  # mode 0600
                    json.dump(new.to_json(), aside, indent=1)
                Path(aside.name).replace(self.path)
        except OSError as error:
            raise ConfigurationError(
                f"{self.path}: the tokens cannot be kept: {error.strerror}; name another file with {VARIABLE}, or give"
                " a token (SIGHTLINE_TOKEN, --token)"
            ) from error

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes from changing the file while the block is open."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self.path.with_name(f".{self.path.name}.lock").open("w", encoding="utf-8") as lock:
            flock(lock, LOCK_EX)
            yield


def token_file() -> Path:
    """`$SIGHTLINE_TOKENS`, else `tokens.json` in `$XDG_CONFIG_HOME/sightline` or `~/.config/sightline`.

    Raises ConfigurationError where there is no home folder.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    base = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    try:
        return (base if base.is_absolute() else Path.home() / ".config") / "sightline" / "tokens.json"
    except RuntimeError as error:
        raise ConfigurationError(f"there is no home folder to keep tokens in: set {VARIABLE} to a file") from error


def check_token(token: str) -> None:
    """Raises ConfigurationError when a token is too short to keep anybody out, or cannot be sent in a header."""
    if len(token) < SHORTEST_TOKEN or not (token.isascii() and token.isprintable()) or " " in token:
        raise ConfigurationError(
            f"a token has {SHORTEST_TOKEN} characters or more, letters and digits: `openssl rand -hex 16` makes one"
        )


def _new_entry(name: str, role: Role) -> tuple[Entry, str]:
    token_id, salt = secrets.token_hex(4), secrets.token_hex(16)
    token = f"{token_id}.{secrets.token_urlsafe(24)}"
    return Entry(token_id, name, role, salt, _hash(token, salt=salt), int(time.time())), token


def _hash(token: str, *, salt: str) -> str:
    return hashlib.scrypt(token.encode(), salt=bytes.fromhex(salt), dklen=32, **_SCRYPT).hex()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _signed(name: str, *, key: bytes) -> str:
    text = f"{name}.{int(time.time()) + _SESSION_SECONDS}"
    return f"{text}.{_text(hmac.new(key, text.encode(), hashlib.sha256).digest())}"


def _name_in(session: str, *, key: bytes) -> str | None:
    """Return the name in a session that was signed with the key and is not over."""
    text, _, signature = session.rpartition(".")
    name, _, until = text.partition(".")
    wanted = _text(hmac.new(key, text.encode(), hashlib.sha256).digest())
    if not key or not hmac.compare_digest(signature.encode(), wanted.encode()):
        return None
    return name if int(until) > time.time() else None


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
