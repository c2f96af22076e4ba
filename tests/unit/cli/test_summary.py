"""The summary of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sightline.cli.summary import summary


def stream(**changes: object) -> dict[str, object]:
    return {
        "state": "ended",
        "processed": 480,
        "fps": 96.0,
        "dropped": {},
        "damaged": 0,
        "damaged_packets": 0,
        "reconnects": 0,
        "objects": {},
        **changes,
    }


def report(**changes: object) -> dict[str, Any]:
    return {
        "device": "cpu",
        "frames": 480,
        "fps": 96.0,
        "wall_seconds": 5.0,
        "streams": {"gate": stream()},
        "totals": {},
        "deliveries": {},
        "outputs": [],
        "lost_outputs": {},
        **changes,
    }


def test_it_begins_with_frames_and_speed() -> None:
    assert summary(report()).splitlines()[0] == "480 frames in 5.0 s: 96.0 frames/s on cpu"


def test_it_says_what_was_seen_on_a_stream() -> None:
    seen = stream(objects={"car": {"objects": 1200, "tracks": 14}, "dog": {"objects": 3, "tracks": 0}})

    assert "gate  480 frames  96.0 frames/s  car: 14 tracked in 1200 boxes, dog: 3 boxes" in summary(
        report(streams={"gate": seen})
    )


def test_it_says_what_was_dropped_and_why() -> None:
    assert "7 dropped (slow)" in summary(report(streams={"gate": stream(dropped={"slow": 7})}))


def test_it_says_what_was_damaged() -> None:
    assert "3 damaged" in summary(report(streams={"gate": stream(damaged=1, damaged_packets=2)}))


def test_it_says_why_a_stream_failed() -> None:
    assert "failed: no video" in summary(report(streams={"gate": stream(state="failed", error="no video")}))


def test_it_gives_the_counts_of_rules_on_one_line_each() -> None:
    totals = {"lines-1": {"gate": {"gate_in": {"in": 3, "out": 2}}}}

    assert "  lines-1 gate  gate_in: in 3, out 2" in summary(report(totals=totals)).splitlines()


def test_it_gives_what_is_counted_of_several_models_on_one_line() -> None:
    totals = {"detect-1": {"models": [{"trial": "shadow", "frames": 19}, {"trial": "canary", "frames": 4}]}}

    expected = "  detect-1 models  trial shadow, frames 19; trial canary, frames 4"
    assert expected in summary(report(totals=totals)).splitlines()


def test_it_names_the_files_as_they_are_found_from_here() -> None:
    outputs = [str(Path.cwd() / "out" / "gate.jsonl"), "/tmp/elsewhere.mp4"]

    assert summary(report(outputs=outputs)).splitlines()[-3:] == ["written", "  out/gate.jsonl", "  /tmp/elsewhere.mp4"]


def delivery(**changes: object) -> dict[str, object]:
    return {
        "address": "mqtt://***@broker",
        "delivered": 12,
        "waiting": 0,
        "refused": 0,
        "dropped": {"full": 0, "age": 0},
        **changes,
    }


def test_it_says_what_was_delivered() -> None:
    text = summary(report(deliveries={"mqtt-1": delivery()}))

    assert "mqtt-1  12 records  to mqtt://***@broker\n" in f"{text}\n"


def test_it_says_what_was_not_delivered_and_why() -> None:
    lost = delivery(waiting=3, refused=1, dropped={"full": 5, "age": 0}, error="mqtt://***@broker: no answer")
    text = summary(report(deliveries={"mqtt-1": lost}))

    assert "3 wait for the next run, 1 refused, 5 dropped (full), mqtt://***@broker: no answer" in text
