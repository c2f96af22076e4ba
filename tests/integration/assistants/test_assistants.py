"""`sightline mcp` with the client of the protocol's own SDK: over standard input, over HTTP, and beside a server."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import httpx2
import pytest

from sightline import Pipeline
from sightline.server import listen
from sightline.server.credentials import Role, TokenFile
from tests.conftest import REPOSITORY
from tests.integration.cli.conftest import command

if TYPE_CHECKING:  # the SDK takes 0.6 s to import, and each process of the tests would do so to collect them
    from mcp import Client
    from mcp.types import CallToolResult

CONVERSATION = json.loads((Path(__file__).parent / "conversation.json").read_text())
STREET = """sources: {street: sample_videos/street.mp4}
pipeline:
  - replay: {path: sample_videos/street.mot.txt}
  - track
  - lines: {gate: {from: [0, 0.6], to: [1, 0.6]}}
  - jsonl: out/{stream}.jsonl
"""
READING = {
    "list_elements": {},
    "describe_element": {"name": "zones"},
    "list_pages": {},
    "read_page": {"name": "guide/rules"},
    "search_docs": {"words": "parking"},
    "check": {"configuration": STREET},
    "explain_file": {"file": "configs/count-vehicles.yaml"},
}
T = TypeVar("T")


def talk(client: Client, what: Callable[[Client], Awaitable[T]]) -> T:
    """Connect, do something, disconnect."""

    async def talked() -> T:
        async with client:
            return await what(client)

    return anyio.run(talked)


def here(*arguments: str, root: Path = REPOSITORY) -> Client:
    """A client of a server of its own, over standard input."""
    from mcp import Client, StdioServerParameters

    program, *rest = command("mcp", "--root", str(root), *arguments)
    return Client(StdioServerParameters(command=program, args=rest, env=dict(os.environ)))


def text_of(answer: CallToolResult) -> str:
    from mcp.types import TextContent

    assert isinstance(answer.content[0], TextContent)
    return answer.content[0].text


def of(answer: CallToolResult) -> Any:
    assert not answer.is_error, text_of(answer)
    return json.loads(text_of(answer))


def test_every_tool_answers_and_every_error_is_one_sentence() -> None:
    async def all_of_them(client: Client) -> tuple[set[str], dict[str, CallToolResult], list[CallToolResult]]:
        names = {tool.name for tool in (await client.list_tools()).tools}
        answers = {name: await client.call_tool(name, arguments) for name, arguments in READING.items()}
        wrong = [
            await client.call_tool("describe_element", {"name": "linse"}),
            await client.call_tool("read_page", {"name": "guide/rule"}),
            await client.call_tool("explain_file", {"file": "none.yaml"}),
            await client.call_tool("run", {"configuration": "../away.yaml"}),
            await client.call_tool("run", {"configuration": STREET, "seconds": 1e9}),
        ]
        return names, answers, wrong

    names, answers, wrong = talk(here(), all_of_them)

    assert names == {*READING, "run"}
    assert not [name for name, answer in answers.items() if answer.is_error]
    assert of(answers["check"]) == {
        "valid": True,
        "streams": ["street"],
        "steps": ["replay-1", "track-1", "lines-1", "jsonl-1"],
        "advice": [],
    }
    assert all(answer.is_error for answer in wrong)
    told = ["did you mean 'lines'", "did you mean 'guide/rules'", "none.yaml: cannot be read", "is not below", "120"]
    assert [part in text_of(answer) for part, answer in zip(told, wrong, strict=True)] == [True] * len(told)
    assert not [answer for answer in wrong if "Traceback" in text_of(answer)]


def test_a_run_gives_counts_and_images_and_leaves_nothing(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    for name in ("street.mp4", "street.mot.txt"):
        (root / name).symlink_to(root / f"of-{name}")
        (root / f"of-{name}").write_bytes((REPOSITORY / "sample_videos" / name).read_bytes())
    configuration = STREET.replace("sample_videos/", "")

    async def run(client: Client) -> CallToolResult:
        return await client.call_tool("run", {"configuration": configuration, "seconds": 20, "images": 2})

    answer = talk(here(root=root), run)

    plain = of(answer)
    expected = counts(configuration.replace("street.m", f"{root}/street.m"), tmp_path)
    assert plain["totals"]["lines-1"]["street"] == expected
    assert plain["streams"]["street"]["frames"] == 500
    assert plain["event_counts"]["lines-1.gate"] == sum(expected["gate"].values()) == len(plain["events"])
    assert plain["written"][0]["name"] == "out/street.jsonl"
    assert plain["written"][0]["beginning"].startswith('{"stream":"street","frame":0')
    assert [one["frame"] for one in plain["images"]] == [125, 375]
    images = [one for one in answer.content if one.type == "image"]
    assert [one.mime_type for one in images] == ["image/jpeg"] * 2
    assert len(list(root.iterdir())) == 4


def counts(configuration: str, folder: Path) -> Any:
    """What the lines of the same pipeline count, run without an assistant."""
    (folder / "street.yaml").write_text(configuration)
    report = Pipeline.from_yaml(folder / "street.yaml", outputs=folder / "results").run(duration_ns=20_000_000_000)
    return report.to_json()["totals"]["lines-1"]["street"]


def test_a_model_mends_its_configuration_by_what_it_is_told() -> None:
    """The conversation was recorded: a configuration as somebody writes it who knows other tools, and what was changed
    after each answer. What the next step relied on is reported today, too.
    """

    async def again(client: Client) -> list[CallToolResult]:
        answers = []
        for step in CONVERSATION["steps"]:
            arguments = {key: step[key] for key in ("configuration", "name") if key in step}
            answers.append(await client.call_tool(step["tool"], arguments))
        run = {"configuration": CONVERSATION["steps"][-1]["configuration"], "seconds": 8, "images": 0}
        return [*answers, await client.call_tool("run", run)]

    *answers, run = talk(here(), again)

    for step, answer in zip(CONVERSATION["steps"], answers, strict=True):
        plain = of(answer)
        if step["tool"] == "describe_element":
            told = {one["key"]: one["meaning"] for one in plain["options"]}
        else:
            told = {one["path"]: one["message"] for one in plain.get("problems", [])}
            assert plain["valid"] == (not step["used"])
        for path, message in step["used"]:
            assert message in told[path]
    assert of(run)["totals"]["lines-1"]["street"]["gate"]["in"] > 0


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, str]:
    """Tokens of each role, in a file of their own."""
    file = TokenFile(tmp_path / "tokens.json")
    return {role: file.add(role, role) for role in Role}


@pytest.fixture
def address(tmp_path: Path, tokens: dict[str, str]) -> Iterator[str]:
    """A server over HTTP for who has one of the tokens."""
    process = subprocess.Popen(
        command("mcp", "--root", str(REPOSITORY), "--listen", "127.0.0.1:0"),
        env={**os.environ, "SIGHTLINE_TOKENS": str(tmp_path / "tokens.json")},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    found = next(match[1] for line in process.stderr if (match := re.match(r"listening on (\S+)", line)))
    yield found
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode in (0, 130)


def over_http(url: str, token: str, what: Callable[[Client], Awaitable[T]]) -> T:
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async def talked() -> T:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=300) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            return await what(client)

    return anyio.run(talked)


def test_over_http_a_token_is_needed_and_its_role_decides(address: str, tokens: dict[str, str]) -> None:
    for shown in ({}, {"Authorization": "Bearer wrong-token-0123456789"}):
        answer = httpx2.post(
            address, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=shown, timeout=300
        )
        assert answer.status_code == 401
    headers = {"Host": "evil.example", "Authorization": f"Bearer {tokens['admin']}"}
    elsewhere = httpx2.post(address, json={}, headers=headers, timeout=300)
    assert elsewhere.status_code == 421

    async def both(client: Client) -> list[CallToolResult]:
        run = {"configuration": STREET, "seconds": 0.2, "images": 0}
        return [await client.call_tool("check", {"configuration": STREET}), await client.call_tool("run", run)]

    checked, refused = over_http(address, tokens[Role.VIEWER], both)
    assert of(checked)["valid"]
    assert refused.is_error
    assert "this needs the role operator; 'viewer' is viewer" in text_of(refused)
    assert of(over_http(address, tokens[Role.OPERATOR], both)[1])["streams"]["street"]["frames"] == 5


def test_a_running_server_is_asked_and_changed_only_with_the_flag() -> None:
    token = "0123456789abcdef"
    source = {"pattern": "moving", "size": [64, 48], "frames": None, "realtime": True}
    pipeline = Pipeline(name="street", sources={"gate": source}, keep_running=True)

    async def look(client: Client) -> tuple[set[str], list[CallToolResult]]:
        names = {tool.name for tool in (await client.list_tools()).tools}
        calls: list[tuple[str, dict[str, Any]]] = [
            ("server_status", {}),
            ("server_configuration", {}),
            ("server_events", {"limit": 5}),
            ("server_image", {"stream": "gate"}),
            ("server_image", {"stream": "yard"}),
        ]
        return names, [await client.call_tool(*call) for call in calls]

    async def change(client: Client) -> CallToolResult:
        read = of(await client.call_tool("server_configuration", {}))
        text = read["configuration"].replace("gate:", "yard:")
        return await client.call_tool("apply_configuration", {"configuration": text, "etag": read["etag"]})

    with listen(pipeline, "127.0.0.1:0", token=token) as listener, pytest.MonkeyPatch.context() as patch, pipeline:
        patch.setenv("SIGHTLINE_TOKEN", token)
        names, answers = talk(here("--server", listener.url), look)
        changed = talk(here("--server", listener.url, "--allow-changes"), change)
        assert list(pipeline.description.sources) == ["yard"]
        patch.setenv("SIGHTLINE_TOKEN", "another-token-0123456789")
        _, unknown = talk(here("--server", listener.url), look)

    assert "apply_configuration" not in names
    assert "server_status" in names
    assert [one.is_error for one in answers] == [False, False, False, False, True]
    assert [one["name"] for one in of(answers[0])["streams"]] == ["gate"]
    assert answers[3].content[0].type == "image"
    assert of(changed)["proven"]
    assert all(one.is_error and "token" in text_of(one) for one in unknown)
