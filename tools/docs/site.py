"""The site: one folder per version, a list of the versions for the selector, and a first page that leads to the newest.

    site/index.html      goes to the newest release, else to `dev`
    site/versions.json   read by the selector on every page
    site/0.3.0/          one version, complete in itself; `llms.txt` lists its pages, which are there as Markdown too
    site/dev/

Other versions in the folder stay as they are, so that a release adds its own to those that were published before. The
same commit gives the same files: dates come from `SOURCE_DATE_EPOCH`, which is the date of the commit when not set.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from sightline_plugins.commands.mcp.documentation import pages

ROOT = Path(__file__).resolve().parents[2]
DEVELOPMENT = "dev"
_SUMMARY = (
    "Video analytics in Python: files and cameras are decoded, run through detectors, trackers and rules, and drawn, "
    "recorded or reported, from a YAML file, on a CPU or an NVIDIA GPU."
)
_SENTENCE_END = re.compile(r"(?<=[.!?:])\s")
_RELEASE = re.compile(r"\d+\.\d+\.\d+")
_REDIRECT = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Sightline</title>
<meta http-equiv="refresh" content="0; url={version}/">
</head>
<body><a href="{version}/">Sightline {version}</a></body>
</html>
"""


def build(
    folder: Path,
    version: str = DEVELOPMENT,
    *,
    configuration: Path = ROOT / "mkdocs.yml",
    epoch: int | None = None,
) -> Path:
    """Build one version below `folder`, refresh the list of versions, and return the folder of that version.

    `version` is a release such as `0.3.0`, or `dev`. `configuration` is another `mkdocs.yml`, for tests. `epoch` are
    the seconds that stand for the time of the build, instead of `SOURCE_DATE_EPOCH` and the date of the commit. Raises
    ValueError for another name of a version, and RuntimeError with the warnings of MkDocs if a page, a link or an
    anchor is wrong.
    """
    if version != DEVELOPMENT and not _RELEASE.fullmatch(version):
        raise ValueError(f"the version of the site is {DEVELOPMENT!r} or a release such as '0.3.0', not {version!r}")
    target = folder.absolute() / version
    shutil.rmtree(target, ignore_errors=True)
    # Not `--quiet`: MkDocs does not count the warnings that it does not print, and calls any site right.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target), "-f", str(configuration)]
    # Material for MkDocs prints an advertisement against MkDocs 2 otherwise.
    environment = {
        **os.environ,
        "SOURCE_DATE_EPOCH": _epoch() if epoch is None else str(epoch),
        "NO_MKDOCS_2_WARNING": "1",
    }
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if not line.startswith(("INFO", "DEBUG"))]
        raise RuntimeError("\n".join(["the site cannot be built:", *said]))
    # Without an address of the site, MkDocs has none to list.
    for name in ("sitemap.xml", "sitemap.xml.gz"):
        (target / name).unlink(missing_ok=True)
    write_for_assistants(target)
    list_versions(folder)
    return target


def write_for_assistants(target: Path) -> None:
    """Put the Markdown of every page for users beside its HTML, and a list of them into `llms.txt` (llmstxt.org)."""
    lines = [f"# Sightline\n\n> {_SUMMARY}\n\n`sightline mcp` gives assistants tools to check and run pipelines."]
    group = None
    for name, path in sorted(pages().items(), key=lambda one: ("/" in one[0], one[0])):
        text = path.read_text(encoding="utf-8")
        copy = target / f"{name}.md"
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, encoding="utf-8")
        folder = name.rpartition("/")[0] or "start"
        if folder != group:
            group = folder
            lines.append(f"\n## {folder.capitalize()}\n")
        title, _, rest = text.partition("\n")
        about = next((line for line in rest.splitlines() if line[:1].isalpha()), "")
        lines.append(f"- [{title.lstrip('# ')}]({name}.md): {_SENTENCE_END.split(about, maxsplit=1)[0]}".rstrip(": "))
    (target / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def versions(folder: Path) -> list[str]:
    """Return the versions in a folder of the site: releases, newest first, then `dev`."""
    names = [path.name for path in folder.iterdir() if path.is_dir()]
    releases = sorted(
        filter(_RELEASE.fullmatch, names), key=lambda name: tuple(map(int, name.split("."))), reverse=True
    )
    return [*releases, *(name for name in names if name == DEVELOPMENT)]


def list_versions(folder: Path) -> None:
    """Write what the selector and the first page need to know about the versions in a folder."""
    found = versions(folder)
    listed = [
        {"version": name, "title": name, "aliases": ["latest"] if number == 0 else []}
        for number, name in enumerate(found)
    ]
    (folder / "versions.json").write_text(json.dumps(listed, indent=1) + "\n")
    (folder / "index.html").write_text(_REDIRECT.format(version=found[0]))


def _epoch() -> str:
    """Return the seconds that stand for the time of the build."""
    if said := os.environ.get("SOURCE_DATE_EPOCH"):
        return said
    command = ["git", "log", "-1", "--format=%ct"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "0"
