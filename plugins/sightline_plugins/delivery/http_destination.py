"""A web service that records are posted to: the URL with its credentials, and what its answers mean."""

from __future__ import annotations

import ssl
from collections.abc import Collection, Iterator, Mapping
from urllib.parse import quote, unquote, urlsplit

from sightline.errors import DeliveryError, DestinationLost, DestinationRefused, RecordRefused
from sightline.graph import Problem
from sightline_plugins.delivery.http_client import Answer, HttpClient, retry_after_ns
from sightline_plugins.delivery.refusals import excerpt

_BUSY = (408, 425, 429)


class HttpDestination:
    """Posts to one URL over one connection that is kept open. Messages name it as `where`, and hold no secrets.

    `headers` are those of the user, whose values are secrets, as are user, password and query of the URL and further
    `secrets`.
    """

    def __init__(
        self,
        url: str,
        *,
        where: str,
        headers: Mapping[str, str],
        tls: ssl.SSLContext | None,
        timeout_seconds: float,
        secrets: Collection[str] = (),
    ) -> None:
        parts = urlsplit(url)
        self.where = where
        self.query = f"?{quote(parts.query, safe='%=&:@!$()*+,;~/?')}" if parts.query else ""
        is_named = any(name.lower() == "user-agent" for name in headers)
        self._headers = dict(headers) if is_named else {"User-Agent": "sightline", **headers}
        user = None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))
        self._client = HttpClient(
            host=parts.hostname or "", port=parts.port, tls=tls, user=user, timeout_seconds=timeout_seconds
        )
        words = [*headers.values(), *(value.partition(" ")[2] for value in headers.values()), *secrets]
        self._secrets = [*words, *(user or ()), *(part.partition("=")[2] for part in parts.query.split("&"))]

    def connect(self) -> None:
        """Open the connection. Raises DestinationLost, DestinationRefused."""
        try:
            self._client.connect()
        except DeliveryError as error:
            raise type(error)(f"{self.where}: {error}") from error

    def post(self, target: str, *, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Post, and return the answer. Raises DestinationLost, DestinationRefused."""
        try:
            return self._client.post(target, body=body, headers={**self._headers, **headers})
        except DeliveryError as error:
            raise type(error)(f"{self.where}: {self.excerpt(str(error))}") from error

    def judge(self, answer: Answer, *, text: str, refused_record: Collection[int]) -> None:
        """Raise what an answer means, unless it is 2xx; `text` is what it says, and `refused_record` are the statuses
        with which the service refuses what was sent. Raises RecordRefused, DestinationLost, DestinationRefused.
        """
        status = answer.status
        if 200 <= status < 300:
            return
        said = self.excerpt(text)
        message = f"{self.where} answers {status}" + (f": {said}" if said else "")
        if 300 <= status < 400:
            target = self.excerpt(answer.headers.get("Location") or "another address")
            raise DestinationRefused(
                f"{self.where} redirects to {target} ({status}); redirects are not followed: "
                "write the new address into `url`"
            )
        if status in refused_record:
            raise RecordRefused(message)
        if status in _BUSY or not 400 <= status < 500:
            raise DestinationLost(message, retry_after_ns=retry_after_ns(answer.headers.get("Retry-After")))
        raise DestinationRefused(message)

    def excerpt(self, text: str) -> str:
        """Return the first 200 characters of a text without secrets."""
        return excerpt(text, secrets=self._secrets)

    def close(self) -> None:
        """Close the connection; harmless when called again."""
        self._client.close()


def credential_problems(url: str, headers: Mapping[str, str]) -> Iterator[Problem]:
    """Check that credentials are given once."""
    if urlsplit(url).username is not None and any(name.lower() == "authorization" for name in headers):
        yield Problem("give user and password in `url`, or the header Authorization, not both", ("headers",))
