"""A connection of `nats`: records are published, and their acknowledgements collected, in an event loop."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from nats.aio.client import Client, RawCredentials
from nats.errors import Error, FlushTimeoutError
from nats.js.api import StreamConfig
from nats.js.errors import APIError

from sightline.errors import DeliveryError, DestinationLost, DestinationRefused, RecordRefused
from sightline.graph.transport import Record
from sightline.redaction import redact

if TYPE_CHECKING:
    from nats.aio.msg import Msg

    from sightline_plugins.delivery.nats import JetStream, Nats

Answer = dict[str, Any]

_PLACEHOLDER_TOKEN = re.compile(r"[^.]*\{[^{}]*\}[^.]*")
_REFUSED_LOGIN = re.compile(
    r"authorization|authentication (expired|revoked)|permissions violation|alert .*(certificate|unknown ca)"
)
_CREDENTIALS = re.compile(r"BEGIN NATS USER JWT.*\n.+\n(?s:.*)BEGIN USER NKEY SEED.*\n(\S+)\n")
_PING_SECONDS = 30
_NO_TLS = "the server does not offer TLS, which tls:// requires; nats:// connects without it"
_UNSENT_BYTES = 256 << 10
"""How much may wait for the socket; it must leave within the time limit."""
_UNACKNOWLEDGED_RECORDS = 64
"""How many records plain NATS gets at once: it acknowledges them together."""
_NOBODY_LISTENS: Answer = {"description": "nobody takes it"}
_REFUSED_RECORDS = (10054, 10097)
"""Codes of JetStream: the message or its headers are larger than the stream allows."""
_REFUSED_ALL = (10039, 10058, 10060, 10065, 10076, 10109)
"""Codes: JetStream is not enabled, or the stream is another one, is sealed, or overlaps with another."""
_NAME_TAKEN, _NO_SUCH_STREAM = 10058, 10059


class Loop(asyncio.SelectorEventLoop):
    """An event loop that knows its connections, so that they can be cut without waiting for a server that hangs."""

    def __init__(self) -> None:
        super().__init__()
        self.connections: list[Any] = []
        self.is_encrypted = False

    async def create_connection(self, *args: Any, **options: Any) -> Any:
        """Connect, and remember the connection."""
        connected = await super().create_connection(*args, **options)
        self.connections.append(connected[0])
        return connected

    async def start_tls(self, *args: Any, **options: Any) -> Any:
        """Encrypt a connection."""
        transport = await super().start_tls(*args, **options)
        self.is_encrypted = True
        return transport

    def cut(self) -> None:
        """Cut all connections; what is not sent yet is lost."""
        for connection in self.connections:
            connection.abort()


class Session:
    """One connection, and the records that are under way on it. All of it runs in the loop."""

    def __init__(self, element: Nats, *, source: str, loop: Loop, tls: ssl.SSLContext | None) -> None:
        self._element = element
        self._source = source
        self._loop = loop
        self._tls = tls
        self._seconds = element.timeout / 1e9
        self._address = element.destination()
        self._stream = element.stream_options()
        self._largest_message: int | None = None
        self._client: Client = Client()
        self._failure: Exception | None = None
        self._news = asyncio.Event()
        self._heard = 0.0
        self._inbox = ""
        self._first = 0
        self._size = 0
        self._answers: dict[int, Answer] = {}

    async def open(self) -> None:
        """Connect, log in, and find or create the stream. Raises DestinationLost, DestinationRefused."""
        try:
            await asyncio.wait_for(self._open(), self._seconds)
        except (Error, OSError, ValueError) as error:
            raise self._lost(error) from error
        if self._failure is not None:
            raise self._lost(self._failure)

    async def deliver(self, records: Sequence[Record]) -> None:
        """Publish records and wait for their acknowledgements; the time limit begins again with each of them."""
        if self._stream is not None:
            await self._deliver_to_stream(records)
            return
        for start in range(0, len(records), _UNACKNOWLEDGED_RECORDS):
            await self._deliver_plainly(records[start : start + _UNACKNOWLEDGED_RECORDS], delivered=start)

    async def _open(self) -> None:
        await self._connect()
        if not self._client.is_connected:
            raise self._failure or ConnectionError("the server closed the connection")
        self._failure = None  # that of a first attempt
        if self._element.url.startswith("tls://") and not self._loop.is_encrypted:
            raise ConnectionError(_NO_TLS)
        if self._stream is not None:
            await self._find_stream(self._stream)
        self._inbox = self._client.new_inbox()
        await self._client.subscribe(f"{self._inbox}.*", cb=self._on_answer)
        await self._settle()

    async def _settle(self) -> None:
        """Wait until the server has dealt with all that was sent, and its errors are here.

        nats-py sends the question (PING) ahead of what is still pending: the first answer shows that it was sent, the
        second that the server has read it.
        """
        for _ in range(2):
            await self._client.flush(self._seconds)  # type: ignore[arg-type]  # annotated as int, used as float

    async def _connect(self) -> None:
        address = urlsplit(self._element.url)
        credentials: dict[str, Any] = {}
        if self._element.credentials_file is not None:
            credentials["user_credentials"] = RawCredentials(read_credentials(self._element.credentials_file))
        elif address.password is not None:
            user, password = unquote(address.username or ""), unquote(address.password)
            credentials = {"user": user, "password": lambda: self._secret(password)}
        elif address.username:
            token = unquote(address.username)
            credentials = {"token": lambda: self._secret(token)}
        await self._client.connect(
            address._replace(netloc=address.netloc.rpartition("@")[2], path="", query="", fragment="").geturl(),
            name=f"sightline {self._source}",
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=self._seconds,  # type: ignore[arg-type]  # annotated as int, used as float
            flush_timeout=self._seconds,
            pending_size=_UNSENT_BYTES,
            ping_interval=_PING_SECONDS,
            tls=self._tls,
            error_cb=self._on_error,
            disconnected_cb=self._on_disconnected,
            **credentials,
        )

    def _secret(self, value: str) -> str:
        """Return a password when it may be sent: the client encrypts only if the server offers it."""
        if self._element.url.startswith("tls://") and not self._loop.is_encrypted:
            raise ConnectionError(_NO_TLS)
        return value

    async def _find_stream(self, options: JetStream) -> None:
        manager = self._client.jsm(timeout=self._seconds)
        try:
            try:
                info = await manager.stream_info(options.stream)
            except APIError as error:
                if error.err_code != _NO_SUCH_STREAM:
                    raise
                if not options.create:
                    message = f"{self._address} has no stream {options.stream}; create it, or set `create: true`"
                    raise DestinationRefused(message) from error
                info = await self._create_stream(options)
        except APIError as error:
            raise self._refusal(_answer(error), 0) from error
        subjects = info.config.subjects or []
        missed = [wanted for wanted in self._subjects() if not any(_may_meet(wanted, taken) for taken in subjects)]
        if missed:
            raise DestinationRefused(
                f"the stream {options.stream} at {self._address} takes {', '.join(subjects) or 'no subject'}, "
                f"not {missed[0]}: add it to the stream's subjects, or name another stream"
            )
        limit = info.config.max_msg_size
        self._largest_message = limit if limit is not None and limit >= 0 else None

    async def _create_stream(self, options: JetStream) -> Any:
        config = StreamConfig(
            name=options.stream,
            subjects=[_PLACEHOLDER_TOKEN.sub("*", self._element.subject)],
            max_age=None if options.max_age is None else options.max_age / 1e9,
            max_bytes=options.max_size,
            num_replicas=options.replicas,
        )
        manager = self._client.jsm(timeout=self._seconds)
        try:
            return await manager.add_stream(config)
        except APIError as error:
            if error.err_code != _NAME_TAKEN:  # somebody else was faster
                raise
        return await manager.stream_info(options.stream)

    def _subjects(self) -> list[str]:
        """Return the subjects of what is sent, with `*` where the stream's name is."""
        subject = self._element.subject
        kinds = [subject.replace("{kind}", kind) for kind in self._element.send]
        return list(dict.fromkeys(_PLACEHOLDER_TOKEN.sub("*", kind) for kind in kinds))

    async def _deliver_to_stream(self, records: Sequence[Record]) -> None:
        self._first += self._size
        self._size = len(records)
        self._answers = {}
        delivered = 0
        for place, record in enumerate(records):
            if self._failure is not None:
                break
            headers = self._headers(record)
            if fault := self._fault(record, headers):
                self._answers[place] = {"err_code": _REFUSED_RECORDS[0], "description": fault}
                break
            await self._publish(record, headers, reply=f"{self._inbox}.{self._first + place}")
        while True:
            while (answer := self._answers.get(delivered)) == {}:
                delivered += 1
            if delivered == len(records):
                return
            if answer is not None:
                raise await self._why(answer, records[delivered], delivered)
            if self._failure is not None:
                raise self._lost(self._failure, delivered=delivered)
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), self._seconds)
            except TimeoutError as error:
                raise self._lost(error, delivered=delivered) from error

    async def _deliver_plainly(self, records: Sequence[Record], *, delivered: int) -> None:
        refusal: RecordRefused | None = None
        for place, record in enumerate(records):
            headers = self._headers(record)
            if fault := self._fault(record, headers):
                text = f"{self._address} refuses a record for {record.to}: {fault}"
                refusal = RecordRefused(text, delivered=delivered + place)
                break
            await self._publish(record, headers)
        try:
            await self._settle()
        except (Error, OSError) as error:
            raise self._lost(self._failure or error, delivered=delivered) from error
        if self._failure is not None:
            raise self._lost(self._failure, delivered=delivered)
        if refusal is not None:
            raise refusal

    async def _publish(self, record: Record, headers: dict[str, str], *, reply: str = "") -> None:
        try:
            await self._client.publish(record.to, record.body, reply=reply, headers=headers)
        except (Error, OSError) as error:
            self._failure = self._failure or error

    def _headers(self, record: Record) -> dict[str, str]:
        headers = {
            "Sightline-Stream": record.stream,
            "Sightline-Epoch": str(record.epoch),
            "Sightline-Seq": str(record.seq),
            "Sightline-Kind": record.kind,
            "Content-Type": record.content_type,
        }
        if self._stream is not None:
            # Two machines may run the same pipeline: the time tells their records apart.
            number = f"{record.epoch}/{record.seq}/{record.time_ns}"
            headers["Nats-Msg-Id"] = f"{self._source}/{record.stream}/{number}"
            headers["Nats-Expected-Stream"] = self._stream.stream
        return headers

    def _fault(self, record: Record, headers: dict[str, str]) -> str:
        """Return why the server would refuse a record (it cuts the connection of who sends too much), or nothing."""
        if not record.to or re.search(r"\s", record.to):
            return "that is no subject"
        lines = sum(len(f"{name}: {value}\r\n".encode()) for name, value in headers.items())
        size = len("NATS/1.0\r\n") + lines + len("\r\n") + len(record.body)
        limit = min(self._client.max_payload, self._largest_message or self._client.max_payload)
        return f"its {size} bytes with headers are more than the {limit} allowed" if size > limit else ""

    async def _why(self, answer: Answer, record: Record, delivered: int) -> DeliveryError:
        """Return the error for an answer that is no acknowledgement."""
        if answer is not _NOBODY_LISTENS or self._stream is None:
            return self._refusal(answer, delivered, to=record.to)
        try:
            info = await self._client.jsm(timeout=self._seconds).stream_info(self._stream.stream)
        except (Error, OSError) as error:
            return self._lost(error, delivered=delivered)
        subjects = info.config.subjects or []
        text = f"the stream {self._stream.stream} at {self._address} does not take {record.to}"
        if any(_may_meet(record.to, taken) for taken in subjects):
            return DestinationLost(f"{text} at the moment", delivered=delivered)
        return RecordRefused(f"{text}, but {', '.join(subjects)}", delivered=delivered)

    def _refusal(self, answer: Answer, delivered: int, *, to: str = "") -> DeliveryError:
        code, text = answer.get("err_code"), redact(answer.get("description") or "JetStream is not enabled there")
        if code in _REFUSED_RECORDS:
            return RecordRefused(f"{self._address} refuses a record for {to}: {text}", delivered=delivered)
        if code in _REFUSED_ALL or code is None:
            return DestinationRefused(f"{self._address} refuses to store records: {text}", delivered=delivered)
        return DestinationLost(f"{self._address} cannot store records: {text}", delivered=delivered)

    def _lost(self, error: Exception, *, delivered: int = 0) -> DestinationLost:
        cause = self._failure or error
        text = redact(cause).removeprefix("nats: ").strip("'. ")
        if _REFUSED_LOGIN.search(text.lower()):
            return DestinationRefused(f"{self._address} does not let us in: {text}", delivered=delivered)
        if isinstance(cause, TimeoutError):
            text = f"no answer within {self._seconds:g} s"
        return DestinationLost(f"{self._address}: {text or type(cause).__name__}", delivered=delivered)

    async def _on_answer(self, message: Msg) -> None:
        place = int(message.subject.rpartition(".")[2]) - self._first
        if 0 <= place < self._size:
            self._answers[place] = _read_answer(message)
            self._heard = self._loop.time()
            self._news.set()

    async def _on_error(self, error: Exception) -> None:
        if isinstance(error, FlushTimeoutError) and self._loop.time() < self._heard + self._seconds:
            return  # much to send on a slow line, but acknowledgements come
        self._failure = self._failure or error
        self._news.set()

    async def _on_disconnected(self) -> None:
        await self._on_error(ConnectionError("the server closed the connection"))


def read_credentials(file: Path) -> str:
    """Return the text of a `.creds` file. Raises OSError, ValueError when its parts are not there or not valid: the
    client would look for them for ever.
    """
    nkeys = import_module("nkeys")
    text = file.read_text(encoding="utf-8")
    parts = _CREDENTIALS.search(text)
    try:
        if parts is None:
            raise ValueError("its parts are missing")
        nkeys.from_seed(bytearray(parts[1].encode())).wipe()
    except (ValueError, nkeys.NkeysError) as error:
        raise ValueError(f"{file} does not hold a user's JWT and seed, as `nsc` writes them") from error
    return text


def _read_answer(message: Msg) -> Answer:
    """Return what is wrong with a message, by the words of JetStream; nothing when it was stored."""
    if message.headers and message.headers.get("Status") == "503":
        return _NOBODY_LISTENS
    try:
        error = json.loads(message.data).get("error", {})
    except (ValueError, AttributeError):
        return {"err_code": 0, "description": "an answer that is not from JetStream"}
    return dict(error)


def _answer(error: Any) -> Answer:
    return {"err_code": error.err_code, "description": error.description}


def _may_meet(subject: str, other: str) -> bool:
    """Whether there is a subject that both patterns match."""
    ours, theirs = subject.split("."), other.split(".")
    for one, two in zip(ours, theirs, strict=False):
        if ">" in (one, two):
            return True
        if one != two and "*" not in (one, two):
            return False
    return len(ours) == len(theirs)
