"""The files of the dashboard fit together: libraries as they were taken, every module, rule and text used."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib.resources import files
from pathlib import Path, PurePosixPath

from sightline_plugins.camera_health.camera_health import CHECKS

FOLDER = Path(str(files("sightline.server").joinpath("dashboard")))
_ROW = re.compile(r"^\| `(?P<file>[\w.-]+)` \|.*\| `(?P<sha>[0-9a-f]{64})` \|$", re.MULTILINE)
_IMPORT = re.compile(r"""(?:\bfrom|\bimport\(?)\s*["'](\.[^"']+)["']""")
_LOADED = re.compile(r"""\b(?:styles|script)\(\s*["']([^"']+)["']""")
_LINKED = re.compile(r"""(?:href|src)="(?:dashboard|/login)/([^"]+)\"""")
_TEXT = re.compile(r"^  (\w+):", re.MULTILINE)
_LITERAL = re.compile(r"""["'`](\w+)\.(\w+)["'`]""")
_MADE = re.compile(r"`(\w+)\.(\w*)\$\{[^{}`]*\}(\w*)`")
_REPORTED = re.compile(r"""(?:RuleEvent|_limit_event)\(\s*"(\w+)\"""")
_WORD = re.compile(r"""["'`](\w+)["'`]|\b(\w+):|\b(\w+),""")


@cache
def source(path: str) -> str:
    return (FOLDER / path).read_text()


def sources() -> list[str]:
    """Our own modules, without the texts."""
    found = (str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.js"))
    return [path for path in sorted(found) if not path.startswith(("vendor/", "texts/"))]


def texts() -> dict[str, set[str]]:
    """The names of the texts by their part."""
    return {path.stem: set(_TEXT.findall(path.read_text())) for path in (FOLDER / "texts" / "en").glob("*.js")}


def named_in(path: str) -> set[str]:
    """The files that a module names: imports, style sheets and scripts."""
    folder = FOLDER / PurePosixPath(path).parent
    imported = {str((folder / name).resolve().relative_to(FOLDER)) for name in _IMPORT.findall(source(path))}
    return imported | set(_LOADED.findall(source(path)))


def test_libraries_of_others_are_the_files_that_the_table_names() -> None:
    named = {row["file"]: row["sha"] for row in _ROW.finditer(source("vendor/README.md"))}

    held = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (FOLDER / "vendor").glob("*.[jc]s*")}
    assert held == named


def test_every_library_has_its_licence() -> None:
    licences = source("vendor/LICENSES.txt")

    for file in _ROW.finditer(source("vendor/README.md")):
        assert file["file"] in licences
    assert licences.count("Permission is hereby granted") == 3
    assert "Apache License" in licences


def test_every_file_is_reached_from_the_page_and_every_file_named_is_there() -> None:
    reached, left = set[str](), ["index.html", "login.html"]
    while left:
        path = left.pop()
        if path in reached:
            continue
        reached.add(path)
        if path.endswith(".html"):
            left += _LINKED.findall(source(path))
        elif path.endswith(".js") and not path.startswith("vendor/"):
            left += named_in(path)

    there = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*") if path.is_file()}
    assert there - reached == {"vendor/LICENSES.txt", "vendor/README.md"}
    assert reached - there == set()


def test_every_text_that_a_module_asks_for_is_there() -> None:
    known = texts()
    asked = {(path, part, name) for path in sources() for part, name in _LITERAL.findall(source(path)) if part in known}

    assert [one for one in sorted(asked) if one[2] not in known[one[1]]] == []


def test_every_text_is_asked_for() -> None:
    known, made = texts(), {found for path in sources() for found in _MADE.findall(source(path))}
    words = {word for path in sources() for found in _WORD.findall(source(path)) for word in found}
    asked = {f"{part}.{name}" for path in sources() for part, name in _LITERAL.findall(source(path))}
    for part, beginning, end in made:
        names = known.get(part, set())
        fitting = {name for name in names if name.startswith(beginning) and name.endswith(end)}
        asked |= {f"{part}.{name}" for name in (fitting if beginning or end else names & words)}

    assert sorted({f"{part}.{name}" for part, names in known.items() for name in names} - asked) == []


def test_every_kind_of_event_of_a_rule_has_its_sentence() -> None:
    rules = Path(str(files("sightline_plugins").joinpath("rules")))
    kinds = {kind for path in rules.glob("*.py") for kind in _REPORTED.findall(path.read_text())}
    kinds |= {f"camera_{check}" for check in CHECKS} | {"drift"}
    sentences = source("parts/records.js").split("const SENTENCES = {")[1].split("\n};")[0]

    assert {"line", "wait"} < kinds
    assert sorted(kinds - set(_TEXT.findall(sentences))) == []
