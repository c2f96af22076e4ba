"""What hostile clients give the API is refused before anything of it is used."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from sightline.server.policy import Policy
from tests.integration.server.api.conftest import Steered
from tests.integration.server.hostile_urls import ADDRESSES, FILES
from tests.integration.server.openings import watching
from tests.integration.sources.canaries import hearing, serving

YAML = "application/yaml"


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    """A folder may be read, but no code may be named."""
    (tmp_path / "inside").mkdir()
    return Policy(files=(tmp_path / "inside",))


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A Python file that leaves `ran` beside it when it is imported."""
    file = tmp_path / "trap.py"
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\ndef run(*given): pass\n")
    return file


@pytest.mark.parametrize(
    "step", ["apply: {{function: '{}:run'}}", "callback: '{}:run'", "infer: {{model: a.onnx, head: '{}:run'}}"]
)
def test_code_that_is_named_is_not_even_imported(steered: Steered, trap: Path, step: str) -> None:
    text = f"sources: {{gate: {{pattern: bars}}}}\npipeline: [{{{step.format(trap)}}}]".encode()

    checked = steered.operator.ask("configuration/check", "POST", text, content_type=YAML)
    applied = steered.admin.ask("configuration", "PUT", text, content_type=YAML, If_Match="*")

    assert not trap.with_name("ran").exists()
    assert any("--allow-code" in problem["message"] for problem in checked.json()["problems"]), checked.body
    assert applied.status == 422


def test_no_hostile_address_reaches_anything(steered: Steered, tmp_path: Path) -> None:
    for name in ("inside", "outside"):
        (tmp_path / name).mkdir(exist_ok=True)
    clip = tmp_path / "outside" / "clip.mp4"
    clip.write_bytes(b"0" * 1000)
    before = steered.pipeline.configuration.etag
    with serving() as four, serving(host="::1") as six, hearing() as (udp, packets), watching(clip) as openings:
        places = {"file": clip, "folder": clip.parent, "inside": tmp_path / "inside"}
        ports = {"port": four.port, "port6": six.port, "udp": udp}
        texts = [one.text.format(**places, **ports) for one in (*FILES, *ADDRESSES)]
        answers = {
            text: steered.admin.ask("streams/new?prove=0", "PUT", {"uri": text}).status
            for text in texts
            if "rebinding" not in text
        }

        assert {text: status for text, status in answers.items() if status not in (400, 422)} == {}
        assert (four.connections + six.connections, packets(), openings()) == (0, 0, 0)
    assert steered.pipeline.configuration.etag == before


def test_a_file_of_sources_is_not_even_read(steered: Steered, tmp_path: Path) -> None:
    secret = tmp_path / "secret.yaml"
    secret.write_text("what-is-secret: [")
    text = f"sources_file: {secret}\npipeline: [draw]".encode()
    with watching(secret) as openings:
        checked = steered.operator.ask("configuration/check", "POST", text, content_type=YAML)
        assert openings() == 0
    assert checked.json()["problems"][0]["path"] == "sources_file"
    assert b"what-is-secret" not in checked.body


def test_no_name_service_is_asked_for_a_server_that_may_not_be_named(
    steered: Steered, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    resolve = socket.getaddrinfo

    def noted(host: str, *rest: Any, **options: Any) -> Any:
        asked.append(host)
        return resolve(host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", noted)
    text = b"sources: {gate: {pattern: bars}}\npipeline: [{mqtt: {url: 'mqtt://internal.example'}}]"

    checked = steered.operator.ask("configuration/check", "POST", text, content_type=YAML)

    assert "--allow-host" in checked.json()["problems"][0]["message"]
    assert "internal.example" not in asked
