"""What the API may name in steps, models and options; addresses and outputs have their lists of hostile ones."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from pydantic import BaseModel

from sightline.config import Place, parse_steps, source_from
from sightline.config.document import node_of
from sightline.graph import Outputs, PipelineDescription, Registry, SourceElement
from sightline.graph.fields import reach_of, role_of
from sightline.graph.telemetry import TelemetryOptions
from sightline.graph.tree import OutboxOptions, SourcesFile
from sightline.server.policy import Policy
from sightline_plugins.store import Origin, Store
from sightline_plugins.store.record import new_record

BARS = source_from({"pattern": "bars", "frames": 1})
CAMERA = source_from("rtsp://me:secret@10.0.0.7/main")


def pipeline(*steps: object, **sources: SourceElement) -> PipelineDescription:
    return PipelineDescription(sources={"bars": BARS, **sources}, steps=parse_steps(list(steps)))


def refusals(
    after: PipelineDescription, *, before: PipelineDescription | None = None, policy: Policy | None = None
) -> dict[str, str]:
    """What is wrong with a change, by the path of the value."""
    changed_from = pipeline() if before is None else before
    found = (policy or Policy()).problems(after, changed_from=changed_from, outputs=Outputs(Path("/srv/out")))
    return {".".join(map(str, problem.key)): problem.message for problem in found}


CODES: Mapping[str, dict[str, object]] = {
    "apply.function": {"apply": {"function": "os:getcwd"}},
    "callback.function": {"callback": {"function": "file.py:function"}},
    "infer.head": {"infer": {"model": "yolox-nano.onnx", "head": "os:getcwd"}},
    "kafka.options.plugin.library.paths": {
        "kafka": {"url": "kafka://broker", "options": {"plugin.library.paths": "evil.so"}}
    },
}


@pytest.mark.parametrize("option", CODES)
def test_code_is_refused_unless_it_is_allowed(option: str) -> None:
    after = pipeline({"tee": {"a": [CODES[option]]}})
    place = f"pipeline.0.tee.a.0.{option}"
    assert "code that would run" in refusals(after)[place]
    assert place not in refusals(after, policy=Policy(allow_code=True))


def test_standard_input_is_the_servers_alone_whatever_folders_are_allowed() -> None:
    after = pipeline(gate=source_from("-"))
    for policy in (Policy(), Policy(files=(Path.cwd(),))):
        assert "standard input" in refusals(after, policy=policy)["sources.gate.uri"]
    assert not refusals(after, before=pipeline(yard=source_from("-")))


def test_a_named_pipe_is_allowed_as_other_paths_are(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    after = pipeline(gate=source_from(str(tmp_path / "pipe")))
    assert "sources.gate.uri" in refusals(after)
    assert not refusals(after, policy=Policy(files=(tmp_path,)))


def test_code_is_not_imported_when_it_is_judged(tmp_path: Path) -> None:
    """The check of `apply` imports its function: the policy comes first, and refuses without that."""
    file = tmp_path / "evil.py"
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef change(batch): pass\n")
    assert refusals(pipeline({"apply": f"{file}:change"}))
    assert not (tmp_path / "ran").exists()


def test_ports_are_not_opened() -> None:
    after = pipeline({"publish": {"rtsp": "127.0.0.1:8554/{stream}"}})
    assert list(refusals(after)) == ["pipeline.0.publish.rtsp"]
    assert list(refusals(after, policy=Policy(allow_code=True, hosts={"127.0.0.1"}))) == ["pipeline.0.publish.rtsp"]
    assert refusals(after, before=after) == {}


DESTINATIONS: Mapping[str, object] = {
    "webhook.url": {"webhook": {"url": "http://169.254.169.254/latest"}},
    "otlp.url": {"otlp": {"url": "http://169.254.169.254:4318"}},
    "mqtt.url": {"mqtt": {"url": "mqtt://user:secret@other"}},
    "redis.url": {"redis": {"url": "redis://broker:6380"}},
    "kafka.url": {"kafka": {"url": "kafka://broker:1883,other:9092"}},
    "postgres.url": {"postgres": {"url": "postgresql://broker:1883/site?HOST=other"}},
    "amqp.url": {"amqp": {"url": "amqp://other%2c@broker:5672", "exchange": "x"}},
    "publish.url": {"publish": {"url": "rtsp://evil.example/x"}},
    "detect.model": {"detect": {"model": "grpc://triton:8001/yolo"}},
    "mqtt.image_store.url": {
        "mqtt": {"url": "mqtt://broker:1883", "send": "events", "image": "crop", "image_store": "s3://bucket/x"}
    },
    "mqtt.image_store.endpoint": {
        "mqtt": {
            "url": "mqtt://broker:1883",
            "send": "events",
            "image": "crop",
            "image_store": {"url": "s3://broker/x", "endpoint": "http://127.0.0.1:9000"},
        }
    },
}


@pytest.mark.parametrize("option", DESTINATIONS)
def test_a_step_sends_to_hosts_that_are_allowed_only(option: str) -> None:
    found = refusals(pipeline(DESTINATIONS[option]), policy=Policy(hosts={"Broker:1883", "broker:5673"}))
    place = f"pipeline.0.{option}"
    assert place in found
    assert "secret" not in found[place]


def test_an_allowed_host_is_admitted_with_its_port() -> None:
    policy = Policy(hosts={"broker:1883", "web.example", "[fd00::1]:1883"})
    for step in (
        {"mqtt": {"url": "mqtt://me:secret@BROKER:1883"}},
        {"webhook": {"url": "https://web.example:8443/{stream}"}},
        {"mqtt": {"url": "mqtt://[fd00::1]:1883"}},
    ):
        assert refusals(pipeline(step), policy=policy) == {}


def with_a_served_model(policy: Policy) -> Policy:
    """Return a policy that admits a served model."""
    return policy.model_copy(update={"hosts": frozenset({"known:1"})})


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders for models: `allowed`, `catalogue` and `elsewhere`."""
    for name in ("allowed", "catalogue", "elsewhere"):
        (tmp_path / name).mkdir()
        for file in ("a.onnx", "a.pt", "a.pkl", "a.onnx.pkl", "a.engine", "labels.txt"):
            (tmp_path / name / file).write_bytes(b"x" * 100)
    monkeypatch.setenv("SIGHTLINE_MODELS", str(tmp_path / "catalogue"))
    return tmp_path


@pytest.mark.parametrize("option", ["model", "canary.model", "shadow.model"])
def test_models_are_onnx_files_below_the_folders_or_of_the_catalogue(models: Path, option: str) -> None:
    policy = Policy(files=(models / "allowed",), largest_model_bytes=100)

    def found(name: str, within: Policy = policy) -> bool:
        second = option.partition(".")[0]
        given = str(models / name)
        options = {"model": given} if option == "model" else {"model": "grpc://known:1/x", second: {"model": given}}
        refused = list(refusals(pipeline({"detect": options}), policy=with_a_served_model(within)))
        return refused == [f"pipeline.0.detect.{option}"]

    assert [found(f"{folder}/a.onnx") for folder in ("allowed", "catalogue", "elsewhere")] == [False, False, True]
    assert all(found(f"allowed/{name}") for name in ("a.pt", "a.pkl", "a.onnx.pkl", "a.engine"))
    assert found("allowed/a.onnx", Policy(files=(models / "allowed",), largest_model_bytes=99))
    assert found("allowed/a.onnx", Policy())


def test_a_model_of_the_store_is_admitted_by_its_name_and_by_no_link(models: Path) -> None:
    store = Store()
    with store.adding() as folder:
        (folder / "plates.onnx").write_bytes(b"x")
        origin = Origin("onnx", "somewhere")
        record = new_record(name="plates", task="detect", model="plates.onnx", origin=origin, added="2026-11-26")
        stored, _ = store.publish(folder, record, version=None)

    assert refusals(pipeline({"detect": {"model": "store:plates"}})) == {}
    assert refusals(pipeline({"detect": {"model": "store:plates@1"}}), policy=Policy(largest_model_bytes=1)) == {}

    stored.model.unlink()
    (models / "elsewhere" / "one.onnx").write_bytes(b"x")
    stored.model.symlink_to(models / "elsewhere" / "one.onnx")
    assert list(refusals(pipeline({"detect": {"model": "store:plates"}}))) == ["pipeline.0.detect.model"]


def test_files_that_steps_read_are_below_the_folders(models: Path) -> None:
    policy = Policy(files=(models / "allowed",), hosts={"broker"})
    for folder, is_refused in (("allowed", False), ("catalogue", True), ("elsewhere", True)):
        labels = str(models / folder / "labels.txt")
        steps: tuple[object, ...] = (
            {"detect": {"model": str(models / "allowed" / "a.onnx"), "labels": labels}},
            {"replay": {"path": labels, "format": "mot"}},
            {"mqtt": {"url": "mqtts://broker", "ca_file": labels}},
        )
        assert [bool(refusals(pipeline(step), policy=policy)) for step in steps] == [is_refused] * 3, folder


def test_what_the_pipeline_has_already_is_admitted_again() -> None:
    steps: tuple[object, ...] = (
        {"apply": "os:getcwd"},
        {"webhook": {"url": "http://127.0.0.1/x", "secret": "$ecret"}},
        {"jsonl": "/var/log/a.jsonl"},
    )
    before = pipeline(*steps, gate=source_from("clip.mp4"), yard=source_from("http://127.0.0.1/x.mp4"))
    assert refusals(before, before=before) == {}
    moved = before.model_copy(update={"steps": before.steps[::-1]})
    assert refusals(moved, before=before) == {}
    assert Policy().confined(before, changed_from=before) == before
    assert list(refusals(pipeline({"apply": "os:system"}), before=before)) == ["pipeline.0.apply.function"]


def test_other_options_of_what_is_there_may_change() -> None:
    before = pipeline({"webhook": {"url": "http://127.0.0.1/x"}})
    assert refusals(pipeline({"webhook": {"url": "http://127.0.0.1/x", "batch": 7}}), before=before) == {}
    assert refusals(pipeline({"webhook": {"url": "http://127.0.0.1:81/x"}}), before=before)


def test_new_cameras_are_confined_and_stay_so() -> None:
    policy, before = Policy(networks=("127.0.0.0/8",)), pipeline()
    after = policy.confined(pipeline(gate=CAMERA), changed_from=before)
    wanted = ("private", "public", "127.0.0.0/8")
    assert getattr(after.sources["gate"], "networks") == wanted  # noqa: B009  a source may have none
    assert policy.confined(after, changed_from=after) == after

    freed = after.model_copy(update={"sources": {**after.sources, "gate": CAMERA}})
    assert policy.confined(freed, changed_from=after) == after
    wider = source_from({"uri": "rtsp://me:secret@10.0.0.7/main", "networks": ["10.0.0.0/8", "127.0.0.0/8"]})
    assert "may not choose networks" in refusals(pipeline(gate=wider), before=after, policy=policy)["sources.gate.uri"]
    udp = source_from({"uri": "rtsp://10.0.0.7/main", "transport": "udp"})
    assert "over tcp only" in refusals(pipeline(gate=udp), policy=policy)["sources.gate.uri"]


def test_schemes_are_those_of_cameras_unless_others_are_allowed() -> None:
    web = pipeline(gate=source_from("http://8.8.8.8/x.mp4"))
    assert "allow http with --allow-scheme http" in refusals(web)["sources.gate.uri"]
    policy = Policy(schemes={"http"})
    assert refusals(web, policy=policy) == {}
    local = pipeline(gate=source_from("http://10.0.0.7/x.mp4"))
    assert "10.0.0.7 (private)" in refusals(local, policy=policy)["sources.gate.uri"]
    assert refusals(local, policy=Policy(schemes={"http"}, networks=("10.0.0.0/8",))) == {}


def test_what_is_for_the_file_alone_stays_as_it_is(tmp_path: Path) -> None:
    before = pipeline()
    changes: dict[str, dict[str, object]] = {
        "overwrite": {"overwrite": True},
        "sources_file": {"sources_file": SourcesFile(path=tmp_path / "more.yaml")},
        "outbox.path": {"outbox": OutboxOptions(path="/var/x.outbox")},
        "state": {"state": "/var/x.state"},
        "telemetry": {"telemetry": TelemetryOptions(endpoint="http://169.254.169.254")},
    }
    for place, update in changes.items():
        after = before.model_copy(update=update)
        assert list(refusals(after)) == [place]
        assert refusals(after, before=after) == {}


def test_references_to_the_environment_are_refused_where_they_are_written() -> None:
    def found(given: object, written: object = None) -> list[str]:
        known = None if written is None else node_of(written, place=Place())
        problems = Policy().text_problems(node_of(given, place=Place()), changed_from=known, registry=Registry())
        return [".".join(map(str, problem.key)) for problem in problems]

    camera = {"sources": {"yard": {"uri": "rtsp://me:${YARD}@10.0.0.7/x"}}}
    assert found(camera) == ["sources.yard.uri"]
    assert found(camera, camera) == []
    assert found({"sources": {"yard": "rtsp://me:${YARD}@evil.example/x"}}, camera) == ["sources.yard"]
    assert found({"sources": {"other": {"uri": "rtsp://me:${YARD}@10.0.0.7/x"}}}, camera) == ["sources.other.uri"]
    hook = {"webhook": {"url": "https://a", "headers": {"X-Key": "${KEY:-none}"}}}
    assert found({"pipeline": ["track", hook]}) == ["pipeline.1.webhook.headers.X-Key"]
    assert found({"pipeline": [hook]}, {"pipeline": ["track", hook]}) == []
    assert found({"pipeline": [{"read": {"pattern": "^[A-Z]$"}}]}) == []
    assert refusals(pipeline({"webhook": {"url": "https://a", "secret": "${KEY}"}}), policy=Policy(hosts={"a"}))


PLAIN_TEXTS = frozenset(
    (
        *("access_key", "algorithm", "answer_schema", "api_key", "attribute", "attributes", "background", "between"),
        *("birth", "class_confidence", "class_limits", "model", "options", "prompt", "rule_prompts", "stream_prompts"),
        *("by", "confirm", "question", "refuse"),
        *("classes", "client_id", "description", "detector", "endpoint", "engine", "exchange", "floor", "from", "head"),
        *("head_options", "headers", "hours", "id", "image_url", "input_format", "key", "keypoints", "label"),
        *("labels", "name", "networks", "on", "outputs", "owners", "pattern", "prefix", "region", "regions"),
        *("routing_key", "rules", "secret", "secret_key", "select", "sensors", "source", "stream", "streams"),
        *("subject", "table", "timezone", "token", "topic", "type", "uri", "url", "version", "view", "views"),
        *("when", "will"),
    )
)
"""Options that hold text without a mark. A URL in them is judged as one. Mark a new option that names something else
(`InputPath`, `OutputPath`, `Reach`), or add it here.
"""


def _texts(model: type[BaseModel], seen: set[type[BaseModel]]) -> Iterator[str]:
    seen.add(model)
    annotations = [field.annotation for field in model.model_fields.values()]
    for name, field in model.model_fields.items():
        if str in _types(field.annotation) and role_of(field) is None and reach_of(field) is None:
            yield field.alias or name
    for annotation in (*annotations, get_type_hints(model).get("__pydantic_extra__")):
        for inner in _types(annotation):
            if isinstance(inner, type) and issubclass(inner, BaseModel) and inner not in seen:
                yield from _texts(inner, seen)


def _types(annotation: object) -> Iterator[object]:
    yield annotation
    for part in get_args(annotation):
        yield from _types(part)


def test_options_whose_names_the_user_chooses_are_judged_too() -> None:
    zone = {"yard": {"polygon": [[0, 0], [1, 0], [1, 1]], "classes": ["http://127.0.0.1/"]}}
    assert list(refusals(pipeline({"zones": zone}))) == ["pipeline.0.zones.yard.classes.0"]


def test_every_option_that_holds_text_is_known_to_be_harmless_or_marked() -> None:
    registry, seen = Registry(), set[type[BaseModel]]()
    described = [*map(registry.element, registry.element_names), *map(registry.source, registry.source_names)]
    assert {name for model in described for name in _texts(model, seen)} == PLAIN_TEXTS
