"""Listening: a pipeline watched over HTTP."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from sightline.graph import Message, PipelineDescription
from sightline.media import Batch
from sightline.runtime.view import RunView
from sightline.serve.access import Access, check_token
from sightline.serve.address import Address, is_loopback
from sightline.serve.images import Images, encoder, viewpoint
from sightline.serve.journal import Journal
from sightline.serve.routes import Routes
from sightline.serve.server import Server

if TYPE_CHECKING:
    from typing import Self

TOKEN_VARIABLE = "SIGHTLINE_TOKEN"  # noqa: S105  the name of a variable


class Watched(Protocol):
    """What is watched: a `sightline.Pipeline`."""

    @property
    def description(self) -> PipelineDescription:
        """What the pipeline is."""
        ...

    def view(self) -> RunView | None:
        """The run at this moment."""
        ...

    def probe(self, element_id: str, look: Callable[[Batch], None]) -> None:
        """Call `look` with every batch that leaves a step."""
        ...

    def on_message(self, listener: Callable[[Message], None]) -> None:
        """Call `listener` with every message."""
        ...


class Listener:
    """Answers requests until it is closed; a context manager. `url` is where the page is."""

    def __init__(self, server: Server, *, routes: Routes, host: str) -> None:
        self._server = server
        self.port = server.port
        self.url = f"http://{Address(host or server.host, server.port)}/"
        server.start(routes.answer)

    def close(self) -> None:
        """Stop listening; harmless when called again."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def listen(
    pipeline: Watched, address: str = "127.0.0.1:8080", *, token: str | None = None, images: str | None = None
) -> Listener:
    """Serve a pipeline's health, metrics, status and page over HTTP, also while it is not running.

    To be called before the pipeline is started. `token` (else the environment's SIGHTLINE_TOKEN) is what every request
    then needs; it can only be left out where nobody but this machine gets in. `images` is the id of the step behind
    which the page's live images are taken: the last one that draws when not given.

    Raises ConfigurationError.

    >>> from sightline import Pipeline
    >>> from sightline.serve import listen
    >>> pipeline = Pipeline(sources={"test": {"pattern": "bars", "frames": 3}})
    >>> with listen(pipeline, "127.0.0.1:0") as listener:
    ...     report = pipeline.run()
    """
    wanted = Address.parse(address)
    token = os.environ.get(TOKEN_VARIABLE) or None if token is None else token
    point = viewpoint(pipeline.description, wanted=images)
    _, (host, _) = wanted.resolve()
    check_token(token, is_loopback=is_loopback(host), address=str(wanted))
    server = Server(wanted)
    journal, encode = Journal(), encoder()
    shown = None if encode is None or point is None else Images(encode)
    if shown is not None and point is not None:
        pipeline.probe(point, shown.look)
    pipeline.on_message(journal.note)
    routes = Routes(pipeline.view, access=Access(token=token, port=server.port), journal=journal, images=shown)
    return Listener(server, routes=routes, host=wanted.host)
