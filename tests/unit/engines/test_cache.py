"""Compiled models are kept by content, found again, bounded, and never trusted when damaged."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from sightline.errors import ModelError
from sightline_plugins.engines.cache import Entry, ModelCache, key_digest, models_folder
from sightline_plugins.engines.opening import open_engine
from sightline_plugins.engines.protocol import Engine
from sightline_plugins.preprocess.definition import ImageForm
from tests.unit.engines.graphs import small_network

ENGINES = pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
Name = Literal["openvino", "onnxruntime"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that compiled models lie in."""
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


@pytest.fixture
def told() -> list[str]:
    """What the cache warned of."""
    return []


def opened(engine: Name = "openvino", told: list[str] | None = None, **options: Any) -> Engine:
    chosen: dict[str, Any] = {"image": ImageForm(scale=(1 / 255,)), "concurrency": 1} | options
    warn = ([] if told is None else told).append
    return open_engine(small_network().SerializeToString(), engine=engine, warn=warn, **chosen)


def origin(engine: Name = "openvino", told: list[str] | None = None, **options: Any) -> str:
    """Opens and closes an engine; where its model came from."""
    one = opened(engine, told, **options)
    one.close()
    return str(one.report["model"])


def kept(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.model"))


@ENGINES
def test_the_second_start_compiles_nothing(engine: Name, folder: Path) -> None:
    assert [origin(engine), origin(engine)] == ["compiled", "cached"]


@ENGINES
def test_a_cached_model_computes_the_same_to_the_bit(engine: Name, folder: Path) -> None:
    image = np.random.default_rng(1).integers(0, 256, (1, 24, 32, 3), np.uint8)
    results = []
    for _ in range(2):
        one = opened(engine)
        results.append((one.inputs, one.outputs, one.submit((image,)).result()[0].tobytes()))
        one.close()
    assert results[0] == results[1]


def test_another_form_or_number_of_threads_is_compiled_anew(folder: Path) -> None:
    origin()
    assert origin(image=ImageForm(scale=(1 / 128,))) == "compiled"
    assert origin(concurrency=2) == "compiled"
    assert origin(optimize=False) == "compiled"
    assert origin("onnxruntime") == "compiled"
    assert origin() == "cached"


def test_off_keeps_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGHTLINE_CACHE", "off")
    assert [origin(), origin()] == ["compiled", "compiled"]
    assert models_folder() is None
    assert not folder.exists()


def test_the_folder_is_the_one_that_the_system_uses_for_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SIGHTLINE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/tmp/caches")
    assert models_folder() == Path("/var/tmp/caches/sightline/models")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", "/home/anna")
    assert models_folder() == Path("/home/anna/.cache/sightline/models")


@pytest.mark.parametrize(
    "damage", [lambda whole: whole[:-9], lambda whole: whole[:200] + b"?" + whole[201:], lambda _: b""]
)
@ENGINES
def test_a_damaged_file_is_told_once_and_compiled_again(
    engine: Name, damage: Callable[[bytes], bytes], folder: Path, told: list[str]
) -> None:
    origin(engine)
    (file,) = kept(folder)
    file.write_bytes(damage(file.read_bytes()))

    assert [origin(engine, told), origin(engine, told)] == ["compiled", "cached"]
    assert len(told) == 1
    assert file.name in told[0]


def test_content_that_the_library_refuses_is_compiled_again(folder: Path, told: list[str]) -> None:
    cache = ModelCache(folder, warn=told.append)

    def refuse(entry: Entry) -> str:
        raise ModelError(f"no: {entry.content!r}")

    for _ in range(2):
        found = cache.obtain({"a": 1}, load=refuse, make=lambda: "made", dump=lambda _: Entry(b"x", {}))
        assert found == ("made", False)
    assert len(told) == 1


def test_a_folder_that_can_not_be_written_is_told_and_the_model_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "file"))
    assert origin(told=told) == "compiled"
    assert len(told) == 1
    assert "cannot be kept" in told[0]
    assert "SIGHTLINE_CACHE" in told[0]


def entry_of(content: bytes) -> Entry:
    return Entry(content, {})


def keep(cache: ModelCache, name: str, *, content: bytes = bytes(1000)) -> bool:
    return cache.obtain({"name": name}, load=lambda entry: entry.content, make=lambda: content, dump=entry_of)[1]


def test_what_was_not_used_for_longest_goes_when_the_folder_is_full(folder: Path, told: list[str]) -> None:
    cache = ModelCache(folder, warn=told.append, limit_bytes=3500)
    for number, name in enumerate("abc"):
        keep(cache, name)
        os.utime(folder / f"{key_digest({'name': name})}.model", (number, number))
    keep(cache, "a")

    keep(cache, "d")

    names = {name for name in "abcd" if folder / f"{key_digest({'name': name})}.model" in kept(folder)}
    assert names == {"a", "c", "d"}
    assert told == []


def test_a_file_that_was_never_finished_goes_after_a_while(folder: Path, told: list[str]) -> None:
    folder.mkdir(parents=True)
    for name, age in (("old.part", 0), ("new.part", None)):
        (folder / name).write_bytes(b"half")
        if age is not None:
            os.utime(folder / name, (age, age))
    keep(ModelCache(folder, warn=told.append), "a")
    assert sorted(file.name for file in folder.glob("*.part")) == ["new.part"]


def test_of_threads_that_start_at_once_one_makes_and_all_get(folder: Path, told: list[str]) -> None:
    made = list[int]()
    together = threading.Barrier(8)

    def make(number: int) -> bytes:
        made.append(number)
        return b"x"

    def start(number: int) -> None:
        together.wait()
        cache = ModelCache(folder, warn=told.append)
        cache.obtain({"a": 1}, load=lambda entry: entry.content, make=partial(make, number), dump=entry_of)

    threads = [threading.Thread(target=start, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(made) == 1


def test_a_failure_while_compiling_lets_the_next_one_try(folder: Path, told: list[str]) -> None:
    cache = ModelCache(folder, warn=told.append)

    def fail() -> bytes:
        raise ModelError("no")

    with pytest.raises(ModelError):
        cache.obtain({"name": "a"}, load=lambda entry: entry.content, make=fail, dump=entry_of)
    assert not keep(cache, "a")
    assert keep(cache, "a")
