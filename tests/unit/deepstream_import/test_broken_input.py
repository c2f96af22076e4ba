"""What cannot be read is one error with its place, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.command_line import called

APP = "[application]\n[source0]\ntype=2\nuri=file:clip.mp4\n[sink0]\ntype=1\n"


def refused(folder: Path, data: bytes, *, name: str = "app.txt") -> str:
    """The message for a file with that content, of which nothing is left but it."""
    (folder / name).write_bytes(data)
    result = called("import", "deepstream", name, "-o", "made/p.yaml", "--report", "made/r.json", folder=folder)
    assert result.returncode == 2
    assert not (folder / "made").exists()
    return result.stderr


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"[source0]\ntype=2\nuri\n", "app.txt:3: 'uri' is neither [section] nor key=value"),
        (b"type=2\n", "app.txt:1: 'type=2' stands before the first [section]"),
        (b"[source0]\ntype=two\n", "app.txt:2: [source0] type=two: numbers are expected"),
        (b"[source0]\ntype=7\nuri=a\n", "app.txt:2: [source0] type=7: must be 1 (V4L2)"),
        (b"[source0]\ntype=2\n", "app.txt:2: [source0] names no uri"),
        (b"[streammux]\nwidth=nan\n", "app.txt:2: [streammux] width=nan: finite numbers are expected"),
        (b"[fruit]\napple=1\n", "is no configuration of DeepStream: it has [fruit]"),
        (b"", "is no configuration of DeepStream: it has nothing"),
        (b"\x7fELF\x02\x01\x01\0\0\0", "app.txt is no text"),
        (b"\xff\xfea", "begins as UTF-16 and is no such text"),
        (b"#" * 10_000_000, "has 10000000 bytes: configurations of up to 1000000 are read"),
        (b"[primary-gie]\nenable=1\n", "app.txt:1: [primary-gie] names no config-file"),
        (b"[sink0]\ntype=9\n", "app.txt:2: [sink0] type=9: must be 1 (fake)"),
    ],
)
def test_a_broken_key_file_is_one_error(tmp_path: Path, data: bytes, message: str) -> None:
    assert message in refused(tmp_path, data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"source0:\n  type: [2\n", "app.yml:3: is not valid YAML"),
        (b"- a\n- b\n", "app.yml:1: sections with keys are expected"),
        (b"source0:\n  type: much\n", "app.yml:2: [source0] type=much: numbers are expected"),
        (b"a: " + b"{a: " * 3000, "is not valid YAML"),
    ],
)
def test_broken_yaml_is_one_error(tmp_path: Path, data: bytes, message: str) -> None:
    assert message in refused(tmp_path, data, name="app.yml")


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    result = called("import", "deepstream", "nowhere.txt", folder=tmp_path)

    assert result.returncode == 2
    assert "nowhere.txt cannot be read" in result.stderr


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_any_encoding_with_a_mark_is_read(tmp_path: Path, encoding: str) -> None:
    mark = {"utf-16-le": b"\xff\xfe"}.get(encoding, b"")
    (tmp_path / "app.txt").write_bytes(mark + f"# Tür\n{APP}".encode(encoding))

    result = called("import", "deepstream", "app.txt", folder=tmp_path)

    assert result.returncode == 0, result.stderr
    assert "source0: clip.mp4" in result.stdout
    assert "encoding" not in result.stderr


def test_latin_1_is_read_and_reported(tmp_path: Path) -> None:
    (tmp_path / "app.txt").write_bytes(APP.replace("clip", "tür").encode("latin-1"))

    result = called("import", "deepstream", "app.txt", folder=tmp_path)

    assert "tür.mp4" in result.stdout
    assert "read as Latin-1" in result.stderr


def test_a_list_of_sources_gives_their_names(tmp_path: Path) -> None:
    lines = ["source-list:", "- {uri: 'rtsp://10.0.0.1/main', sensor-id: front door}", "- {uri: 'file:b.mp4'}"]
    (tmp_path / "sources.yml").write_text("\n".join(lines))

    result = called("import", "deepstream", "sources.yml", folder=tmp_path)

    assert '  front-door: "rtsp://10.0.0.1/main"\n  source1: b.mp4\n' in result.stdout


def test_a_file_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "app.txt").write_text(APP)
    (tmp_path / "p.yaml").write_text("mine")

    result = called("import", "deepstream", "app.txt", "-o", "p.yaml", "--report", "r.md", folder=tmp_path)

    assert result.returncode != 0
    assert "p.yaml is there already" in result.stderr
    assert (tmp_path / "p.yaml").read_text() == "mine"
    assert not (tmp_path / "r.md").exists()

    assert called("import", "deepstream", "app.txt", "-o", "p.yaml", "--overwrite", folder=tmp_path).returncode == 0
    assert "clip.mp4" in (tmp_path / "p.yaml").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["app.txt", "p.yaml"]
