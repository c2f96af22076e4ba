"""A model that is a member of a zip: the zip is checked, then the member, and neither is left behind."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

import pytest

from sightline_plugins.catalogue.download import DownloadError, Wanted, bring_member
from tests.integration.catalogue.server import Behaviour, serving

CONTENT = bytes(range(256)) * 100


def packed(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in members.items():
            opened.writestr(f"{name}.onnx", content)
    return file.getvalue()


def wanted(content: bytes, url: str) -> Wanted:
    return Wanted(url, hashlib.sha256(content).hexdigest(), len(content), f"m/{url.rpartition('/')[2]}")


def bring(archive: bytes, target: Path, *, folder: Path | None = None) -> None:
    with serving(Behaviour(archive)) as root:
        bring_member(
            wanted(archive, f"{root}/m.zip"),
            "end2end.onnx",
            wanted(CONTENT, f"{root}/m.onnx"),
            target,
            folder=folder,
            progress=lambda _: None,
            stall_timeout=30.0,
        )


def test_the_member_is_taken_out(tmp_path: Path) -> None:
    bring(packed(end2end=CONTENT, other=b"x"), tmp_path / "m.onnx")

    assert (tmp_path / "m.onnx").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.parametrize(
    ("archive", "text"),
    [
        (packed(other=CONTENT), "does not hold end2end.onnx"),
        (packed(end2end=b"another"), "is another file than the catalogue names"),
        (b"no zip at all", "does not hold end2end.onnx"),
    ],
)
def test_another_archive_leaves_nothing(tmp_path: Path, archive: bytes, text: str) -> None:
    with pytest.raises(DownloadError, match=text):
        bring(archive, tmp_path / "m.onnx")

    assert list(tmp_path.iterdir()) == []


def test_a_mirror_has_the_file_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = tmp_path / "mirror" / "m"
    mirror.mkdir(parents=True)
    (mirror / "m.onnx").write_bytes(CONTENT)
    monkeypatch.setenv("SIGHTLINE_MODELS_MIRROR", str(mirror.parent))

    bring(b"never asked for", tmp_path / "got.onnx")

    assert (tmp_path / "got.onnx").read_bytes() == CONTENT


def test_a_folder_may_have_the_file_itself_or_the_archive(tmp_path: Path) -> None:
    archive = packed(end2end=CONTENT)
    for name, content in (("m.onnx", CONTENT), ("m.zip", archive)):
        folder = tmp_path / name.replace(".", "-")
        folder.mkdir()
        (folder / name).write_bytes(content)
        bring(archive, tmp_path / f"got-{name}", folder=folder)

        assert (tmp_path / f"got-{name}").read_bytes() == CONTENT
