"""Tables of a run: the real packages read them, and they are what the `parquet` step writes."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from sightline import Pipeline
from sightline.errors import ConfigurationError, MissingExtra
from sightline_plugins import Lines, Parquet, Replay, Track
from sightline_plugins.interop import Collected, collect
from tests.conftest import REPOSITORY
from tests.unit.interop.frames import package

TEXTS = "".join(f"{frame},-1,{10 + frame},40,60,50,0.9,-1,-1,-1\n" for frame in range(1, 41))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Collected, Path]:
    """What was collected of two streams, and the folder in which `parquet` wrote the same run."""
    package("pyarrow")
    folder = tmp_path_factory.mktemp("run")
    (folder / "det.txt").write_text(TEXTS)
    pattern = {"pattern": "counter", "size": [320, 180], "fps": 20}
    pipeline = Pipeline(
        sources={"gate": {**pattern, "frames": 40}, "yard": {**pattern, "frames": 25}},
        steps=[
            Replay(path=folder / "det.txt", label="car"),
            Track(),
            Lines.model_validate({"door": {"from": [0.2, 0], "to": [0.2, 1]}}),
            Parquet(path="parts", tables=("objects", "events", "frames")),
        ],
        outputs=folder,
    )
    return collect(pipeline), folder / "parts"


def sorted_rows(frame: Any) -> list[tuple[Any, ...]]:
    """The rows of a polars table without the columns of the partition, the run and the date."""
    names = [name for name in frame.columns if name not in ("run", "date")]
    return sorted(frame.select(sorted(names)).rows(), key=str)


@pytest.mark.parametrize("table", ["objects", "events", "frames"])
def test_polars_has_what_parquet_writes(run: tuple[Collected, Path], table: str) -> None:
    polars = package("polars")
    collected, folder = run

    frame = getattr(collected, table).to_polars()
    written = polars.read_parquet(folder / table, hive_partitioning=True)

    assert len(frame) > 0
    assert sorted_rows(frame) == sorted_rows(written)
    assert {name: kind for name, kind in written.schema.items() if name in frame.columns and name != "stream"} == {
        name: kind for name, kind in frame.schema.items() if name != "stream"
    }


def test_pandas_has_the_same_rows_and_integers_that_may_be_missing(run: tuple[Collected, Path]) -> None:
    package("pandas")
    objects = run[0].objects

    frame = objects.to_pandas()

    assert frame["stream"].value_counts().to_dict() == {"gate": 40, "yard": 25}
    assert str(frame["track_id"].dtype) == "Int64"
    assert frame.to_dict("list")["x1"] == objects.to_polars()["x1"].to_list()
    assert frame["track_id"].isna().sum() == objects.to_polars()["track_id"].null_count()


def test_what_reads_arrow_takes_a_table_itself(run: tuple[Collected, Path]) -> None:
    duckdb = package("duckdb")
    events = run[0].events

    counted = duckdb.sql("SELECT rule, count(*) FROM events GROUP BY rule").fetchall()

    assert counted == [("door", len(events))]
    assert len(package("pyarrow").table(events)) == len(events)


def test_some_frames_are_collected_and_the_pipeline_ends() -> None:
    pipeline = Pipeline(sources={"test": {"pattern": "counter", "frames": None}}, batch={"size": 4})

    run = collect(islice(pipeline, 6))

    assert run.frames.to_arrow()["frame"].to_pylist() == list(range(6))
    assert not pipeline.is_running


def test_more_objects_than_are_allowed_end_the_run(tmp_path: Path) -> None:
    recorded = REPOSITORY / "sample_videos" / "gate.mot.txt"
    pipeline = Pipeline(
        sources={"test": {"pattern": "counter", "frames": None}}, steps=[Replay(path=recorded, label="car")]
    )

    with pytest.raises(ConfigurationError, match="more than 100 objects"):
        collect(pipeline, most_rows=100)

    assert not pipeline.is_running


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_without_a_package_the_command_that_installs_it_is_told(
    run: tuple[Collected, Path], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sightline_plugins.interop.tables.find_spec", lambda _: None)

    with pytest.raises(MissingExtra, match=rf"pip install 'sightline\[{name}\]'"):
        getattr(run[0].objects, f"to_{name}")()
