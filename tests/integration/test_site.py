"""The built site: complete in itself, the same each time, wrong links refused, versions side by side."""

from __future__ import annotations

import functools
import http.server
import json
import re
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tools.docs import site as documentation
from tools.docs.diagrams import differing, fence, sources
from tools.release.artefacts import Release
from tools.release.site import build_site

from tests.conftest import REPOSITORY
from tests.integration.dashboard.browser import browser as browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DOCS = REPOSITORY / "docs"
RELEASE = Release("1.2.3", "0" * 40, 1_700_000_000)
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src"}
LOADED_LINKS = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "modulepreload", "manifest"}
PAGES = ("", "quickstart/", "guide/architecture/", "elements/detect/", "commands/run/")
WIDE = (
    "guide/models/",
    "reliability/",
    "benchmarks/pipelines-xeon/",
    "benchmarks/tracking/",
    "elements/model-options/",
)
"""Pages with wide tables and long lines."""
PHONE_WIDTH = 390


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The address at which the site is served."""
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and logs nothing."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of a release, packed. Building it fails if two builds are not equal to the byte."""
    folder = tmp_path_factory.mktemp("release")
    return build_site(RELEASE, folder, folder / "docs.tar.gz")


@pytest.fixture(scope="module")
def site(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, with one version in it."""
    folder = tmp_path_factory.mktemp("site")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / f"sightline-{RELEASE.version}-docs"


class Loads(HTMLParser):
    """Addresses that a browser loads by itself when it shows a page; links that a reader may follow are none."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag in LOADED:
            self.addresses.append(found.get(LOADED[tag]) or "")
        elif tag == "link" and set((found.get("rel") or "").split()) & LOADED_LINKS:
            self.addresses.append(found.get("href") or "")


def is_outside(address: str) -> bool:
    return address.startswith(("http:", "https:", "//"))


def test_no_page_loads_anything_from_outside(site: Path) -> None:
    found = {}
    for page in site.rglob("*.html"):
        parser = Loads()
        parser.feed(page.read_text())
        if outside := [address for address in parser.addresses if is_outside(address)]:
            found[str(page.relative_to(site))] = outside

    assert found == {}


def test_no_style_sheet_loads_anything_from_outside(site: Path) -> None:
    pattern = re.compile(r"(?:url\(|@import)\s*[\"']?(?P<address>[^\"')\s]+)")
    sheets = list(site.rglob("*.css"))

    assert sheets
    assert [
        (sheet.name, match["address"])
        for sheet in sheets
        for match in pattern.finditer(sheet.read_text())
        if is_outside(match["address"])
    ] == []


@dataclass(frozen=True, slots=True)
class Visit:
    """What pages did on a phone: the addresses that were asked for, and the width of each page in pixels."""

    asked: list[str] = field(default_factory=list)
    widths: dict[str, int] = field(default_factory=dict)


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    """A page of a desktop that may use the clipboard."""
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    yield context.new_page()
    context.close()


@pytest.fixture(scope="module")
def visit(address: str, browser: Browser) -> Visit:
    """What some pages show on a phone."""
    seen = Visit()
    with browser.new_context(viewport={"width": PHONE_WIDTH, "height": 844}) as context:
        page = context.new_page()
        page.on("request", lambda request: seen.asked.append(request.url))
        for name in (*PAGES, *WIDE):
            page.goto(f"{address}/{RELEASE.version}/{name}", wait_until="networkidle" if name in PAGES else "load")
            seen.widths[name] = page.evaluate("document.documentElement.scrollWidth")
    return seen


def test_a_browser_asks_for_nothing_but_the_site(address: str, visit: Visit) -> None:
    """Scripts can load what no tag names: Material for MkDocs takes Mermaid from a CDN for raw diagrams."""
    assert any(url.endswith("/versions.json") for url in visit.asked)
    assert [url for url in visit.asked if not url.startswith((address, "data:", "blob:"))] == []


def test_no_page_is_wider_than_a_phone(visit: Visit) -> None:
    assert {name: width for name, width in visit.widths.items() if width > PHONE_WIDTH} == {}


def test_the_search_finds_an_option_on_the_page_of_its_element_before_any_note(address: str, page: Page) -> None:
    page.goto(f"{address}/{RELEASE.version}/")
    page.focus(".md-search__input")
    page.keyboard.type("class_confidence")
    first = page.wait_for_selector(".md-search-result__item a")

    assert first is not None
    assert "/elements/" in str(first.get_attribute("href"))


def test_the_contents_of_a_page_with_very_many_headings_are_its_sections(address: str, page: Page) -> None:
    page.goto(f"{address}/{RELEASE.version}/troubleshooting/")
    listed = page.locator(".md-sidebar--secondary .md-nav__link").all_text_contents()

    assert "Files" in [text.strip() for text in listed]
    assert len(listed) < page.locator("article h3").count()


def test_a_diagram_of_a_page_is_an_image_that_follows_the_colours_of_the_page(address: str, browser: Browser) -> None:
    colours = []
    for scheme in ("light", "dark"):
        with browser.new_context(color_scheme=scheme) as context:
            page = context.new_page()
            page.goto(f"{address}/{RELEASE.version}/")
            colours.append(page.evaluate("getComputedStyle(document.querySelector('.diagram svg text')).fill"))

    assert colours[0] != colours[1]


def test_commands_are_copied_without_their_prompts(address: str, page: Page) -> None:
    page.goto(f"{address}/{RELEASE.version}/quickstart/")
    page.hover(".highlight")
    page.click(".highlight button")

    assert page.evaluate("navigator.clipboard.readText()").startswith("python3 -m venv")
    assert page.evaluate("getComputedStyle(document.querySelector('.gp'), '::before').content") == '"$ "'


def test_the_first_page_leads_to_the_newest_release(tmp_path: Path) -> None:
    for name in ("dev", "0.9.0", "0.10.0", "notes"):
        (tmp_path / name).mkdir()
    documentation.list_versions(tmp_path)

    listed = json.loads((tmp_path / "versions.json").read_text())
    assert [version["version"] for version in listed] == ["0.10.0", "0.9.0", "dev"]
    assert [version["aliases"] for version in listed] == [["latest"], [], []]
    assert "url=0.10.0/" in (tmp_path / "index.html").read_text()


def test_a_version_is_a_release_or_dev(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'dev' or a release such as '0\.3\.0', not '\.\./else'"):
        documentation.build(tmp_path, "../else")


def test_the_site_of_a_release_is_a_version_beside_others(site: Path) -> None:
    names = {str(path.relative_to(site)) for path in site.rglob("*")}

    assert {"index.html", "versions.json", f"{RELEASE.version}/quickstart/index.html"} <= names


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[gone](gone.md)", "gone.md"),
        ("[gone](other.md#gone)", "#gone"),
        ("```mermaid\nflowchart LR\n  never --> drawn\n```", "a diagram is not drawn"),
    ],
)
def test_a_link_an_anchor_or_a_diagram_that_is_not_there_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text(f"# Page\n\n{text}\n")
    (docs / "other.md").write_text("# Other\n")
    configuration = tmp_path / "mkdocs.yml"
    kept, _, _ = (REPOSITORY / "mkdocs.yml").read_text().partition("nav:\n")
    changed = kept.replace("docs_dir: docs", f"docs_dir: {docs}")
    for name in ("tools/docs/theme", "tools/docs/hooks.py"):
        changed = changed.replace(name, str(REPOSITORY / name))
    configuration.write_text(changed)

    with pytest.raises(RuntimeError, match=re.escape(complaint)):
        documentation.build(tmp_path / "site", configuration=configuration)


def test_every_diagram_of_the_pages_is_drawn_and_none_is_left_over(tmp_path: Path) -> None:
    wanted = sources(sorted(DOCS.rglob("*.md")))

    assert wanted
    assert differing(wanted) == []
    assert all("<svg" in fence(source, "mermaid", "mermaid", {}, None) for source in wanted.values())
    assert differing(wanted, tmp_path) == sorted(wanted)
