"""A server whose pipeline has indexed the tracks of a clip, for tests of the API and of the page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.train.search_questions import write_boxes_of_mot

from sightline import Pipeline
from sightline.server import listen
from sightline.server.credentials import Role, TokenFile
from tests.integration.server.api.conftest import Client
from tests.integration.server.conftest import wait_for

REPOSITORY = Path(__file__).resolve().parents[3]
PAIR = str(REPOSITORY / "models/search")
SEARCH = "/api/v1/pipelines/town/search"
ROAD = {"road": {"from": [0.18, 0.62], "to": [0.82, 0.58]}}


@dataclass(frozen=True, slots=True)
class Searched:
    """The server, and those who ask it."""

    url: str
    viewer: Client
    operator: Client
    folder: Path
    tokens: dict[Role, str]

    def found(self, query: str = "") -> Any:
        """What the API finds."""
        answer = self.viewer.ask(f"{SEARCH}?{query}")
        assert answer.status == 200, answer.body
        return answer.json()


@contextmanager
def searched(folder: Path, *, steps: list[Any] | None = None, seconds: float = 5) -> Iterator[Searched]:
    """Run a clip through `search_index` and the steps, and serve it; SIGHTLINE_TOKENS names the file of tokens."""
    boxes = folder / "street.jsonl"
    write_boxes_of_mot(REPOSITORY / "sample_videos/street.mot.txt", stream="street", path=boxes)
    before: list[Any] = [
        {"replay": {"path": str(boxes), "ids": True}},
        {"search_index": {"path": "tracks.db", "encoder": PAIR}},
    ]
    source = {"uri": str(REPOSITORY / "sample_videos/street.mp4"), "duration": f"{seconds}s"}
    pipeline = Pipeline(
        name="town", sources={"street": source}, steps=[*before, *(steps or [])], outputs=folder / "out"
    )
    (folder / "out").mkdir()
    tokens = {role: TokenFile().add(str(role), role) for role in (Role.VIEWER, Role.OPERATOR)}
    with listen(pipeline, "127.0.0.1:0") as listener:
        pipeline.run()
        viewer, operator = (Client(listener.port, tokens[role]) for role in (Role.VIEWER, Role.OPERATOR))
        wait_for(lambda: viewer.ask(SEARCH).json()["tracks"])
        yield Searched(listener.url, viewer, operator, folder / "out", tokens)
