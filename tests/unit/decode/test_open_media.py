"""FFmpeg opens nothing without the lists of what it may open."""

from __future__ import annotations

import ast
from pathlib import Path

from sightline_plugins.encode.settings import SENDERS

PLUGINS = Path(__file__).resolve().parents[3] / "plugins"
OPENERS = {"decode/open_media.py": 1, "decode/matroska_head.py": 2, "encode/muxer.py": 3}
"""Where `av.open` is called, and how often: once to read, and to write files that Sightline opens, and to servers; and
in memory, to describe an input and to read that.
"""


def test_there_is_one_place_that_opens_media_for_reading_and_one_for_writing() -> None:
    found: dict[str, int] = {}
    for path in (PLUGINS / "sightline_plugins").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("av.open", "av.container.open"):
                name = str(path.relative_to(PLUGINS / "sightline_plugins"))
                found[name] = found.get(name, 0) + 1
    assert found == OPENERS


def test_servers_are_sent_to_by_their_own_protocols_only() -> None:
    assert all("file" not in kind.options["protocol_whitelist"].split(",") for kind in SENDERS.values())
