"""The client of a server."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from sightline.api import PipelineState
from sightline.client.connection import Connection
from sightline.client.pipelines import PipelineClient, pipelines_of
from sightline.errors import ConfigurationError

if TYPE_CHECKING:
    from typing import Self


class Client:
    """Asks a server (`sightline run --listen`) by its API. A context manager; may be used from several threads.

    `url` is where the server is, else SIGHTLINE_URL, else `http://127.0.0.1:8080`. `token` is one that
    `sightline token add` has made, else SIGHTLINE_TOKEN. `ca_file` has the certificates (PEM) to trust for HTTPS,
    instead of those of the system. Reading is tried again for some seconds when the server does not answer within
    `timeout_seconds`; changes are sent once.

    >>> from sightline import Pipeline
    >>> from sightline.client import Client
    >>> from sightline.server import listen
    >>> source = {"pattern": "bars", "frames": 3}
    >>> pipeline = Pipeline(name="street", sources={"gate": source}, keep_running=True)
    >>> token = "0123456789abcdef"
    >>> with listen(pipeline, "127.0.0.1:0", token=token) as listener, pipeline:
    ...     with Client(listener.url, token=token) as client:
    ...         changed = client.pipeline().put_stream("yard", source)
    ...         [one.name for one in client.pipeline().streams()]
    ['gate', 'yard']
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        timeout_seconds: float = 30.0,
        ca_file: Path | str | None = None,
    ) -> None:
        """Nothing is asked yet. Raises ConfigurationError."""
        certificates = None if ca_file is None else Path(ca_file)
        self._connection = Connection(url, token=token, timeout_seconds=timeout_seconds, ca_file=certificates)

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._connection.url

    def pipelines(self) -> list[PipelineState]:
        """The pipelines of the server. Raises ClientError."""
        return pipelines_of(self._connection)

    def pipeline(self, name: str | None = None) -> PipelineClient:
        """Return a pipeline; the only one of the server when no name is given.

        Raises ClientError, and ConfigurationError when the server has several, or none.
        """
        if name is None:
            names = [one.name for one in self.pipelines()]
            if len(names) != 1:
                raise ConfigurationError(f"{self.url} has {len(names)} pipelines: name one of {', '.join(names)}")
            (name,) = names
        return PipelineClient(self._connection, name)

    def close(self) -> None:
        """Close the connections; harmless when called again."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
