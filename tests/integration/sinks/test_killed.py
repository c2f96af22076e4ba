from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ENDLESS = """
import sys
from pathlib import Path
from sightline.devices import Device
from sightline.graph import Outputs, Site
from sightline_plugins.sinks.jsonl import Jsonl
from tests.unit.sinks.pictures import batches

writer = Jsonl(path="out.jsonl").build(Site(device=Device(), outputs=Outputs(Path(sys.argv[1]))))
given = batches(64, size=4, track_ids=tuple(range(20)))
while True:
    for batch in given:
        writer.consume(batch)
    print("written", flush=True)
"""


def test_a_killed_process_leaves_whole_lines(tmp_path: Path, repository: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(tmp_path)], stdout=subprocess.PIPE, cwd=repository, text=True
    )
    assert process.stdout is not None
    for _ in range(3):
        assert process.stdout.readline() == "written\n"
    process.kill()
    process.wait()
    process.stdout.close()
    text = (tmp_path / "out.jsonl").read_text()
    assert text.endswith("\n")
    assert {len(json.loads(line)["objects"]) for line in text.splitlines()} == {20}
