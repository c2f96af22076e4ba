from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.integration.figures import Record, form

from sightline_plugins.replay.files import read_data
from sightline_plugins.replay.formats import read_recording

ENDLESS = """
import sys
from pathlib import Path
from sightline.devices import Device
from sightline.graph import Outputs, Site
from sightline_plugins.sinks.jsonl import Jsonl
from tests.unit.sinks.images import batches

writer = Jsonl(path="out.jsonl").build(Site(device=Device(), outputs=Outputs(Path(sys.argv[1]))))
given = batches(64, size=4, track_ids=tuple(range(20)))
while True:
    for batch in given:
        writer.consume(batch)
    print("written", flush=True)
"""


@pytest.mark.row(id="C5")
def test_a_killed_process_leaves_whole_lines_and_at_most_the_last_one_cut(
    tmp_path: Path, repository: Path, figure: Record
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(tmp_path)], stdout=subprocess.PIPE, cwd=repository, text=True
    )
    assert process.stdout is not None
    for _ in range(3):
        assert process.stdout.readline() == "written\n"
    process.kill()
    process.wait()
    process.stdout.close()
    *lines, torn = (tmp_path / "out.jsonl").read_bytes().split(b"\n")
    figure("lines of JSON that are torn", bool(torn), limit=1, unit="")
    assert {len(json.loads(line)["objects"]) for line in lines} == {20}
    objects = read_recording(tmp_path / "out.jsonl", file_format=None, stream="gate")
    assert len(objects) in (20 * len(lines), 20 * len(lines) + 20)


KILLS = form(5, long=20)
APART = 1_000_000
"""How far the frame numbers of two runs are apart."""
STEPS: dict[str, dict[str, Any]] = {
    "jsonl": {"path": "out/{stream}.jsonl", "rotate": {"every": "4s"}, "compress": "gzip"},
    "csv": {"path": "out/{stream}.csv", "rotate": {"size": "100kB"}, "compress": "zstd"},
    "sqlite": {"path": "out/all.db", "tables": ["objects", "frames"]},
    "parquet": {"path": "out", "rotate": {"every": "4s"}},
}


def killed_run(folder: Path, repository: Path, step: dict[str, Any], *, number: int, frames: int) -> int:
    """Write until so many frames have been written, kill the process at any moment from then on; the last frame that it
    has printed.
    """
    arguments = [str(folder), str(number * APART), "0", json.dumps(step)]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.sinks.endless", *arguments],
        stdout=subprocess.PIPE,
        cwd=repository,
        text=True,
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(frames)]
    threading.Timer(random.random() / 20, process.kill).start()
    lines += process.stdout.readlines()
    process.wait()
    process.stdout.close()
    return max(int(line) for line in lines if line.endswith("\n"))


@pytest.mark.row(id="C5", long=True)
@pytest.mark.parametrize("name", STEPS)
def test_after_many_kills_every_file_is_readable_and_nothing_that_was_written_is_gone(
    tmp_path: Path, repository: Path, figure: Record, name: str
) -> None:
    step = {name: STEPS[name]}
    printed = []
    for number in range(KILLS):
        frames = random.randint(1, 400)
        printed.append(killed_run(tmp_path, repository, step, number=number, frames=frames))
        if name == "sqlite":
            assert query(tmp_path, "PRAGMA integrity_check") == [("ok",)]
    whole = [sys.executable, "-m", "tests.integration.sinks.endless", str(tmp_path), str(KILLS * APART), "300"]
    subprocess.run([*whole, json.dumps(step)], cwd=repository, check=True, stdout=subprocess.DEVNULL)

    written = READERS[name](tmp_path / "out")
    last_printed = [*printed, KILLS * APART + 299]
    cut = {frame for frame, objects in written.items() if objects != 20}
    # Of a table, the rows of a frame under way may be cut between two pages of the disk: Linux ends a write there.
    assert name == "csv" or not cut, "a frame has lost some of its objects"
    assert all(frame > last_printed[frame // APART] for frame in cut), "a frame has lost some of its objects"
    lost = 0
    for number, last in enumerate(last_printed):
        own = sorted(frame for frame in written if frame // APART == number)
        assert own == list(range(number * APART, number * APART + len(own))), "frames are missing between others"
        lost = max(lost, last - number * APART + 1 - len(own))
    most = 5 if name in ("parquet", "sqlite") else 0
    figure(
        f"{KILLS} kills of `{name}`: frames (at 25 a second) that were written and are gone", lost, limit=most, unit=""
    )


def query(folder: Path, text: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "out" / "all.db")) as connection:
        return connection.execute(text).fetchall()


def lines_of(folder: Path, ending: str) -> list[str]:
    files = sorted(path for path in folder.iterdir() if path.stat().st_size)
    assert [path.name for path in files if not path.name.endswith(ending)] == []
    datas = [read_data(path) for path in files]
    assert all(data.endswith(b"\n") for data in datas)
    return [line for data in datas for line in data.decode().splitlines()]


def read_jsonl(folder: Path) -> Counter[int]:
    records = [json.loads(line) for line in lines_of(folder, ".jsonl.gz")]
    assert len({record["frame"] for record in records}) == len(records)
    return Counter({record["frame"]: len(record["objects"]) for record in records})


def read_csv(folder: Path) -> Counter[int]:
    """Rows of a frame are written together."""
    return Counter(int(line.split(",")[1]) for line in lines_of(folder, ".csv.zst") if not line.startswith("stream"))


def read_sqlite(folder: Path) -> Counter[int]:
    found = dict(query(folder.parent, "SELECT frame, count(*) FROM objects GROUP BY frame"))
    assert sorted(found) == [frame for (frame,) in query(folder.parent, "SELECT frame FROM frames ORDER BY frame")]
    return Counter(found)


def read_parquet(folder: Path) -> Counter[int]:
    assert list((folder / ".open").iterdir()) == []
    text = f"SELECT frame, count(*) FROM '{folder}/objects/**/*.parquet' GROUP BY frame"
    return Counter(dict(duckdb.execute(text).fetchall()))


READERS = {"jsonl": read_jsonl, "csv": read_csv, "sqlite": read_sqlite, "parquet": read_parquet}
