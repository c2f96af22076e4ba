"""The archive of the documentation depends on names and contents only."""

from __future__ import annotations

import os
from pathlib import Path

from tools.release.artefacts import Release
from tools.release.site import packed

RELEASE = Release("1.2.3", "0" * 40, 1_700_000_000)


def write_site(folder: Path, *, mode: int, modified: int, order: tuple[str, ...]) -> Path:
    for name in order:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        path.chmod(mode)
        os.utime(path, (modified, modified))
    return folder


def test_times_modes_and_order_of_files_do_not_count(tmp_path: Path) -> None:
    names = ("index.html", "guide/yaml.html")
    one = write_site(tmp_path / "one", mode=0o644, modified=1, order=names)
    other = write_site(tmp_path / "other", mode=0o600, modified=2_000_000_000, order=names[::-1])

    assert packed(one, RELEASE) == packed(other, RELEASE)


def test_another_content_is_another_archive(tmp_path: Path) -> None:
    one = write_site(tmp_path / "one", mode=0o644, modified=1, order=("index.html",))
    other = write_site(tmp_path / "other", mode=0o644, modified=1, order=("index.html",))
    (other / "index.html").write_text("else")

    assert packed(one, RELEASE) != packed(other, RELEASE)
