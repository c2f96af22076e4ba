"""Secrets that are planted everywhere, and all that a client can see."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from sightline import Pipeline
from sightline.server import listen
from sightline.server.credentials import Role, TokenFile
from tests.integration.server.api.conftest import PIPELINE, Client

CANARIES = ("canary-of-the-camera", "canary-of-the-hook", "canary-of-the-header", "canary-in-the-query")
READ = (
    "/",
    "/status",
    "/metrics",
    "/readyz",
    "/api/v1/pipelines",
    "/api/v1/openapi.json",
    *(f"{PIPELINE}{path}" for path in ("", "/streams", "/elements", "/rules", "/configuration")),
    *(f"{PIPELINE}/{path}" for path in ("configuration/versions", "streams/cam", "elements/webhook-1", "report")),
    *(f"{PIPELINE}/{path}" for path in ("system", "logs", "audit")),
)


def shown_everywhere(tokens: TokenFile, folder: Path) -> list[str]:
    """The places in which a canary was seen, after every operation was called, rightly and wrongly."""
    camera, hook, header, query = CANARIES
    token = tokens.add("admin", Role.ADMIN)
    sources = cast("dict[str, Any]", {"cam": f"rtsp://admin:{camera}@127.0.0.1:9/main?password={query}"})
    options = {"url": "http://127.0.0.1:9/seen", "secret": hook, "headers": {"X-Key": header}, "timeout": "1s"}
    pipeline = Pipeline(
        name="street", sources=sources, steps=["draw", {"webhook": options}], outputs=folder, keep_running=True
    )
    said: list[str] = []
    pipeline.on_message(lambda message: said.append(message.text))
    with listen(pipeline, "127.0.0.1:0") as listener, pipeline:
        client = Client(listener.port, token)
        seen = {path: client.ask(path).body.decode() for path in READ}
        text = seen[f"{PIPELINE}/configuration"]
        yaml = {"content_type": "application/yaml", "If_Match": "*"}
        wrong = f"sources: {{x: 'rtsp://u:{camera}@[::1/'}}\npipeline: [{{webhook: {{url: 'ftp://{hook}'}}}}]"
        asked: list[tuple[str, str, object, dict[str, Any]]] = [
            ("configuration?prove=0", "PUT", text.encode(), yaml),
            ("configuration", "PUT", wrong.encode(), yaml),
            ("configuration/check", "POST", wrong.encode(), {"content_type": "application/yaml"}),
            ("streams/new", "PUT", f"rtsp://u:{camera}@127.0.0.1/x", {}),
            ("streams/new", "PUT", f"rtsp://u:{camera}@192.0.2.1:port/x", {}),
            ("streams/cam?prove=0", "PUT", client.ask("streams/cam").json()["source"], {}),
            ("elements/webhook-1?prove=0", "PATCH", {"timeout": "2s"}, {}),
            ("elements/webhook-1", "PATCH", {"secret": {"wrong": header}}, {}),
            ("elements/webhook-1", "PATCH", {"url": f"http://u:{hook}@192.0.2.1/"}, {}),
            ("configuration/rollback?prove=0", "POST", None, {}),
            (f"streams/cam/record?token={token}", "POST", {"before": "soon"}, {}),
        ]
        for number, (path, method, body, more) in enumerate(asked):
            seen[f"{number} {method} {path}"] = client.ask(path, method, body, **more).body.decode()
        seen |= {f"{path} later": client.ask(path).body.decode() for path in READ}
        assert pipeline.description.sources["cam"].model_dump()["uri"].count(camera) == 1
    for file in (tokens.path.with_name("audit.jsonl"), tokens.path):
        seen[file.name] = file.read_text()
    seen["messages"] = "\n".join(said)
    secrets = (*CANARIES, token.partition(".")[2])
    return [place for place, content in seen.items() if any(one in content for one in secrets)]
