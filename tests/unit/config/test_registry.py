"""What is installed, and what is wrong with it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar

import pytest
from tests.unit.config.parts import Media, entry, registry

from sightline.config import InvalidConfiguration, load_description
from sightline.errors import ConfigurationError, UnknownElement
from sightline.graph import Registry


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path in which packages can be put."""
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    importlib.invalidate_caches()


def install(site: Path, package: str, *, points: str) -> None:
    metadata = site / f"{package}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[sightline.elements]\n{points}\n")


def test_an_installed_element_is_found_with_its_package(site: Path) -> None:
    install(site, "acme", points="acme_step = tests.unit.config.parts:Track")

    assert Registry().package("acme_step") == "acme"


def test_two_packages_that_offer_one_name_are_both_named(site: Path) -> None:
    install(site, "acme", points="step = tests.unit.config.parts:Track")
    install(site, "other", points="step = tests.unit.config.parts:Detect")

    with pytest.raises(ConfigurationError, match="uninstall all but one") as caught:
        Registry().element("step")

    assert "'step' is offered by the packages" in str(caught.value)
    assert {"acme", "other"} <= set(str(caught.value).replace(":", "").split())


def test_a_package_that_is_on_the_path_twice_is_one(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(site, "acme", points="track = tests.unit.config.parts:Track")
    monkeypatch.setattr(sys, "path", [str(site), str(site), str(site.parent)])

    assert Registry().element("track").name == "track"


def test_an_unknown_name_is_told_with_the_nearest() -> None:
    with pytest.raises(UnknownElement, match="there is no element 'trak'; did you mean 'track'"):
        registry().element("trak")


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import no_such_module_at_all", "No module named 'no_such_module_at_all'"),
        ("raise ValueError('too old')", "too old"),
        ("def broken(:", "invalid syntax"),
        ("", "has no attribute 'Step'"),
        ("Step = 3", "is no Element"),
    ],
)
def test_a_module_that_does_not_fit_is_named_with_the_reason(code: str, told: str, site: Path) -> None:
    module = f"acme_module_{abs(hash(code))}"
    (site / f"{module}.py").write_text(code)
    found = Registry(elements={"step": entry("step", f"{module}:Step")}, sources={})

    with pytest.raises(ConfigurationError) as caught:
        found.element("step")

    assert "'step'" in str(caught.value)
    assert told in str(caught.value)
    assert found.broken() == [str(caught.value)]


def test_a_broken_kind_of_source_keeps_the_others_from_nothing() -> None:
    group = "sightline.sources"
    found = Registry(
        elements={},
        sources={
            "broken": EntryPoint("broken", "no_such_module:Source", group),
            "media": EntryPoint("media", "tests.unit.config.parts:Media", group),
        },
    )

    assert found.source_for("gate.mp4") is Media
    with pytest.raises(
        ConfigurationError, match=r"reads 'gopher://h'; known kinds: broken, media; 'broken' of package"
    ):
        found.source_for("gopher://h")


class Archive(Media):
    """Another source that reads what `media` reads."""

    name: ClassVar[str] = "archive"


class Camera(Media):
    """A source that takes URIs over from others."""

    name: ClassVar[str] = "camera"
    priority: ClassVar[int] = 1


def with_sources(*kinds: type[Media]) -> Registry:
    group = "sightline.sources"
    return Registry(
        elements={}, sources={kind.name: EntryPoint(kind.name, f"{__name__}:{kind.__name__}", group) for kind in kinds}
    )


def test_the_source_with_the_highest_priority_reads_a_uri() -> None:
    assert with_sources(Archive, Camera).source_for("rtsp://h/1") is Camera


def test_sources_of_equal_priority_that_read_the_same_uri_are_a_conflict() -> None:
    with pytest.raises(ConfigurationError, match=r"'gate.mp4' is read by 'archive' .* and 'media'") as caught:
        with_sources(Archive, Media).source_for("gate.mp4")

    assert "write `archive: ...` or `media: ...` instead of `uri: ...`" in str(caught.value)


def test_a_conflict_of_sources_is_reported_where_the_uri_is_and_naming_the_source_resolves_it(tmp_path: Path) -> None:
    for name in ("gate.mp4", "yard.mp4"):
        (tmp_path / name).touch()
    config = tmp_path / "config.yaml"
    config.write_text("sources:\n  gate: {uri: gate.mp4}\n  yard: {archive: yard.mp4}\npipeline: []\n")

    with pytest.raises(InvalidConfiguration) as caught:
        load_description(config, registry=with_sources(Archive, Media))

    assert [problem.place.line for problem in caught.value.problems if "is read by" in problem.message] == [2]
    assert not any("yard" in problem.key for problem in caught.value.problems)
