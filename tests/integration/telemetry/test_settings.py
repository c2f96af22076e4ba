"""The section `telemetry` and the variables of OpenTelemetry give where telemetry goes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sightline import Pipeline
from sightline.config import load_description
from sightline.errors import ConfigurationError
from sightline.graph import TelemetryOptions
from tests.integration.telemetry.collector import attributes, collector
from tests.integration.telemetry.test_traces import root_of, traces_of
from tests.ports import free_port

SOURCE = {"pattern": "counter", "size": [64, 48], "frames": 10}
CANARY = "canary-7041"


def run(**telemetry: Any) -> None:
    Pipeline(sources={"gate": SOURCE}, telemetry={"sample": 1.0, "max_rate": 1000, **telemetry}).run()


def write(folder: Path, telemetry: str) -> Path:
    path = folder / "site.yaml"
    path.write_text(
        f"sources: {{gate: {{pattern: counter, size: [64, 48], frames: 10}}}}\ntelemetry: {telemetry}\n"
        "pipeline: [{jsonl: 'out/{stream}.jsonl'}]\n"
    )
    return path


def test_variables_of_opentelemetry_name_the_collector_where_the_section_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with collector() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=north")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "cameras")
        run()

    [resource] = found.trace_requests[0].resource_spans
    assert len(traces_of(found)) == 10
    assert attributes(resource.resource.attributes)["service.name"] == "cameras"
    assert found.accepted[0].headers["x-tenant"] == "north"
    assert found.accepted[0].headers["content-encoding"] == "gzip"


def test_the_section_goes_before_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    with collector() as found:
        run(endpoint=f"{found.url}/base/", headers={"X-Tenant": "south"})

    assert {request.path for request in found.asked.requests} == {"/base/v1/traces", "/base/v1/metrics"}
    assert {request.headers["X-Tenant"] for request in found.asked.requests} == {"south"}


def test_variables_alone_switch_nothing_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with collector() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        Pipeline(sources={"gate": SOURCE}).run()

    assert found.asked.requests == []


def test_the_share_of_frames_is_chosen(tmp_path: Path) -> None:
    with collector() as found:
        sources = {"gate": {**SOURCE, "frames": 2000}}
        Pipeline(
            sources=sources, telemetry={"endpoint": found.url, "sample": 0.1, "max_rate": 1000}, outputs=tmp_path
        ).run()

    indexes = [int(root_of(trace).attributes["sightline.frame.index"]) for trace in traces_of(found)]
    assert 120 < len(indexes) < 290
    assert len({index % 10 for index in indexes}) == 10


def test_nothing_is_traced_with_a_share_of_zero() -> None:
    with collector() as found:
        run(endpoint=found.url, sample=0)

    assert found.trace_requests == []


def test_yaml_describes_it_and_gives_it_back(tmp_path: Path) -> None:
    description = load_description(write(tmp_path, "{endpoint: 'http://127.0.0.1:4318', sample: 0.5}"))

    assert description.telemetry == TelemetryOptions(endpoint="http://127.0.0.1:4318", sample=0.5)
    assert description.to_plain()["telemetry"] == {"endpoint": "http://127.0.0.1:4318", "sample": 0.5}


def test_metrics_can_be_left_out() -> None:
    with collector() as found:
        run(endpoint=found.url, metrics=False)

    assert {request.path for request in found.asked.requests} == {"/v1/traces"}


def test_an_empty_section_switches_it_on(tmp_path: Path) -> None:
    assert load_description(write(tmp_path, "")).telemetry == TelemetryOptions()


@pytest.mark.parametrize(
    ("telemetry", "place", "said"),
    [
        (f"{{endpoint: 'me:{CANARY}@host'}}", "telemetry.endpoint", "does not begin with SCHEME://"),
        (f"{{endpoint: 'grpc://me:{CANARY}@127.0.0.1:4317'}}", "telemetry.endpoint", "http://HOST:PORT or https://"),
        ("{endpont: 'http://127.0.0.1'}", "telemetry.endpont", "did you mean 'endpoint'"),
        ("{sample: 1.5}", "telemetry.sample", "1"),
        ("{max_rate: 0}", "telemetry.max_rate", "0"),
        (f"{{headers: {{Host: '{CANARY}'}}}}", "telemetry.headers", "is set by `telemetry` itself"),
        (
            f"{{endpoint: 'http://me:{CANARY}@127.0.0.1', headers: {{Authorization: '{CANARY}'}}}}",
            "telemetry.headers",
            "not both",
        ),
        ("{endpoint: '${NOT_SET_7041}'}", "telemetry.endpoint", "NOT_SET_7041 is not set"),
    ],
)
def test_a_wrong_setting_is_one_error_at_its_place(tmp_path: Path, telemetry: str, place: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_description(write(tmp_path, telemetry))

    [found] = [line for line in str(caught.value).splitlines() if line.strip()]
    assert "site.yaml:2:" in found
    assert f" {place}: " in found
    assert said in found
    assert CANARY not in found


def test_without_the_extra_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sightline.graph.telemetry.find_spec", lambda name: None)

    with pytest.raises(ConfigurationError, match=r"`telemetry` needs .* pip install 'sightline\[otel\]'"):
        load_description(write(tmp_path, "{}"))


def test_a_pipeline_without_telemetry_does_not_load_the_library() -> None:
    program = (
        "import sys; from sightline import Pipeline\n"
        "Pipeline(sources={'gate': {'pattern': 'counter', 'frames': 1}}).run()\n"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_commands_show_no_secret(tmp_path: Path) -> None:
    endpoint = f"http://me:{CANARY}@127.0.0.1:{free_port()}/?token={CANARY}"
    path = write(tmp_path, f"{{endpoint: '{endpoint}', headers: {{X-Key: {CANARY}}}, sample: 1}}")
    commands = [
        ("check", path),
        ("explain", path),
        ("graph", path),
        ("run", path, "--verbose", "--report", tmp_path / "report.json"),
    ]
    shown = []
    for command in commands:
        line = [sys.executable, "-m", "sightline.cli.main", *map(str, command)]
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        shown.append(done.stdout + done.stderr)

    shown.append((tmp_path / "report.json").read_text())
    assert "telemetry.headers" in shown[1]
    assert "does not take the " in shown[3]
    assert [text for text in shown if CANARY in text] == []
