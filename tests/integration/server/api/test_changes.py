"""Changes by the API: applied while frames flow, judged, logged, taken back."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from sightline import Pipeline
from sightline.server.credentials import TokenFile
from sightline.server.policy import Policy
from tests.integration.server.api.conftest import GATE, PLAZA, REPLAY, Steered, steps
from tests.integration.server.conftest import endless, wait_for

EDITS, FRAMES = 30, 440


def rule(steered: Steered, name: str, element: str = "zones-1") -> dict[str, Any]:
    found: dict[str, Any] = steered.viewer.ask(f"rules/{element}/{name}").json()
    return found


def test_a_rule_is_an_object_with_its_counts(unchanged: Steered) -> None:
    rules = unchanged.viewer.ask("rules").json()

    assert [(one["element"], one["kind"], one["outline"], one["name"]) for one in rules] == [
        ("lines-1", "lines", "line", "gate_in"),
        ("zones-1", "zones", "zone", "plaza"),
    ]
    assert rules[1]["options"] == PLAZA
    wait_for(lambda: set(unchanged.viewer.ask("rules").json()[0]["counts"]) == {"gate", "yard"})


def test_an_operator_moves_adds_and_removes_rules(steered: Steered) -> None:
    moved = {"polygon": [[0.2, 0.1], [0.9, 0.1], [0.9, 0.9]]}

    assert steered.operator.ask("rules/zones-1/plaza", "PUT", moved).status == 200
    assert steered.operator.ask("rules/zones-1/second", "PUT", PLAZA).status == 200
    assert rule(steered, "plaza")["options"] == moved
    wait_for(lambda: rule(steered, "second")["counts"])
    assert steered.operator.ask("rules/zones-1/plaza", "DELETE").status == 200
    assert steered.viewer.ask("rules/zones-1/plaza").status == 404
    assert [one["name"] for one in steered.viewer.ask("rules").json()] == ["gate_in", "second"]


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("rules/zones-1/plaza", {"polygon": [[0.2, 0.1], [0.9, 0.1]]}, 422, "at least 3 entries"),
        ("rules/zones-1/plaza", {"polygn": []}, 422, "polygn"),
        ("rules/zones-1/plaza", {"polygon": [[0.2, 0.1], [0.9, 0.1], [7, 7]]}, 422, "7"),
        ("rules/zones-1/plaza", [], 422, "body"),
        ("rules/draw-1/plaza", PLAZA, 404, "has no rules"),
        ("rules/zones-9/plaza", PLAZA, 404, "the ids are"),
        ("rules/zones-1/id", {"a": 1}, 422, "id"),
    ],
)
def test_a_wrong_rule_is_explained_and_changes_nothing(
    unchanged: Steered, path: str, body: object, status: int, said: str
) -> None:
    before = unchanged.pipeline.configuration.etag

    answer = unchanged.operator.ask(path, "PUT", body)

    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
    assert said in answer.json()["detail"]
    assert unchanged.pipeline.configuration.etag == before


def test_a_change_made_from_another_version_is_refused(steered: Steered) -> None:
    read = steered.viewer.ask("rules")
    assert steered.operator.ask("rules/zones-1/plaza", "PUT", {**PLAZA, "limit": 3}).status == 200

    answer = steered.operator.ask("rules/zones-1/plaza", "PUT", PLAZA, If_Match=f'"{read.etag}"')

    assert answer.status == 412
    assert answer.json()["etag"] == steered.pipeline.configuration.etag
    again = steered.operator.ask("rules/zones-1/plaza", "PUT", PLAZA, If_Match=f'"{answer.json()["etag"]}"')
    assert again.status == 200


def test_several_rules_change_at_once(steered: Steered) -> None:
    before = steered.pipeline.configuration.number
    moved = {"from": [0.2, 0.5], "to": [0.8, 0.5]}
    changes = {"zones-1": {"plaza": None, "square": PLAZA}, "lines-1": {"gate_in": moved}}

    answer = steered.operator.ask("rules", "PATCH", changes)

    assert (answer.status, answer.json()["version"]) == (200, before + 1)
    assert rule(steered, "gate_in", "lines-1")["options"] == moved
    assert rule(steered, "square")["options"] == PLAZA
    assert steered.viewer.ask("rules/zones-1/plaza").status == 404


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"lines-1": {"gate_in": {"from": [0, 0], "to": [1, 1]}}, "zones-1": {"plaza": {}}}, 422, "polygon"),
        ({"lines-1": {"gate_in": {"from": [0, 0], "to": [1, 1]}}, "zones-1": {"other": None}}, 404, "no rule 'other'"),
        ({"zones-1": {"plaza": None}}, 422, "no zone is given"),
        ({"draw-1": {"plaza": PLAZA}}, 404, "has no rules"),
    ],
)
def test_of_several_rules_none_changes_when_one_is_wrong(
    unchanged: Steered, changes: object, status: int, said: str
) -> None:
    before = unchanged.pipeline.configuration.etag

    answer = unchanged.operator.ask("rules", "PATCH", changes)

    assert (answer.status, said in answer.json()["detail"]) == (status, True)
    assert unchanged.pipeline.configuration.etag == before


def test_steps_are_added_behind_another_and_removed(steered: Steered) -> None:
    new = {"steps": ["track", {"lines": {"exit": {"from": [0, 0.5], "to": [1, 0.5]}}}], "after": "zones-1"}

    assert steered.admin.ask("elements", "POST", new).status == 200
    ids = [one["id"] for one in steered.viewer.ask("elements").json()]
    assert ids == ["replay-1", "track-1", "lines-1", "zones-1", "track-2", "lines-2", "draw-1"]
    wait_for(lambda: rule(steered, "exit", "lines-2")["counts"])
    assert steered.admin.ask("elements/lines-2", "DELETE").status == 200
    assert steered.viewer.ask("elements/lines-2").status == 404


def test_steps_that_cannot_be_are_explained(unchanged: Steered) -> None:
    assert "the ids are" in unchanged.admin.ask("elements", "POST", {"steps": ["draw"], "after": "x"}).json()["detail"]
    first = unchanged.admin.ask("elements", "POST", {"steps": [{"zones": {"a": PLAZA}}], "after": None})
    assert (first.status, "zones needs" in first.json()["detail"]) == (422, True)
    assert unchanged.operator.ask("elements", "POST", {"steps": ["draw"], "after": "draw-1"}).status == 403


def test_the_kinds_of_rules_and_the_labels_that_reach_them_are_told(unchanged: Steered) -> None:
    kinds = {one["kind"]: one for one in unchanged.viewer.ask("rule-kinds").json()}

    assert (kinds["zones"]["outline"], kinds["lines"]["outline"]) == ("zone", "line")
    assert "Zone" in kinds["zones"]["json_schema"]["$defs"]
    assert unchanged.viewer.ask("elements/zones-1").json()["labels"] == ["car"]
    assert unchanged.viewer.ask("elements/replay-1").json()["labels"] is None


def test_changes_at_the_same_time_are_all_made(steered: Steered) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: steered.operator.ask(f"rules/zones-1/z{n}", "PUT", PLAZA).status, range(24)))

    assert answers == [200] * 24
    names = {one["name"] for one in steered.viewer.ask("rules").json()}
    assert names == {"gate_in", "plaza", *(f"z{n}" for n in range(24))}


def test_each_change_is_in_the_audit_log(steered: Steered) -> None:
    steered.operator.ask("rules/zones-1/plaza", "PUT", {**PLAZA, "limit": 3})
    steered.operator.ask("rules/zones-1/plaza", "PUT", {"polygon": []})
    steered.admin.ask("streams/yard", "DELETE")

    begun = [line for line in steered.audited() if "action" in line]
    assert [(one["actor"], one["role"], one["action"], one["target"]) for one in begun] == [
        ("operator", "operator", "put rule", "zones-1/plaza"),
        ("admin", "admin", "remove stream", "yard"),
    ]
    assert begun[0]["address"] == "127.0.0.1"
    assert begun[0]["changes"]
    assert [line["result"] for line in steered.audited() if "result" in line] == ["done", "done"]


class TestEditing:
    """A zone that is edited again and again while two streams run."""

    @pytest.fixture
    def pipeline(self, tmp_path: Path) -> Pipeline:
        sources = {f"cam{n}": {"uri": str(GATE), "realtime": True, "loop": True} for n in range(2)}
        writes = {"jsonl": {"path": "{stream}.jsonl"}}
        return Pipeline(name="street", sources=sources, steps=[*steps(), writes], outputs=tmp_path / "out")

    def test_no_frame_is_lost_and_counts_are_right(self, steered: Steered, tmp_path: Path) -> None:
        for number in range(EDITS):
            polygon = [[0.1 + number / 1000, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9]]
            old, new = f"z{number - 1}" if number else "plaza", f"z{number}"
            assert steered.operator.ask(f"rules/zones-1/{new}", "PUT", {"polygon": polygon}).status == 200
            wait_for(partial(self.is_counted, steered, new))
            assert steered.operator.ask(f"rules/zones-1/{old}", "DELETE").status == 200
        wait_for(lambda: min(one.processed for one in steered.pipeline.status()) > FRAMES)
        steered.pipeline.stop()
        report = steered.pipeline.wait()

        for stream in report.streams:
            lines = (tmp_path / "out" / f"{stream.stream.name}.jsonl").read_text().splitlines()
            records = [json.loads(line) for line in lines]
            assert [one["frame"] for one in records] == list(range(stream.finished))
            assert {reason for reason, count in stream.dropped.items() if count} <= {"stopped"}
            assert report.totals["lines-1"][stream.stream.name] == undisturbed()

    def test_a_renamed_rule_goes_on_counting(self, steered: Steered) -> None:
        wait_for(lambda: rule(steered, "plaza")["counts"].get("cam0", {}).get("visitors"))

        assert steered.operator.ask("rules", "PATCH", {"zones-1": {"plaza": None, "square": PLAZA}}).status == 200

        assert wait_for(lambda: rule(steered, "square")["counts"].get("cam0"))["visitors"] > 0

    def test_counts_of_a_step_begin_anew_for_one_stream_or_all(self, steered: Steered) -> None:
        def visitors() -> dict[str, int]:
            counted = steered.viewer.ask("rules/zones-1/plaza").json()["counts"]
            return {stream: counted.get(stream, {}).get("visitors", 0) for stream in ("cam0", "cam1")}

        wait_for(lambda: min(visitors().values()) > 1)
        before = visitors()

        assert steered.operator.ask("rules/zones-1/reset", "POST", {"stream": "cam0"}).status == 202
        wait_for(lambda: visitors()["cam0"] < before["cam0"])
        assert visitors()["cam1"] >= before["cam1"]
        assert steered.operator.ask("rules/zones-1/reset", "POST").json() == {"stream": None}
        wait_for(lambda: visitors()["cam1"] < before["cam1"])

        asked = [("zones-1", {"stream": "barn"}), ("draw-1", {}), ("zones-9", {})]
        assert [steered.operator.ask(f"rules/{step}/reset", "POST", body).status for step, body in asked] == [404] * 3
        assert steered.viewer.ask("rules/zones-1/reset", "POST").status == 403
        begun = [line for line in steered.audited() if "action" in line]
        assert [(one["action"], one["target"]) for one in begun] == [("reset counts", "zones-1")] * 2

    def is_counted(self, steered: Steered, name: str) -> bool:
        """Whether the pipeline counts what a rule sees."""
        return bool(rule(steered, name)["counts"])


@cache
def undisturbed() -> Any:
    """What the line counts when nobody edits anything."""
    pipeline = Pipeline(sources={"gate": str(GATE)}, steps=[REPLAY, "track", steps()[2]])
    return pipeline.run().totals["lines-1"]["gate"]


def fail_soon(batch: Any) -> Any:
    """A step that breaks on its first batch."""
    raise ValueError(f"broken on {len(batch)} frames")


class TestBroken:
    """A change after which the pipeline is not well."""

    @pytest.fixture
    def policy(self) -> Policy:
        return Policy(allow_code=True)

    def configuration(self, steered: Steered, edit: Callable[[str], str]) -> tuple[bytes, str]:
        read = steered.admin.ask("configuration")
        return edit(read.body.decode()).encode(), f'"{read.etag}"'

    def test_it_is_reverted_by_itself_and_says_why(self, steered: Steered) -> None:
        before = steered.pipeline.configuration.etag
        step = f"- apply: {{function: '{__name__}:fail_soon'}}\n"
        body, tag = self.configuration(steered, lambda text: text + step)

        answer = steered.admin.ask("configuration", "PUT", body, content_type="application/yaml", If_Match=tag)

        assert answer.status == 409
        assert answer.json()["element"] == "apply-1"
        assert "broken on" in answer.json()["detail"]
        assert steered.pipeline.configuration.etag == before
        processed = steered.pipeline.status()[0].processed
        wait_for(lambda: steered.pipeline.status()[0].processed > processed + 5)

    def test_a_stream_that_does_not_come_takes_its_change_back_where_that_is_asked_for(self, steered: Steered) -> None:
        answer = steered.admin.ask("streams/gone?prove=2", "PUT", "rtsp://10.255.255.1/main")

        assert answer.status == 409
        assert answer.json()["stream"] == "gone"
        assert [one["name"] for one in steered.viewer.ask("streams").json()] == ["gate", "yard"]


class TestConfiguration:
    """The configuration as a whole."""

    def test_what_is_read_can_be_given_back(self, steered: Steered) -> None:
        read = steered.admin.ask("configuration")

        checked = steered.operator.ask("configuration/check", "POST", read.body, content_type="application/yaml")
        given = steered.admin.ask(
            "configuration?prove=0", "PUT", read.body, content_type="application/yaml", If_Match=f'"{read.etag}"'
        )

        assert checked.json() == {"valid": True, "problems": []}
        assert given.json()["etag"] == read.etag

    def test_a_version_must_be_named(self, unchanged: Steered) -> None:
        answer = unchanged.admin.ask("configuration", "PUT", b"sources: {}", content_type="application/yaml")

        assert answer.status == 428

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("[", "closing bracket"),
            ("sources: {gate: {pattern: bars}}\npipeline: [nothing]", "nothing"),
            ("sources: {gate: /etc/passwd}\npipeline: [draw]", "--allow-files"),
            ("sources: {gate: {pattern: bars}}\npipeline: [{apply: {function: 'os:system'}}]", "--allow-code"),
            ("sources: {gate: {pattern: bars}}\npipeline: [{jsonl: {path: '../../x'}}]", "path"),
            ("sources: {gate: {pattern: '${HOME}'}}\npipeline: [draw]", "${"),
        ],
    )
    def test_what_is_wrong_is_told_and_not_applied(self, unchanged: Steered, text: str, said: str) -> None:
        before = unchanged.pipeline.configuration.etag

        checked = unchanged.operator.ask("configuration/check", "POST", text.encode(), content_type="application/yaml")
        applied = unchanged.admin.ask(
            "configuration", "PUT", text.encode(), content_type="application/yaml", If_Match="*"
        )

        assert not checked.json()["valid"], checked.body
        told = [f"{problem['path']}: {problem['message']}" for problem in checked.json()["problems"]]
        assert any(said in problem for problem in told), told
        assert applied.status == 422, applied.body
        assert unchanged.pipeline.configuration.etag == before

    @pytest.mark.parametrize(
        ("text", "marked"),
        [
            ("sources: {gate: {pattern: bars}}\npipeline:\n- trak", "trak"),
            ("sources: {gate: {pattern: bars}}\npipeline:\n- lines: {a: {from: [0, 0], too: [1, 1]}}", "too"),
            ("sources: {gate: {pattern: bars}}\npipeline:\n- draw:\n    label: [x]", "label"),
            ("sources: {gate: {pattern: bars}}\npipeline:\n- detect: {model: 'a: b.onnx'}", "'a: b.onnx'"),
            ("sources:\n  gate: rtsp://127.0.0.1/main\npipeline: [draw]", "rtsp://127.0.0.1/main"),
            ("sources:\n  gate: {pattern: bars}\n pipeline: [draw]", "pipeline"),
        ],
    )
    def test_a_mistake_is_placed(self, unchanged: Steered, text: str, marked: str) -> None:
        checked = unchanged.operator.ask("configuration/check", "POST", text.encode(), content_type="application/yaml")
        applied = unchanged.admin.ask(
            "configuration", "PUT", text.encode(), content_type="application/yaml", If_Match="*"
        )

        places = [(one["line"], one["column"], one["length"]) for one in checked.json()["problems"]]
        lines = text.splitlines()
        assert marked in [lines[line - 1][column - 1 : column - 1 + length] for line, column, length in places]
        assert places[0][:2] in [(one["line"], one["column"]) for one in applied.json()["problems"]]

    def test_a_secret_that_is_given_back_is_in_no_problem(self, steered: Steered) -> None:
        secret = "rtsp://admin:hunter2@10.255.255.1/main"
        assert steered.admin.ask("streams/cam", "PUT", secret).status == 200
        text = steered.admin.ask("configuration").body.replace(b"uri: rtsp://***@", b"rotat: 90\n    uri: rtsp://***@")

        checked = steered.operator.ask("configuration/check", "POST", text, content_type="application/yaml")

        assert b"rotat" in checked.body
        assert b"hunter2" not in checked.body

    def test_the_schema_describes_what_is_installed(self, unchanged: Steered) -> None:
        schema = unchanged.viewer.ask("configuration/schema")

        assert schema.json()["$defs"]["Zone"]["properties"]["polygon"]["description"]
        assert unchanged.viewer.ask("configuration/schema", If_None_Match=f'"{schema.etag}"').status == 304

    def test_an_earlier_version_is_read(self, steered: Steered) -> None:
        before = steered.viewer.ask("configuration")
        assert steered.operator.ask("rules/zones-1/plaza?prove=0", "PUT", {**PLAZA, "limit": 3}).status == 200

        assert steered.viewer.ask(f"configuration/versions/{before.etag}").body == before.body
        assert steered.viewer.ask("configuration/versions/abc").status == 404

    def test_without_a_file_there_is_none_to_read(self, unchanged: Steered) -> None:
        assert unchanged.viewer.ask("configuration/file").status == 404

    def test_the_last_version_that_worked_is_gone_back_to(self, steered: Steered) -> None:
        before = steered.pipeline.configuration.etag
        assert steered.operator.ask("rules/zones-1/plaza?prove=0", "PUT", {**PLAZA, "limit": 3}).status == 200

        answer = steered.admin.ask("configuration/rollback?prove=0", "POST")

        assert answer.json()["etag"] == before
        versions = steered.viewer.ask("configuration/versions").json()
        assert [one["by"] for one in versions] == ["", "operator", "admin"]
        assert steered.admin.ask("configuration/rollback?to=abc", "POST").status == 404


def test_secrets_are_nowhere(tokens: TokenFile, tmp_path: Path) -> None:
    from tests.integration.server.api.secrets_of import shown_everywhere

    assert shown_everywhere(tokens, tmp_path) == []


def test_an_element_shows_its_options_and_takes_others(steered: Steered) -> None:
    shown = steered.viewer.ask("elements/zones-1").json()
    assert shown["options"] == {"plaza": PLAZA}
    assert "gone" in shown["changes_live"]
    assert "properties" in shown["json_schema"]

    assert steered.admin.ask("elements/zones-1", "PATCH", {"gone": "3s"}).status == 200
    assert steered.viewer.ask("elements/zones-1").json()["options"] == {"plaza": PLAZA, "gone": "3s"}
    assert steered.admin.ask("elements/zones-1", "PATCH", {"gone": None}).status == 200
    assert steered.viewer.ask("elements/zones-1").json()["options"] == {"plaza": PLAZA}
    assert steered.admin.ask("elements/zones-1", "PATCH", {"nonsense": 1}).status == 422


def test_streams_come_change_and_go(steered: Steered) -> None:
    card = endless(pattern="counter")

    assert steered.admin.ask("streams/third", "PUT", card).status == 200
    wait_for(lambda: steered.viewer.ask("streams/third").json()["status"]["state"] == "live")
    assert steered.admin.ask("streams/third", "PUT", endless(pattern="bars")).status == 200
    wait_for(lambda: steered.viewer.ask("streams/third").json()["source"]["pattern"] == "bars")
    assert steered.admin.ask("streams/third", "DELETE").status == 200
    assert steered.viewer.ask("streams/third").status == 404
    assert steered.admin.ask("streams/third", "DELETE").status == 404


def test_a_stream_pauses_and_goes_on(steered: Steered) -> None:
    paused = steered.operator.ask("streams/gate/pause", "POST")
    frames = paused.json()["status"]["processed"]

    assert (paused.status, paused.json()["status"]["state"]) == (200, "paused")
    assert steered.operator.ask("streams/gate/pause", "POST").json()["status"]["processed"] == frames
    assert steered.operator.ask("streams/gate/resume", "POST").status == 200
    wait_for(lambda: steered.viewer.ask("streams/gate").json()["status"]["processed"] > frames)
    assert steered.operator.ask("streams/other/pause", "POST").status == 404


class TestFile:
    """A pipeline that comes from a file."""

    TEXT = """\
name: street  # the street before the house
sources:
  gate: {pattern: bars, frames: null, realtime: true}
keep_running: true
pipeline:
  - replay: {path: GATE, format: mot, label: car}
  - track
  - zones:
      plaza:  # where people wait
        polygon: [[0.1, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9]]
"""

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        file = tmp_path / "street.yaml"
        file.write_text(self.TEXT.replace("GATE", str(GATE.with_suffix(".mot.txt"))))
        return file

    @pytest.fixture
    def pipeline(self, file: Path, tmp_path: Path) -> Pipeline:
        return Pipeline.from_yaml(file, outputs=tmp_path / "out")

    def test_a_change_is_written_back_with_the_comments(self, steered: Steered, file: Path) -> None:
        before = file.read_text()
        assert steered.admin.ask("configuration/save", "POST").json() == {"written": False}
        moved = {"polygon": [[0.2, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9]]}
        assert steered.operator.ask("rules/zones-1/plaza", "PUT", moved).status == 200
        assert not steered.viewer.ask("/api/v1/pipelines").json()[0]["saved"]

        assert steered.operator.ask("configuration/save", "POST").status == 403
        assert steered.admin.ask("configuration/save", "POST").json() == {"written": True}

        assert file.read_text() == before.replace("[[0.1, 0.1]", "[[0.2, 0.1]")
        assert steered.viewer.ask("/api/v1/pipelines").json()[0]["saved"]

    def test_a_file_that_somebody_has_changed_is_left_alone(self, steered: Steered, file: Path) -> None:
        assert steered.operator.ask("rules/zones-1/other", "PUT", PLAZA).status == 200
        file.write_text(file.read_text() + "# mine\n")

        answer = steered.admin.ask("configuration/save", "POST")

        assert answer.status == 412
        assert file.read_text().endswith("# mine\n")


def test_without_a_file_nothing_is_written_back(unchanged: Steered) -> None:
    assert unchanged.admin.ask("configuration/save", "POST").status == 400


def test_a_snapshot_is_the_next_frame_in_full_size(unchanged: Steered) -> None:
    answer = unchanged.operator.ask("streams/gate/snapshot", "POST")

    assert (answer.status, answer.headers["content-type"]) == (200, "image/jpeg")
    assert answer.body[:2] == b"\xff\xd8"


def test_without_a_step_that_records_nothing_is_recorded(unchanged: Steered) -> None:
    answer = unchanged.operator.ask("streams/gate/record", "POST", {"before": "1s"})

    assert answer.status == 400
    assert "record" in answer.json()["detail"]
