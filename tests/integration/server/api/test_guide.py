"""The examples of the guide to the API, as they stand on the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from starlette.staticfiles import StaticFiles

from sightline import Pipeline
from tests.conftest import REPOSITORY
from tests.integration.dashboard.browser import browser as browser
from tests.integration.dashboard.browser import page as page
from tests.integration.dashboard.browser import until
from tests.integration.delivery.servers import program
from tests.integration.server.api.conftest import Steered, steps
from tests.integration.server.conftest import endless, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Page

GUIDE = (REPOSITORY / "docs" / "guide" / "api.md").read_text()
MOUNTED = 'pipeline.mounts.add("own", StaticFiles(directory="own", html=True))'


def blocks(language: str) -> list[str]:
    """The blocks of the page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    """The pipeline of the guide, which serves the page of the guide."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "index.html").write_text(blocks("html")[0])
    (own / "page.js").write_text(blocks("javascript")[0])
    sources = {"gate": endless(), "yard": endless(pattern="bars")}
    pipeline = Pipeline(name="street", sources=sources, steps=steps(), outputs=tmp_path / "out", keep_running=True)
    pipeline.mounts.add("own", StaticFiles(directory=own, html=True))
    return pipeline


def here(text: str, steered: Steered) -> str:
    return text.replace("127.0.0.1:8080", f"127.0.0.1:{steered.listener.port}")


def environment(steered: Steered) -> dict[str, str]:
    return {**os.environ, "SIGHTLINE_TOKEN": str(steered.admin.token)}


def test_the_commands_with_curl_work(steered: Steered, tmp_path: Path) -> None:
    program("curl", package="curl")
    commands = [line[2:] for line in "\n".join(blocks("console")).splitlines() if line.startswith("$ curl")]

    done = [
        subprocess.run(
            ["bash", "-c", here(one, steered)],
            cwd=tmp_path,
            env=environment(steered),
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        for one in commands
    ]

    assert [one.returncode for one in done] == [0, 0, 0, 0]
    assert '"name":"gate"' in done[0].stdout
    assert steered.viewer.ask("rules/zones-1/plaza").json()["options"]["polygon"][0] == [0.2, 0.4]
    assert (tmp_path / "gate.jpg").read_bytes().startswith(b"\xff\xd8")


def test_the_python_client_works(steered: Steered) -> None:
    (code,) = (one for one in blocks("python") if "Client(" in one)

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", here(code, steered)],
        env=environment(steered),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "gate live" in done.stdout
    assert "somebody else" not in done.stdout
    assert steered.viewer.ask("rules/zones-1/plaza").json()["options"]["limit"] == 3


def test_a_page_of_ones_own_lists_streams_and_shows_events(steered: Steered, page: Page) -> None:
    assert MOUNTED in GUIDE
    page.goto(f"{steered.listener.url}?token={steered.viewer.token}")
    page.goto(f"{steered.listener.url}steps/own/")
    until(page, "document.querySelectorAll('#streams li').length === 2")
    assert page.locator("#streams li").all_inner_texts() == ["gate: live", "yard: live"]

    def is_shown() -> bool:
        for action in ("pause", "resume"):  # again and again: the page may not have begun to listen
            steered.operator.ask(f"streams/yard/{action}", "POST")
        page.wait_for_timeout(200)
        return bool(page.evaluate("document.getElementById('events').textContent.includes(' yard: ')"))

    wait_for(is_shown)


def test_the_page_is_behind_the_login(steered: Steered) -> None:
    assert steered.nobody.ask("/steps/own/").status == 401
    assert steered.viewer.ask("/steps/own/").status == 200
