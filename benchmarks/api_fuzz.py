"""Random requests over the whole API, made from its OpenAPI document: `python -m benchmarks.api_fuzz --minutes 10`.

Schemathesis makes right and wrong requests for each operation, as an admin of a server without `--allow-code`; most of
them about names that are there. Prints what was answered. The exit code is 1 when an answer was an error of the server
(503 says that something cannot be done now), an answer was not as the document says, a traceback was logged, the
pipeline did not go on, or memory grew by more than 64 MiB.
"""

from __future__ import annotations

import logging
import re
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import count
from pathlib import Path
from typing import Any, cast

import click
import requests
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from sightline import Pipeline
from sightline.client import Client, PipelineClient
from sightline.runtime.stats.metrics import Process
from sightline.server import Listener, listen

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import schemathesis
    from schemathesis.checks import load_all_checks
    from schemathesis.core.failures import FailureGroup
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

load_all_checks()
TOKEN = "0123456789abcdef0123456789abcdef"
NAMES: Mapping[str, tuple[str, ...]] = {
    "pipeline": ("street",),
    "stream": ("gate", "yard", "new"),
    "element": ("lines-1", "zones-1", "track-1", "draw-1"),
    "rule": ("gate_in", "plaza", "new"),
}
SOURCE: Mapping[str, Any] = {"pattern": "moving", "size": [64, 48], "frames": None, "realtime": True, "fps": 10}
_GO_ON_SECONDS = 120
_ENDLESS = "/events"
_MOST_PROVE_SECONDS = 0.1
_MOST_GROWTH_BYTES = 64 << 20
_SHOWN = 2_000
_CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
_GATE = Path(__file__).resolve().parents[1] / "sample_videos" / "gate.mp4"


@dataclass(slots=True)
class Findings:
    """What was answered, and what was wrong with it; at most one example for each operation and kind of fault."""

    statuses: Counter[str] = field(default_factory=Counter)
    faults: dict[tuple[str, str], str] = field(default_factory=dict)
    growth_bytes: int = 0

    @property
    def requests(self) -> int:
        """How many requests were answered."""
        return self.statuses.total()


class _Tracebacks(logging.Handler):
    """Collects what is logged with a traceback."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.texts.append(self.format(record))


@contextmanager
def served(folder: Path) -> Iterator[tuple[Pipeline, Listener]]:
    """A pipeline with two endless streams and rules, running and served."""
    polygon = [[0.1, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9]]
    steps: list[str | Mapping[str, object]] = [
        {"replay": {"path": str(_GATE.with_suffix(".mot.txt")), "format": "mot", "label": "car"}},
        "track",
        {"lines": {"gate_in": {"from": [0.1, 0.6], "to": [0.9, 0.6]}}},
        {"zones": {"plaza": {"polygon": polygon}}},
        "draw",
    ]
    sources = {"gate": SOURCE, "yard": {**SOURCE, "pattern": "bars"}}
    pipeline = Pipeline(name="street", sources=sources, steps=steps, outputs=folder, keep_running=True)
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener, pipeline:
        yield pipeline, listener


def fuzz(url: str, findings: Findings, *, examples: int, number: int) -> None:
    """Send `examples` requests to each operation; `number` chooses which."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    document = requests.get(f"{url}api/v1/openapi.json", headers=headers, timeout=60).json()
    del document["security"]  # else the library leaves the token out at times; a test asks every operation without
    schema = schemathesis.openapi.from_dict(document)
    operations: list[Any] = [cast("Any", result).ok() for result in schema.get_all_operations()]
    for operation in sorted(operations, key=lambda one: one.method == "delete"):  # what is there is used before
        _fuzz_operation(operation, url.rstrip("/"), findings, examples=examples, number=number)


def _fuzz_operation(operation: Any, url: str, findings: Findings, *, examples: int, number: int) -> None:
    label, headers = operation.label, {"Authorization": f"Bearer {TOKEN}"}
    right = operation.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE)
    wrong = operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)
    known = st.fixed_dictionaries({name: st.sampled_from(names) for name, names in NAMES.items()})

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=right | wrong, names=known, is_known=st.sampled_from((True, True, True, False)))
    def ask(case: Any, names: dict[str, str], is_known: bool) -> None:
        if is_known:
            case.path_parameters = {name: names.get(name, one) for name, one in (case.path_parameters or {}).items()}
        if isinstance(case.query, dict) and isinstance(prove := case.query.get("prove"), int | float) and prove > 0:
            case.query["prove"] = min(prove, _MOST_PROVE_SECONDS) if prove <= 300 else prove
        if label.endswith(_ENDLESS):
            arguments = case.as_transport_kwargs(base_url=url, headers=headers)
            with requests.request(**arguments, stream=True, timeout=120) as answer:
                status = answer.status_code
        else:
            answered = case.call(base_url=url, headers=headers, timeout=120)
            status = answered.status_code
            try:
                case.validate_response(answered, checks=_CHECKS)
            except FailureGroup as failures:
                findings.faults.setdefault((label, f"{status} not as documented"), str(failures)[:_SHOWN])
        findings.statuses[f"{label} {status}"] += 1
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.SERVICE_UNAVAILABLE:
            findings.faults.setdefault((label, f"{status}"), case.as_curl_command()[:_SHOWN])

    ask()


def run(folder: Path, *, examples: int, minutes: float | None = None) -> Findings:
    """Fuzz a server: once over all operations, or again and again for some minutes."""
    findings, log = Findings(), _Tracebacks()
    logging.getLogger().addHandler(log)
    began = time.monotonic()
    try:
        with served(folder) as (pipeline, listener):
            client = Client(listener.url, token=TOKEN).pipeline()
            begin = client.configuration().text
            before = 0
            for number in count():
                client.apply(begin, if_match="*", prove=0)
                client.resume("gate")
                fuzz(listener.url, findings, examples=examples, number=number)
                after = Process.now().resident_bytes or 0  # not known on every system
                if number == 0:  # the first turn imports and fills caches
                    before = after
                findings.growth_bytes = after - before
                if minutes is None or time.monotonic() - began > minutes * 60:
                    break
            client.apply(begin, if_match="*", prove=0)
            client.resume("gate")
            _check_that_it_goes_on(pipeline, client, findings)
    finally:
        logging.getLogger().removeHandler(log)
    for text in log.texts:
        findings.faults.setdefault(("log", re.sub(r"\W+", " ", text.splitlines()[-1])[:60]), text)
    if findings.growth_bytes > _MOST_GROWTH_BYTES:
        findings.faults["memory", "grew"] = f"{findings.growth_bytes / 1e6:.0f} MB"
    return findings


def _check_that_it_goes_on(pipeline: Pipeline, client: PipelineClient, findings: Findings) -> None:
    """A stream that is added now is processed, and one that was there before goes on."""
    client.put_stream("last", SOURCE)
    deadline, before = time.monotonic() + _GO_ON_SECONDS, {one.name: one.processed for one in pipeline.status()}
    while time.monotonic() < deadline:
        now = {one.name: one.processed for one in pipeline.status()}
        if all(now.get(name, 0) > before.get(name, 0) for name in ("gate", "last")):
            return
        time.sleep(0.1)
    findings.faults["pipeline", "does not go on"] = f"frames before {before}, and now {now}"


@click.command()
@click.option("--minutes", type=float, default=10.0, show_default=True)
@click.option("--examples", type=int, default=40, show_default=True, help="Requests to each operation in a turn.")
def main(minutes: float, examples: int) -> None:
    """Send random requests to every operation of the API."""
    with tempfile.TemporaryDirectory() as folder:
        findings = run(Path(folder), examples=examples, minutes=minutes)
    by_status = Counter[str]()
    for name, times in sorted(findings.statuses.items()):
        by_status[name.rpartition(" ")[2]] += times
        print(f"{times:7}  {name}")
    print(f"{findings.requests} requests, by status {dict(sorted(by_status.items()))}")
    print(f"memory after the first turn: {findings.growth_bytes / 1e6:+.1f} MB")
    for (place, kind), text in findings.faults.items():
        print(f"\nFAULT {place}: {kind}\n{text}")
    sys.exit(1 if findings.faults else 0)


if __name__ == "__main__":
    main()
