"""The store keeps versions whole: found by name, added once, never changed, removed at once, safe for two at a time."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from sightline.errors import ConfigurationError, ModelError, OutputError
from sightline_plugins.store import Origin, Reference, Store, Stored, stored_model
from sightline_plugins.store.record import new_record


def put(store: Store, content: bytes, *, name: str = "plates", version: str | None = None) -> tuple[Stored, bool]:
    with store.adding() as folder:
        (folder / f"{name}.onnx").write_bytes(content)
        (folder / f"{name}.yaml").write_text("task: detect\n")
        record = new_record(
            name=name, task="detect", model=f"{name}.onnx", origin=Origin("onnx", "somewhere"), added="2026-11-26"
        )
        return store.publish(folder, record, version=version)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def leftovers(store: Store) -> list[Path]:
    return list((store.folder / ".adding").iterdir())


def test_versions_are_counted_and_the_newest_is_found(store: Store) -> None:
    for content in (b"one", b"two"):
        put(store, content)

    assert store.versions("plates") == ("1", "2")
    assert store.find("store:plates").model.read_bytes() == b"two"
    assert store.find("plates@1").model.read_bytes() == b"one"
    assert str(store.find("plates").reference) == "store:plates@2"
    assert leftovers(store) == []


def test_versions_are_ordered_by_number(store: Store) -> None:
    for version in ("1.10", "1.9", "1.9.3"):
        put(store, version.encode(), version=version)

    assert store.versions("plates") == ("1.9", "1.9.3", "1.10")
    assert put(store, b"more")[0].record.version == "2"


def test_the_same_files_are_the_version_that_is_there(store: Store) -> None:
    first, was_new = put(store, b"one")
    put(store, b"two")

    again, is_new = put(store, b"one")

    assert (was_new, is_new) == (True, False)
    assert again == first
    assert store.versions("plates") == ("1", "2")


def test_a_damaged_version_is_not_taken_for_the_same(store: Store) -> None:
    first, _ = put(store, b"one")
    first.model.write_bytes(b"o")

    again, is_new = put(store, b"one")

    assert is_new
    assert again.record.version == "2"


def test_other_folders_are_no_models(store: Store) -> None:
    put(store, b"one")
    (store.folder / "My Models" / "1").mkdir(parents=True)
    (store.folder / "notes").mkdir()

    assert store.names() == ("plates",)


def test_a_version_never_changes(store: Store) -> None:
    put(store, b"one", version="3")

    with pytest.raises(ConfigurationError, match=r"store:plates@3 is there with other files, .* or none for 4"):
        put(store, b"two", version="3")

    assert store.find("plates@3").model.read_bytes() == b"one"
    assert leftovers(store) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("store:plate", r"no model 'plate' in the store .*; did you mean 'plates'\?"),
        ("store:plates@7", "no version 7 of 'plates' in the store .*; there: 1"),
        ("store:plates@1.0.x", "'1.0.x' is no version: numbers with dots"),
        ("store:plates@01", "'01' is no version"),
        ("store:plates@", "'' is no version"),
        ("store:../plates", "'../plates' is no name"),
        ("store:.adding", "'.adding' is no name"),
        ("store:Plates", "'Plates' is no name of a model in the store: lower-case"),
        ("store:", "'' is no name"),
    ],
)
def test_what_is_not_there_is_one_sentence(store: Store, text: str, message: str) -> None:
    put(store, b"one")

    with pytest.raises(ConfigurationError, match=message):
        store.find(text)


def test_an_empty_store_says_how_to_fill_it(store: Store) -> None:
    with pytest.raises(ConfigurationError, match="which is empty: `sightline models add PATH`"):
        store.find("plates")


@pytest.mark.parametrize("workers", [8])
def test_many_at_once_get_a_version_each(store: Store, workers: int) -> None:
    together = threading.Barrier(workers)

    def add(number: int) -> str:
        together.wait(60)
        return put(store, b"%d" % (number // 2))[0].record.version

    with ThreadPoolExecutor(workers) as threads:
        versions = list(threads.map(add, range(workers)))

    assert sorted(versions) == ["1", "1", "2", "2", "3", "3", "4", "4"]
    assert versions[::2] == versions[1::2]
    assert all(store.find(f"plates@{version}").damage is None for version in versions)


def test_a_failure_leaves_nothing(store: Store) -> None:
    with suppress(ZeroDivisionError), store.adding() as folder:
        (folder / "plates.onnx").write_bytes(b"half")
        raise ZeroDivisionError

    assert leftovers(store) == []
    assert store.names() == ()


def test_what_the_dead_left_is_swept_and_what_the_living_make_is_not(store: Store) -> None:
    put(store, b"one")
    dead, living = (store.folder / ".adding" / name for name in ("dead", "living"))
    for folder in (dead, living):
        (folder / "files").mkdir(parents=True)
    with (living / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        put(store, b"two")

    assert leftovers(store) == [living]


@pytest.mark.parametrize(
    ("harm", "torn"),
    [
        (lambda path: path.write_bytes(b"onf"), None),
        (lambda path: path.write_bytes(b"on"), "has 2 bytes, and had 3"),
        (lambda path: path.unlink(), "is missing"),
    ],
    ids=["another content", "torn", "gone"],
)
def test_damage_is_found(store: Store, harm: Callable[[Path], object], torn: str | None) -> None:
    stored, _ = put(store, b"one")
    harm(stored.model)

    found = stored.damage

    assert found is not None
    assert (torn or "plates.onnx has SHA-256") in found
    assert "(`sightline models remove plates@1`) and add it again" in found
    assert (stored.torn is None) is (torn is None)
    if torn is not None:
        with pytest.raises(ModelError, match=r"store:plates@1 is damaged: plates.onnx .*models remove plates@1"):
            store.usable("plates")


@pytest.mark.parametrize("text", ["", "{}", '{"format": 1}', '{"format": 2, "more": 3}', "\x00\xff"])
def test_a_damaged_record_is_one_sentence(store: Store, text: str) -> None:
    stored, _ = put(store, b"one")
    (stored.folder / "model.json").write_text(text)

    with pytest.raises(ModelError, match=r"store:plates@1 is damaged: .*model\.json"):
        store.find("plates")
    assert stored_model(stored.model) is None


def test_a_record_of_another_folder_is_refused(store: Store) -> None:
    stored, _ = put(store, b"one")
    stored.folder.rename(stored.folder.with_name("2"))

    with pytest.raises(ModelError, match="does not describe the folder that it lies in"):
        store.find("plates")


def test_a_removed_version_is_gone_and_the_others_stay(store: Store) -> None:
    put(store, b"one")
    put(store, b"two")

    store.remove("plates", "2")
    assert store.versions("plates") == ("1",)
    store.remove("plates", "1")

    assert store.names() == ()
    assert not (store.folder / "plates").exists()
    assert leftovers(store) == []


def test_what_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file where the folder should be")

    with pytest.raises(OutputError, match="cannot write"):
        put(Store(tmp_path / "store"), b"one")


def test_a_file_knows_that_it_is_in_a_store(store: Store, tmp_path: Path) -> None:
    stored, _ = put(store, b"one")

    found = stored_model(stored.model)

    assert found is not None
    assert found.reference == Reference("plates", "1")
    assert stored_model(tmp_path / "other.onnx") is None
