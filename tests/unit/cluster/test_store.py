"""What a controller keeps over a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sightline.cluster.store import FileStore, MemoryStore, Saved, SavedHead, SavedStream, SavedWorker, Store
from sightline.errors import OutputError
from sightline.runtime.database import DatabaseInUse

WORKER = SavedWorker("w1-1", 5, is_draining=True, is_present=True, sent_ns=17, lapses=2)
STREAM = SavedStream("w1", 1_790_000_000, 5, is_leaving=True, blind_ns=9, cause="w1 is drained", source="0f")


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    store = FileStore(tmp_path / "cluster.db")
    yield store
    store.close()


def test_what_was_committed_is_loaded(store: Store) -> None:
    saved = Saved(SavedHead(2, 5, 1_789_999_999), {"w1": WORKER}, {"gate": STREAM})

    store.commit(saved)

    assert store.load() == saved


def test_later_changes_replace_and_remove(store: Store) -> None:
    store.commit(Saved(SavedHead(1), {"w1": WORKER, "w2": WORKER}, {"gate": STREAM, "yard": STREAM}))
    waiting = SavedStream(None, 4, 6, is_leaving=False, blind_ns=0, cause="", source="")

    store.commit(Saved(SavedHead(1, 6), {"w2": None}, {"gate": waiting, "yard": None}))

    assert store.load() == Saved(SavedHead(1, 6), {"w1": WORKER}, {"gate": waiting})


def test_a_new_store_is_empty(store: Store) -> None:
    assert store.load() == Saved()


def test_a_second_controller_cannot_open_the_file(tmp_path: Path) -> None:
    first = FileStore(tmp_path / "cluster.db")

    with pytest.raises(DatabaseInUse, match=r"cluster\.db is open in another process"):
        FileStore(tmp_path / "cluster.db")

    first.close()


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cluster.db").write_bytes(b"no database, but quite a few bytes of text" * 30)

    with pytest.raises(OutputError, match="it was not written by Sightline"):
        FileStore(tmp_path / "cluster.db")
