"""The one web application of a run: what it is made of, and how it is served."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from sightline.errors import ConfigurationError
from sightline.graph import Mounts, Outputs
from sightline.graph.rule import Rule
from sightline.pipeline import Pipeline
from sightline.server.address import Address, is_loopback
from sightline.server.api import routers_of
from sightline.server.api.document import Application
from sightline.server.api.served import Served
from sightline.server.audit import AuditLog
from sightline.server.credentials import OneToken, TokenFile, token_file
from sightline.server.disks import DiskSurvey
from sightline.server.event_images import EventImages
from sightline.server.event_scenes import Trails, scene_of
from sightline.server.feed import EventFeed
from sightline.server.frames_shown import FramesShown
from sightline.server.guard import API, Guard, refusal
from sightline.server.history import History
from sightline.server.history_store import HistoryStore, history_path
from sightline.server.images import ImageEncoder, Images, encoder
from sightline.server.journal import Journal
from sightline.server.limits import Limits
from sightline.server.live import live_video
from sightline.server.logs import LogRing
from sightline.server.monitoring import Monitoring
from sightline.server.pages import dashboard_router
from sightline.server.policy import Policy
from sightline.server.recordings import Recordings
from sightline.server.refusals import ANSWERS, PROBLEM, REFUSALS
from sightline.server.serving import Certificate, ServerThread
from sightline.server.track_search import TrackSearches

if TYPE_CHECKING:
    from typing import Self

TOKEN_VARIABLE = "SIGHTLINE_TOKEN"  # noqa: S105  the name of a variable
STEPS = "/steps"
DOCUMENT = f"{API}v1/openapi.json"
_LARGEST_SNAPSHOT_WH = (16_384, 16_384)
_ABOUT = "See and steer a running video analytics pipeline."
_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"description": text, "content": {"application/problem+json": {"schema": PROBLEM}}}
    for status, text in REFUSALS.items()
}


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How a pipeline is served. `images` is the id of the step behind which live video and images are taken: what has
    passed all steps when not given. `policy` is what clients may change. `audit` is the file of the audit log, by
    default beside that of the tokens.
    """

    images: str | None = None
    policy: Policy = field(default_factory=Policy)
    audit: Path | None = None


def application_of(pipeline: Pipeline, options: ServerOptions) -> tuple[FastAPI, Served]:
    """Make the application, without access control, and what its routes work on; to be called before the pipeline is
    started. What is served is started and closed with the server.

    A run in several processes has no images and no live video here: they stay in the workers. Raises ConfigurationError
    when no step has the id `images`.
    """
    journal, encode, live, shown, snapshots = Journal(), None, None, None, None
    has_images = pipeline.description.process_count == 1
    if has_images:
        frames = FramesShown(pipeline, step=options.images)
        encode, live = encoder(), live_video(pipeline.packets)
    elif options.images is not None:
        raise ConfigurationError(
            "no images are served of a run in several processes: leave out --images or `processes`"
        )
    if encode is not None:
        shown, snapshots = Images(encode), Images(encode, largest_wh=_LARGEST_SNAPSHOT_WH)
        frames.add(shown.take)
        frames.add(snapshots.take)
    if live is not None:
        frames.add(live.take)
    pipeline.on_message(journal.note)
    mounts = pipeline.mounts
    mounts.is_served = True
    application = empty_application()
    monitoring = Monitoring(pipeline.view, journal=journal, served=lambda: sorted(mounts.present()))
    application.include_router(monitoring.router())
    trails = Trails()
    for name, element in pipeline.description.elements():
        if has_images and isinstance(element, Rule):
            pipeline.probe(name, trails.look)
    feed = EventFeed(describe=partial(scene_of, trails=trails))
    pipeline.on_events(feed.take)
    pipeline.on_message(feed.note)
    store = _history_store(pipeline)
    recordings = Recordings(store, epoch=feed.epoch, newest_pts_ns=trails.newest_pts_ns)
    pipeline.on_message(recordings.note)
    history = History(store, view=pipeline.view, feed=feed, on_tick=recordings.flush)
    pipeline.on_batches(lambda batch, _: history.heat.take(batch))
    logs = LogRing()
    pipeline.on_message(logs.note)
    served = Served(
        pipeline,
        journal=journal,
        policy=options.policy,
        audit=AuditLog(options.audit or token_file().with_name("audit.jsonl"), pipeline=pipeline.description.name),
        feed=feed,
        history=history,
        images=shown,
        snapshots=snapshots,
        live=live,
        event_images=None if encode is None else _event_images(pipeline, encode, store=store, epoch=feed.epoch),
        recordings=recordings,
        tracks=TrackSearches(pipeline),
        logs=logs,
        disks=DiskSurvey(pipeline.outputs_root),
    )
    application.include_router(dashboard_router())
    for router in routers_of(served):
        application.include_router(router)
    application.router.routes.append(Mount(STEPS, app=_Steps(mounts)))
    return application, served


def empty_application(*, document_url: str | None = DOCUMENT) -> FastAPI:
    """Make an application without routes, which answers errors as all do, and with the document of its API there."""
    application = Application(
        title="Sightline",
        version=version("sightline"),
        description=_ABOUT,
        openapi_url=document_url,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses=_REFUSALS,
        generate_unique_id_function=lambda route: route.name,
    )
    for kind, answer in ANSWERS.items():
        application.add_exception_handler(kind, answer)
    return application


def _event_images(pipeline: Pipeline, encode: ImageEncoder, *, store: HistoryStore, epoch: int) -> EventImages:
    """Let images of events be made."""
    images = EventImages(encode, store=store, description=lambda: pipeline.description, epoch=epoch)
    pipeline.on_events(images.want)
    if images.point is not None:
        pipeline.probe(images.point, images.look)
    return images


def _history_store(pipeline: Pipeline) -> HistoryStore:
    """Where the history is kept: beside the outbox."""
    description, outputs = pipeline.description, Outputs(pipeline.outputs_root)
    description.limit(outputs)
    path = history_path(outputs.path(description.outbox_path), description)
    return HistoryStore(path, outputs=outputs)


class _Steps:
    """Passes requests below `/steps/ID/` on to what the element serves."""

    def __init__(self, mounts: Mounts) -> None:
        self._mounts = mounts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the element answer; 404 when it serves nothing."""
        root = scope.get("root_path", "")
        element_id, slash, _ = scope["path"].removeprefix(f"{root}/").partition("/")
        application = self._mounts.present().get(element_id)
        if application is not None and slash:
            await application({**scope, "root_path": f"{root}/{element_id}"}, receive, send)
            return
        answer = refusal(scope["path"], HTTPStatus.NOT_FOUND, f"the step {element_id!r} serves nothing")
        if scope["type"] == "http":
            await answer(scope, receive, send)
        else:
            await WebSocket(scope, receive, send).send_denial_response(answer)


class Listener:
    """Answers requests until it is closed; a context manager. `url` is where the page is.

    `first_token` is the token that was made because there was none yet; it is kept as a hash only.
    """

    def __init__(
        self, server: ServerThread, *, served: Served | None, url: str, port: int, first_token: str | None
    ) -> None:
        self._server = server
        self._served = served
        self.url = url
        self.port = port
        self.first_token = first_token

    def close(self) -> None:
        """Stop listening; harmless when called again."""
        self._server.close()
        if self._served is not None:
            self._served.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def listen(
    pipeline: Pipeline,
    address: str = "127.0.0.1:8080",
    *,
    token: str | None = None,
    images: str | None = None,
    certificate: Certificate | None = None,
    policy: Policy | None = None,
) -> Listener:
    """Serve a pipeline's health, metrics, status, page and API over HTTP, also while it is not running.

    To be called before the pipeline is started. `token` (else the environment's SIGHTLINE_TOKEN) is what whoever asks
    has to show; when there is neither, tokens are those of a file (`sightline token`), and on the loopback, where
    monitoring needs none, the first one is made now.
    `images` is the id of the step behind which live video and images are taken: what has passed all steps when not
    given. `certificate` makes it HTTPS. `policy` is what clients may change.

    Raises ConfigurationError.

    >>> from sightline import Pipeline
    >>> from sightline.server import listen
    >>> pipeline = Pipeline(sources={"test": {"pattern": "bars", "frames": 3}})
    >>> with listen(pipeline, "127.0.0.1:0", token="0123456789abcdef") as listener:
    ...     report = pipeline.run()
    """
    options = ServerOptions(images=images, policy=policy or Policy())
    return open_listener(partial(application_of, pipeline, options), address, token=token, certificate=certificate)


def open_listener(
    make: Callable[[], tuple[ASGIApp, Served | None]],
    address: str,
    *,
    token: str | None,
    certificate: Certificate | None,
) -> Listener:
    """Serve the application that `make` returns, with the pipeline that it is about, behind the login and its limits;
    the rest is as in `listen`.
    """
    wanted = Address.parse(address)
    token = os.environ.get(TOKEN_VARIABLE) or None if token is None else token
    is_local = is_loopback(wanted.resolve()[1][0])
    known = TokenFile() if token is None else OneToken(token)
    if isinstance(known, TokenFile) and not is_local and not known.entries():
        raise ConfigurationError(
            f"{address} can be reached from other machines, so a token is needed: set SIGHTLINE_TOKEN (or --token),"
            " such as from `openssl rand -hex 16`, make one by `sightline token add`, or listen on 127.0.0.1"
        )
    application, served = make()
    listening = wanted.bind()
    host, port = listening.getsockname()[:2]
    is_open_here = is_local and token is None
    guarded = Limits(Guard(application, credentials=known, is_open_here=is_open_here, port=port))
    server = ServerThread(
        guarded, listening, certificate=certificate, on_stop=_nothing if served is None else served.stop
    )
    try:
        first = known.begin() if isinstance(known, TokenFile) else None
    except BaseException:
        server.close()
        raise
    if served is not None:
        served.start()
    scheme = "http" if certificate is None else "https"
    url = f"{scheme}://{Address(wanted.host or host, port)}/"
    return Listener(server, served=served, url=url, port=port, first_token=first)


def _nothing() -> None:
    """Nothing is to be done."""
