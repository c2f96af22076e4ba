from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.figures import Record

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
