"""Clips of what happens: what the source showed then, bit for bit, told exactly."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline import Pipeline
from sightline.devices import Device
from sightline.errors import ConfigurationError
from sightline.graph import MessageKind, Outputs, Packets, Site
from sightline.media import Batch, Stream
from sightline_plugins import Media, Record
from sightline_plugins.rtsp.payloads import Codec
from tests.integration.camera.clips import write_noise
from tests.integration.record.scenes import INTERVAL_NS, Told, images, packets, record

COUNT, KEY_EVERY = 200, 10
SECOND_NS = 1_000_000_000
AROUND = {"on": "bell.ring", "before": "1s", "after": "1s"}


@pytest.fixture(scope="module", params=["h264", "h264 with B-frames", "h265", "mjpeg"])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    name = str(request.param)
    codec = Codec(name.split(" ", maxsplit=1)[0])
    suffix = ".mkv" if codec is Codec.MJPEG else ".mp4"
    path = tmp_path_factory.mktemp("source") / f"source{suffix}"
    return write_noise(path, codec=codec, count=COUNT, key_every=KEY_EVERY, b_frames=3 if "B-frames" in name else 0)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_noise(tmp_path_factory.mktemp("plain") / "plain.mp4", count=COUNT, key_every=KEY_EVERY)


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_a_clip_shows_frame_for_frame_what_the_source_showed(source: Path, suffix: str, tmp_path: Path) -> None:
    (clip,), _, _ = record(source, outputs=tmp_path, at=[100], path=f"{{stream}}-{{time}}.{suffix}", **AROUND)
    whole = images(source)

    first = next(number for number, one in enumerate(whole) if one.pts_ns == clip.first_pts_ns)
    wanted = whole[first : first + clip.count]
    assert [one.look for one in clip.shown] == [one.look for one in wanted]
    tolerance_ns = 0 if suffix == "mp4" else SECOND_NS // 1000
    assert all(
        abs(mine.pts_ns - theirs.pts_ns) <= tolerance_ns for mine, theirs in zip(clip.shown, wanted, strict=True)
    )


def test_a_clip_holds_all_that_is_wanted_from_a_key_frame_on(source: Path, tmp_path: Path) -> None:
    (clip,), _, _ = record(source, outputs=tmp_path, at=[100], **AROUND)
    shown = clip.shown
    event_ns = images(source)[100].pts_ns

    assert shown[0].is_key
    assert event_ns - SECOND_NS - KEY_EVERY * INTERVAL_NS < clip.first_pts_ns <= event_ns - SECOND_NS
    assert event_ns + SECOND_NS <= clip.last_pts_ns <= event_ns + SECOND_NS + 4 * INTERVAL_NS


def test_the_message_has_the_exact_first_and_last_times(source: Path, tmp_path: Path) -> None:
    (clip,), told, _ = record(source, outputs=tmp_path, at=[100], **AROUND)
    shown = clip.shown

    if source.suffix == ".mp4":  # the times of Matroska are whole milliseconds, those of the clip are not
        assert (shown[0].pts_ns, shown[-1].pts_ns) == (clip.first_pts_ns, clip.last_pts_ns)
    assert len(shown) == clip.count
    assert clip.data["causes"] == "bell.ring"
    assert clip.data["size_bytes"] == clip.path.stat().st_size
    (text,) = told.texts(MessageKind.RECORDING)
    assert str(clip.path) in text


def test_nothing_is_encoded_anew(plain: Path, tmp_path: Path) -> None:
    (clip,), _, _ = record(plain, outputs=tmp_path, at=[100], **AROUND)

    inside = packets(clip.path)
    assert inside == packets(plain)[70 : 70 + len(inside)]


def test_without_b_frames_a_clip_ends_with_the_last_image_that_is_wanted(plain: Path, tmp_path: Path) -> None:
    (clip,), _, _ = record(plain, outputs=tmp_path, at=[100], **AROUND)

    assert clip.last_pts_ns == 125 * INTERVAL_NS


@pytest.mark.parametrize("second", [101, 120, 149])
def test_what_overlaps_becomes_one_clip(plain: Path, second: int, tmp_path: Path) -> None:
    clips, _, _ = record(plain, outputs=tmp_path, at=[100, second], **AROUND)

    assert [(clip.first_pts_ns, clip.last_pts_ns) for clip in clips] == [
        (70 * INTERVAL_NS, (second + 25) * INTERVAL_NS)
    ]


def test_what_does_not_overlap_becomes_two_clips(plain: Path, tmp_path: Path) -> None:
    clips, _, _ = record(plain, outputs=tmp_path, at=[60, 160], **AROUND)

    assert [(clip.first_pts_ns, clip.last_pts_ns) for clip in clips] == [
        (30 * INTERVAL_NS, 85 * INTERVAL_NS),
        (130 * INTERVAL_NS, 185 * INTERVAL_NS),
    ]


def test_an_event_at_the_very_beginning_has_the_clip_begin_there(plain: Path, tmp_path: Path) -> None:
    clips, told, report = record(plain, outputs=tmp_path, at=[0], **AROUND)

    assert len(clips) == 1, (told.messages, report)
    assert (clips[0].first_pts_ns, clips[0].last_pts_ns) == (0, 25 * INTERVAL_NS)


def test_an_event_near_the_end_has_the_clip_end_there(source: Path, tmp_path: Path) -> None:
    (clip,), _, _ = record(source, outputs=tmp_path, at=[COUNT - 5], **AROUND)

    assert clip.shown[-1].look == images(source)[-1].look


def test_a_clip_that_is_too_long_goes_on_in_another_file_without_a_gap(plain: Path, tmp_path: Path) -> None:
    clips, _, _ = record(plain, outputs=tmp_path, at=range(50, 150, 10), longest="1500ms", **AROUND)

    assert all(clip.last_pts_ns - clip.first_pts_ns <= 2 * SECOND_NS for clip in clips)
    assert [one.look for clip in clips for one in clip.shown] == [one.look for one in images(plain)[20:166]]


@pytest.mark.parametrize(
    ("name", "count"), [("bell.ring", 1), ("bell-1.ring.in", 1), ("bell.ring.out", 0), ("bell.ring.line", 1)]
)
def test_the_direction_and_the_kind_of_an_event_can_be_chosen(
    plain: Path, name: str, count: int, tmp_path: Path
) -> None:
    clips, _, _ = record(plain, outputs=tmp_path, at=[100], on=name)

    assert len(clips) == count


def test_an_object_in_the_image_is_recorded_as_long_as_it_is_there(plain: Path, tmp_path: Path) -> None:
    boxes = tmp_path / "boxes.txt"
    boxes.write_text("".join(f"{frame + 1},7,10,10,20,20,0.9,-1,-1,-1\n" for frame in range(80, 121)))
    replay = {"replay": {"path": str(boxes), "format": "mot", "label": "person"}}

    (clip,), _, _ = record(plain, outputs=tmp_path, steps=[replay], on={"label": "person"}, before="400ms", after="1s")

    assert (clip.first_pts_ns, clip.last_pts_ns) == (70 * INTERVAL_NS, 145 * INTERVAL_NS)
    assert clip.data["causes"] == "person"


def test_an_object_that_the_detector_is_not_sure_of_is_not_recorded(plain: Path, tmp_path: Path) -> None:
    boxes = tmp_path / "boxes.txt"
    boxes.write_text("80,7,10,10,20,20,0.4,-1,-1,-1\n")
    replay = {"replay": {"path": str(boxes), "format": "mot", "label": "person"}}

    clips, _, _ = record(plain, outputs=tmp_path, steps=[replay], on={"label": ["person"], "confidence": 0.5})

    assert clips == []


def test_python_can_ask_for_a_recording(plain: Path, tmp_path: Path) -> None:
    told = Told()
    steps = [{"record": {"path": "{stream}-{time}.mp4", "before": "1s", "after": "1s"}}]
    pipeline = Pipeline(sources={"cam": plain}, steps=steps, outputs=tmp_path)
    pipeline.on_message(told)

    for frame in pipeline:
        if frame.index == 100:
            pipeline.record("cam", after="480ms")
            asked_ns = frame.pts_ns

    (clip,) = told.recorded()
    assert clip.data["causes"] == "request"
    assert clip.first_pts_ns <= asked_ns
    assert clip.last_pts_ns >= asked_ns + 12 * INTERVAL_NS
    assert clip.shown[0].is_key


def test_python_is_told_when_nothing_records_a_stream(plain: Path, tmp_path: Path) -> None:
    pipeline = Pipeline(sources={"cam": plain}, steps=[], outputs=tmp_path)

    with pytest.raises(ConfigurationError, match="nothing records 'cam': start the pipeline"):
        pipeline.record("cam")


def test_a_file_is_never_overwritten(plain: Path, tmp_path: Path) -> None:
    (first,), _, _ = record(plain, outputs=tmp_path, at=[100], **AROUND)
    before = first.path.read_bytes()

    (second,), _, _ = record(plain, outputs=tmp_path, at=[100], **AROUND)

    assert second.path.name == "cam-00h00m02.800s-2.mp4"
    assert first.path.read_bytes() == before


def test_the_report_says_what_was_recorded(plain: Path, tmp_path: Path) -> None:
    (clip,), _, report = record(plain, outputs=tmp_path, at=[100], **AROUND)

    size_bytes = clip.path.stat().st_size
    assert report.totals["record-1"] == {"cam": {"files": 1, "images": clip.count, "size_bytes": size_bytes, "gaps": 0}}


def test_a_source_without_encoded_images_is_told_of(tmp_path: Path) -> None:
    clips, told, _ = record({"pattern": "bars", "frames": 20}, outputs=tmp_path, segment="1s")

    assert clips == []
    assert any("hands on no encoded images" in text for text in told.texts(MessageKind.WARNING))


def test_a_file_shown_several_times_begins_a_new_recording_each_time(plain: Path, tmp_path: Path) -> None:
    clips, _, _ = record({"uri": str(plain), "loop": 2}, outputs=tmp_path, segment="1m")

    assert [(clip.first_pts_ns, clip.count) for clip in clips] == [(0, COUNT), (COUNT * INTERVAL_NS, COUNT)]


def test_a_step_that_records_nothing_yet_keeps_no_more_than_it_may(plain: Path, tmp_path: Path) -> None:
    (clip,), _, _ = record(plain, outputs=tmp_path, at=[190], before="7s", after="0s", on="bell.ring", memory="1MB")

    assert 0 < clip.first_pts_ns < 190 * INTERVAL_NS
    assert clip.path.stat().st_size <= 1_100_000


def test_a_step_that_comes_while_the_source_is_read_records_from_the_next_key_frame_on(
    plain: Path, tmp_path: Path
) -> None:
    told = Told()
    site = Site(device=Device(), outputs=Outputs(tmp_path), packets=Packets(), post=told)
    reader = Media(uri=str(plain)).build(site, stream=Stream("cam"))
    frames = reader.frames()
    for _ in range(15):
        next(frames)

    recorder = Record.model_validate({"path": "{time}.mp4", "segment": "1h"}).build(site)
    for frame in frames:
        recorder.consume(Batch((frame,)))
    recorder.close()

    (file,) = told.recorded()
    assert (file.first_pts_ns, file.last_pts_ns) == (20 * INTERVAL_NS, (COUNT - 1) * INTERVAL_NS)
    assert told.kinds() == [MessageKind.RECORDING_STARTED, MessageKind.RECORDING]
