"""`webhook`: records are posted to a web service, in signed batches."""

from __future__ import annotations

import hashlib
import hmac
import re
import ssl
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Annotated, ClassVar, Literal
from urllib.parse import quote, urlsplit

from pydantic import AfterValidator, Field

from sightline.errors import DeliveryError, RecordRefused
from sightline.graph import CheckContext, Problem, Site
from sightline.graph.http_headers import check_headers
from sightline.graph.transport import Record, Transport
from sightline_plugins.delivery.acknowledged import Acknowledged
from sightline_plugins.delivery.content_types import is_json
from sightline_plugins.delivery.http_destination import HttpDestination, credential_problems
from sightline_plugins.delivery.refusals import deliver_in_parts
from sightline_plugins.delivery.tls import TlsDelivery
from sightline_plugins.delivery.urls import readable_url

_OWN = re.compile("connection|content-length|content-type|host|idempotency-key|transfer-encoding|sightline-.*")
_BATCHES = {"application/cloudevents+json": "application/cloudevents-batch+json"}
_REFUSED_RECORD = (400, 404, 409, 410, 413, 414, 415, 422, 431)


def _checked_headers(headers: dict[str, str]) -> dict[str, str]:
    check_headers(headers, own=_OWN, by="webhook")
    return headers


class Webhook(TlsDelivery):
    """Post records to a web service.

    The path of `url` is a template with `{stream}`, `{kind}` and `{pipeline}`. Up to `batch` records for the same path
    travel in one request, as a JSON array; records that are not JSON travel one by one. Larger batches cost less time
    per record. For each path, the records of a stream arrive in order.

    Any 2xx answer acknowledges the request. After 408, 425, 429, 5xx or no answer, it is sent again later, and not
    before the time in `Retry-After`. After 401 or 403 it is sent again too, once the credentials may have been
    corrected. After 400, 404, 409, 410, 413, 415 or 422 the batch is halved until the refused record is found, so the
    service should accept or refuse a request as a whole. Redirects are not followed.

    A record can arrive twice, when an answer is lost. The headers `Sightline-First` and `Sightline-Last` hold
    `STREAM/EPOCH/SEQ` of the first and the last record, and `Sightline-Sender` holds `PIPELINE/STEP`, all
    percent-encoded. `Idempotency-Key` is the same whenever the same records are sent.

    With a `secret` each request is signed. `Sightline-Signature: t=UNIX_TIME,v1=HEX` holds the HMAC-SHA256 of the time,
    a dot and the body. A receiver in Python checks it so, with `import hmac, time`:

    ```python
    def is_genuine(header: str, body: bytes, secret: str) -> bool:
        signed = dict(part.split("=", 1) for part in header.split(","))
        message = signed["t"].encode() + b"." + body
        wanted = hmac.new(secret.encode(), message, "sha256").hexdigest()
        is_recent = abs(time.time() - int(signed["t"])) < 300
        return is_recent and hmac.compare_digest(signed["v1"], wanted)
    ```

    ```yaml
    - webhook: {url: "https://example.com/hooks/{stream}/{kind}", send: [events], batch: 1}
    ```
    """

    name: ClassVar[str] = "webhook"
    schemes: ClassVar[tuple[str, ...]] = ("http", "https")
    tls_schemes: ClassVar[tuple[str, ...]] = ("https",)
    address_key: ClassVar[str | None] = "url"
    unsafe: ClassVar[re.Pattern[str]] = re.compile(r"\A\.{1,2}\Z|[^A-Za-z0-9._-]+")

    url: Annotated[str, AfterValidator(readable_url), Field(repr=False)]
    """Where records are posted. Credentials belong into environment variables: `${NAME}`."""
    batch: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Maximum number of records in a request; with 1 the body is the record itself."""
    body: Literal["array", "lines"] = "array"
    """How several records share a body: as a JSON array, or as JSON lines."""
    headers: Annotated[Annotated[dict[str, str], AfterValidator(_checked_headers)] | None, Field(repr=False)] = None
    """Headers of each request, such as `Authorization`. Their values are treated as secrets."""
    secret: Annotated[Annotated[str, Field(min_length=1)] | None, Field(repr=False)] = None
    """Key that requests are signed with; without it they are not signed."""

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check the URL and its template, the headers, and that the certificates can be loaded."""
        yield from super().check(context)
        parts = urlsplit(self.url)
        if "{" in parts.netloc or "{" in parts.query:
            yield Problem("placeholders belong into the path of the URL, not into its host or its query", ("url",))
        yield from credential_problems(self.url, self.headers or {})

    def destination(self) -> str:
        """Return the URL without credentials and without its query, which may hold a token."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def template(self) -> str:
        """Return the path of the URL."""
        return urlsplit(self.url).path

    def address(self, stream: str, kind: str, *, pipeline: str) -> str:
        """Return the path that a record of this stream and kind is posted to."""
        return quote(super().address(stream, kind, pipeline=pipeline) or "/", safe="/%:@!$&'()*+,;=~")

    def transport(self, site: Site) -> Transport:
        """Make the transport, without connecting. Raises ConfigurationError when a certificate cannot be loaded."""
        return WebhookTransport(self, sender=f"{site.pipeline}/{site.element_id}", tls=self.tls_context())


class WebhookTransport(Transport):
    """Posts records over one connection that is kept open."""

    def __init__(self, element: Webhook, *, sender: str, tls: ssl.SSLContext | None) -> None:
        self._element = element
        self._sender = quote(sender, safe="/", errors="replace")
        self._service = HttpDestination(
            element.url,
            where=element.destination(),
            headers=element.headers or {},
            tls=tls,
            timeout_seconds=element.timeout / 1e9,
            secrets=[element.secret or ""],
        )
        self._acknowledged = Acknowledged()

    def connect(self) -> None:
        """Open the connection."""
        self._service.connect()

    def deliver(self, records: Sequence[Record]) -> None:
        """Post the records, those for one path together.

        Records that arrived before an error are remembered, also behind the one that failed, and not sent again.
        """
        missing, end = set(self._acknowledged.missing(records)), len(records)
        failure: DeliveryError | None = None
        for indexes in _by_path(records, missing):
            wanted = [index for index in indexes if index < end]
            try:
                self._deliver_to_path([records[index] for index in wanted])
            except DeliveryError as error:
                failure = error
                missing.difference_update(wanted[: error.delivered])
                if not isinstance(error, RecordRefused):
                    break
                end = wanted[error.delivered]
            else:
                missing.difference_update(wanted)
        delivered = self._acknowledged.count(records, missing)
        if failure is not None:
            failure.delivered = delivered
            raise failure

    def close(self) -> None:
        """Close the connection."""
        self._service.close()

    def _deliver_to_path(self, records: Sequence[Record]) -> None:
        done = 0
        for content_type, group in groupby(records, key=lambda record: record.content_type):
            run = list(group)
            size = self._element.batch if is_json(content_type) else 1
            try:
                deliver_in_parts(run, self._post, size=size)
            except DeliveryError as error:
                error.delivered += done
                raise
            done += len(run)

    def _post(self, records: Sequence[Record]) -> None:
        body, content_type = self._body(records)
        first, last = _name(records[0]), _name(records[-1])
        ids = "\n".join(f"{record.stream}\t{record.epoch}\t{record.seq}" for record in records)
        known = hashlib.sha256(f"{self._sender}\n{ids}".encode(errors="surrogatepass"))
        headers = {
            "Content-Type": content_type,
            "Sightline-Sender": self._sender,
            "Sightline-First": first,
            "Sightline-Last": last,
            "Idempotency-Key": f'"{known.hexdigest()[:32]}"',
        }
        if self._element.secret is not None:
            headers["Sightline-Signature"] = signature(body, secret=self._element.secret, unix_time=int(time.time()))
        answer = self._service.post(f"/{records[0].to.lstrip('/')}{self._service.query}", body=body, headers=headers)
        self._service.judge(answer, text=answer.text, refused_record=_REFUSED_RECORD)

    def _body(self, records: Sequence[Record]) -> tuple[bytes, str]:
        content_type = records[0].content_type
        if self._element.batch == 1 or not is_json(content_type):
            return records[0].body, content_type
        if self._element.body == "lines":
            return b"".join(b" ".join(record.body.splitlines()) + b"\n" for record in records), "application/x-ndjson"
        mime = content_type.partition(";")[0].strip().lower()
        return b"[" + b",".join(record.body for record in records) + b"]", _BATCHES.get(mime, "application/json")


def signature(body: bytes, *, secret: str, unix_time: int) -> str:
    """Return the value of the header `Sightline-Signature`.

    >>> signature(b"[]", secret="key", unix_time=0)
    't=0,v1=0d3a810e1e5943de594c25c7a0b72e5b38fbb411c1a3efc94df0f4b9461008cc'
    """
    digest = hmac.new(secret.encode(), f"{unix_time}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={unix_time},v1={digest}"


def _by_path(records: Sequence[Record], places: Iterable[int]) -> Iterable[Sequence[int]]:
    """Return the places of records, those for one path together."""
    paths: dict[str, list[int]] = {}
    for place in sorted(places):
        paths.setdefault(records[place].to, []).append(place)
    return paths.values()


def _name(record: Record) -> str:
    return f"{quote(record.stream, safe='', errors='replace')}/{record.epoch}/{record.seq}"
