"""`make bench` keeps what was measured on other processors."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.pipelines import document
from benchmarks.pipelines.job import Job

CLIP = Path("clip.mp4")


def written(page: Path, monkeypatch: pytest.MonkeyPatch, *, model: str, flags: str, rounds: int) -> str:
    facts = page.with_name("cpuinfo")
    facts.write_text(f"processor\t: 0\nmodel name\t: {model}\nflags\t\t: fpu {flags}\n\nprocessor\t: 1\n")
    monkeypatch.setattr(document, "CPUINFO", facts)
    job = Job(CLIP, model=Path("m.onnx"), labels=Path("m.names"), out=page.parent, streams=1, passes=1)
    document.write(page, [], job=job, rounds=rounds)
    return page.read_text()


def test_each_kind_of_processor_has_a_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "pipelines.md"
    written(page, monkeypatch, model="Xeon", flags="avx512_bf16 amx_bf16", rounds=3)
    written(page, monkeypatch, model="EPYC", flags="avx2", rounds=5)
    text = written(page, monkeypatch, model="Xeon", flags="avx512_bf16 amx_bf16", rounds=7)

    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == ["## EPYC", "## Xeon with avx512_bf16 and amx_bf16"]
    assert text.count("# Pipelines compared") == 1
    assert "5 rounds" in text
    assert "7 rounds" in text
    assert "3 rounds" not in text


def test_the_page_is_what_the_benchmark_would_write() -> None:
    page = (Path(__file__).parents[3] / "docs" / "benchmarks" / "pipelines.md").read_text()
    assert page.startswith(document.INTRODUCTION)
