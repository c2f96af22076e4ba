from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from sightline.errors import ConfigurationError
from sightline.graph.registry import Registry
from sightline_plugins.sources.file.element import Media
from sightline_plugins.sources.live.rtsp import Rtsp

KINDS = ("images", "media", "pattern", "rtsp")


@pytest.mark.parametrize("name", KINDS)
def test_the_example_in_a_docstring_is_valid(name: str) -> None:
    kind = Registry().source(name)
    (example,) = re.findall(r"```yaml\n(.*?)```", kind.__doc__ or "", re.DOTALL)
    (described,) = YAML(typ="safe").load(example)["sources"].values()
    assert kind.model_validate(described).name == name


def test_describing_sources_imports_no_codec_and_no_opencv() -> None:
    modules = ("file.element", "images.element", "pattern", "live.rtsp", "live.v4l2")
    imports = ", ".join(f"sightline_plugins.sources.{module}" for module in modules)
    code = f"import sys, {imports}; print([name for name in ('av', 'cv2') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_inputs_are_opened_in_one_place_only(repository: Path) -> None:
    sources = [path for folder in ("pipeline", "plugins") for path in (repository / folder).rglob("*.py")]
    openers = [
        path.name for path in sources if re.search(r"\bav\.open\(", path.read_text()) and "encode" not in path.parts
    ]
    assert sorted(openers) == ["matroska_head.py", "open_media.py"]  # the first opens what is in memory


@pytest.mark.parametrize("options", [{"loop": True}, {"start": "1s"}, {"duration": "1s"}])
def test_a_live_url_has_neither_a_beginning_nor_an_end(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="live stream"):
        Media(uri="udp://127.0.0.1:5000", **options)


@pytest.mark.parametrize(("uri", "live"), [("a.mp4", False), ("https://a/b.mp4", False), ("srt://a:1", True)])
def test_a_url_is_live_when_its_sender_sets_the_pace(uri: str, live: bool) -> None:
    assert Media(uri=uri).live is live


def test_cameras_are_live() -> None:
    assert Rtsp(uri="rtsp://10.0.0.7/main").live


def test_an_address_that_is_not_rtsp_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="uri"):
        Rtsp(uri="http://10.0.0.7/main")


def test_the_published_spelling_of_the_stall_timeout_is_read_and_never_written() -> None:
    source = Rtsp.model_validate({"uri": "rtsp://h/1", "stall": "7s"})

    assert source == Rtsp(uri="rtsp://h/1", stall_timeout=7)
    assert "stall" not in source.model_dump(by_alias=True)
    assert "stall" not in Rtsp.model_json_schema(by_alias=True)["properties"]
