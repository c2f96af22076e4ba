"""The ways through the code on the architecture page: modules that exist, tied to one before, and few of them."""

from __future__ import annotations

import re

import pytest
from tools.docs.layers import module_graph

from tests.conftest import REPOSITORY

PAGE = REPOSITORY / "docs" / "guide" / "architecture.md"
STEP = re.compile(r"^(\d+)\. `([\w.]+)`: (.+)$", re.MULTILINE)
MOST = {
    "From an RTSP packet to a sink": 15,
    "From a line of YAML to its operator": 15,
    "From a line event to JSONL": 10,
    "From a packet to a recorded clip": 10,
    "From an NVDEC surface to TensorRT": 25,
}
HANDED_OVER = "(handed over)"


def ways() -> dict[str, list[tuple[str, str]]]:
    """Modules and their descriptions, by the title of the way."""
    section = PAGE.read_text().partition("## Five ways through the code")[2].partition("\n## ")[0]
    parts = re.split(r"^### (.+)$", section, flags=re.MULTILINE)[1:]
    return {
        title: [(module, text) for _, module, text in STEP.findall(steps)]
        for title, steps in zip(parts[::2], parts[1::2], strict=True)
    }


def test_the_five_ways_are_there() -> None:
    assert set(ways()) == set(MOST)


@pytest.mark.parametrize("title", MOST)
def test_every_module_of_a_way_exists(title: str) -> None:
    graph = module_graph(lazy=True)

    assert [module for module, _ in ways()[title] if module not in graph] == []


@pytest.mark.parametrize("title", MOST)
def test_every_module_of_a_way_is_tied_to_one_before_it(title: str) -> None:
    graph, before, loose = module_graph(lazy=True), list[str](), []
    for module, text in ways()[title]:
        tied = any(other in graph[module] or module in graph[other] for other in before)
        if before and not tied and not text.endswith(HANDED_OVER):
            loose.append(module)
        before.append(module)

    assert loose == []


@pytest.mark.parametrize(("title", "most"), MOST.items())
def test_a_way_takes_few_modules(title: str, most: int) -> None:
    assert 0 < len(ways()[title]) <= most


@pytest.mark.parametrize("title", MOST)
def test_the_table_counts_the_modules_of_a_way(title: str) -> None:
    row = re.compile(rf"^\| {title} \| \d+ \| {len(ways()[title])} \|$", re.MULTILINE | re.IGNORECASE)

    assert row.search(PAGE.read_text())
