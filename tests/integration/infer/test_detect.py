"""`detect` from pixels to objects, on both engines, with a model whose every box is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightline.graph.messages import Message, MessageKind
from sightline.media import Batch, Frame, Objects, Origin, PixelFormat, Stream
from sightline.media.convert import surface_from_rgb
from sightline.testing import make_batches, run_element
from sightline_plugins.infer.detect import Detect
from tests.unit.infer.tiny import LABELS, image, write_detector, write_sized_detector

ENGINES = pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])


def detect(model: Path, **options: Any) -> Detect:
    return Detect.model_validate({"model": model, "labels": LABELS, "color": "rgb", "confidence": 0.5} | options)


def frame(
    *blocks: tuple[int, int, str],
    index: int = 0,
    stream: str = "cam",
    pixel_format: PixelFormat = PixelFormat.RGB24,
    size_wh: tuple[int, int] = (64, 64),
) -> Frame:
    surface = surface_from_rgb(image(*blocks, size_wh=size_wh), pixel_format=pixel_format)
    return Frame(Stream(stream), index, index * 40_000_000, surface)


def boxes(objects: Objects) -> list[tuple[str, tuple[float, ...]]]:
    return sorted((view.label, tuple(round(side, 1) for side in view.xyxy)) for view in objects)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_detector(tmp_path / "tiny.onnx")


@ENGINES
@pytest.mark.parametrize("pixel_format", [PixelFormat.RGB24, PixelFormat.BGR24, PixelFormat.I420, PixelFormat.NV12])
def test_boxes_and_labels_come_back_in_source_pixels(model: Path, engine: str, pixel_format: PixelFormat) -> None:
    seen = frame((1, 2, "yellow"), (6, 5, "pink"), pixel_format=pixel_format, size_wh=(128, 64))

    (result,) = run_element(detect(model, engine=engine), [Batch((seen,))])

    assert boxes(result.objects) == [("pink", (96.0, 40.0, 112.0, 48.0)), ("yellow", (16.0, 16.0, 32.0, 24.0))]


def test_a_model_without_class_names_is_told_once(model: Path) -> None:
    told: list[Message] = []

    run_element(detect(model, labels=None), [Batch((frame(index=number),)) for number in range(3)], messages=told)
    assert [one.text for one in told] == [
        "the model has no class names, so classes are shown as numbers: `labels:` or a model card names them"
    ]

    run_element(detect(model), [Batch((frame(),))], messages=told)
    assert len(told) == 1


def test_a_letterboxed_image_gives_boxes_in_source_pixels_too(model: Path) -> None:
    rgb = np.zeros((32, 64, 3), np.uint8)
    rgb[8:16, 16:24] = (255, 255, 0)
    seen = Frame(Stream("cam"), 0, 0, surface_from_rgb(rgb, pixel_format=PixelFormat.RGB24))

    (result,) = run_element(detect(model, fit="letterbox", pad=0), [Batch((seen,))])

    assert boxes(result.objects) == [("yellow", (16.0, 8.0, 24.0, 16.0))]


@ENGINES
def test_results_do_not_depend_on_the_batch_size(model: Path, engine: str) -> None:
    frames = [frame((n % 8, n // 2 % 8, "yellow"), (7 - n % 8, 3, "pink"), index=n) for n in range(11)]
    element = detect(model, engine=engine)

    found = [
        [
            view.objects.xyxy.tobytes()
            for batch in run_element(element, make_batches(frames, size=size))
            for view in batch
        ]
        for size in (1, 4, 16)
    ]

    assert found[0] == found[1] == found[2]


def test_rows_of_a_batch_are_ascending_by_frame(model: Path) -> None:
    frames = [frame((n, n, "yellow"), (7 - n, n, "pink"), index=n) for n in range(4)]

    (result,) = run_element(detect(model), make_batches(frames, size=4))

    assert result.objects.frame.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_every_counts_the_frames_of_each_stream(model: Path) -> None:
    frames = [frame((1, 1, "yellow"), index=n, stream=name) for n in range(4) for name in ("a", "b")]

    results = run_element(detect(model, every=3), make_batches(frames, size=3))

    detected = [flag for batch in results for flag in batch.columns.detected]
    assert detected == [True, True, False, False, False, False, True, True]
    assert [len(view.objects) for batch in results for view in batch] == [int(flag) for flag in detected]


def test_only_the_wanted_classes_become_objects(model: Path) -> None:
    seen = frame((1, 1, "yellow"), (4, 4, "pink"))

    (result,) = run_element(detect(model, classes=["pink"]), [Batch((seen,))])

    assert result.objects.labels() == ["pink"]


def test_a_class_has_a_limit_of_its_own(model: Path) -> None:
    rgb = image((1, 1, "yellow"), (4, 4, "pink")) // 2
    seen = Frame(Stream("cam"), 0, 0, surface_from_rgb(rgb, pixel_format=PixelFormat.RGB24))

    (result,) = run_element(detect(model, confidence=0.9, class_confidence={"pink": 0.4}), [Batch((seen,))])

    assert result.objects.labels() == ["pink"]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"min_size": [8, 8]}, ["pink", "yellow"]),
        ({"min_size": [8, 8.1]}, []),
        ({"max_size": [7.9, 8]}, []),
        ({"min_size": [9, 9], "class_limits": {"pink": {"min_size": [2, 2]}}}, ["pink"]),
        ({"class_limits": {"pink": {"max_size": [7, 99]}}}, ["yellow"]),
        ({"class_limits": {"yellow": {"min_size": [9, 1]}, "pink": {"max_detections": 1}}}, ["pink"]),
    ],
)
def test_boxes_are_left_out_for_their_size_in_pixels_of_the_frame(
    model: Path, options: dict[str, Any], found: list[str]
) -> None:
    seen = frame((1, 2, "yellow"), (6, 5, "pink"))  # 4 pixels wide in the network's input, 8 in the frame

    (result,) = run_element(detect(model, **options), [Batch((seen,))])

    assert sorted(result.objects.labels()) == found


def test_the_surest_of_each_class_and_frame_stay(model: Path) -> None:
    rgb = image((1, 1, "yellow"), (3, 1, "yellow"), (5, 1, "yellow"), (1, 4, "pink"), (3, 4, "pink"))
    rgb[:, : rgb.shape[1] // 3] = rgb[:, : rgb.shape[1] // 3] * 0.7
    surface = surface_from_rgb(rgb.astype(np.uint8), pixel_format=PixelFormat.RGB24)
    frames = tuple(Frame(Stream("cam"), index, index, surface) for index in range(2))
    limits = {"max_per_class": 2, "class_limits": {"pink": {"max_detections": 1}}}

    (result,) = run_element(detect(model, **limits), [Batch(frames)])

    for row in range(2):
        left = [(one.label, one.xyxy[0]) for one in result.objects.of_frame(row)]
        assert sorted(left) == [("pink", 24), ("yellow", 24), ("yellow", 40)]


def test_a_piece_of_an_object_on_a_tile_is_not_too_small(model: Path) -> None:
    seen = frame(
        (2, 4, "yellow"), (3, 4, "yellow")
    )  # two cells beside each other: two boxes, on each part of the frame
    halves = [[0, 0, 0.5, 1], [0.25, 0, 1, 1]]
    plain = {"regions": halves, "iou": 0.1}

    (every,) = run_element(detect(model, **plain), [Batch((seen,))])
    widest = max(right - left for left, _, right, _ in every.objects.xyxy.tolist())
    (large,) = run_element(detect(model, **plain, min_size=[widest, 1]), [Batch((seen,))])

    expected = [box for box in boxes(every.objects) if box[1][2] - box[1][0] >= round(widest, 1)]
    assert boxes(large.objects) == expected != []


def test_limits_that_no_box_fits_and_of_unknown_classes_are_refused(model: Path) -> None:
    narrow = detect(model, max_size=[20, 20], class_limits={"pink": {"min_size": [8, 21]}})
    plan, problems = narrow.plan()
    assert plan is not None
    assert [(one.message, one.key) for one in [*problems, *narrow.plan_problems(plan)]] == [
        ("no box fits both min_size 8 x 21 and max_size 20 x 20", ("class_limits", "pink"))
    ]
    _, problems = detect(model, class_limits={"yelow": {}}).plan()
    assert [one.key for one in problems] == [("class_limits", "yelow")]


@pytest.mark.parametrize(("confidence", "labels"), [(None, ["pink"]), (0.9, [])])
def test_a_class_has_the_limit_of_the_card_unless_the_step_has_one(
    model: Path, confidence: float | None, labels: list[str]
) -> None:
    model.with_suffix(".yaml").write_text("confidence: 0.9\nclass_confidence: {pink: 0.4}\n")
    rgb = image((1, 1, "yellow"), (4, 4, "pink")) // 2
    seen = Frame(Stream("cam"), 0, 0, surface_from_rgb(rgb, pixel_format=PixelFormat.RGB24))

    (result,) = run_element(detect(model, confidence=confidence), [Batch((seen,))])

    assert result.objects.labels() == labels


def test_a_region_is_searched_alone_and_gives_boxes_in_frame_pixels(model: Path) -> None:
    rgb = np.zeros((64, 128, 3), np.uint8)
    rgb[16:24, 72:80] = (255, 255, 0)
    rgb[16:24, 8:16] = (255, 255, 0)
    seen = Frame(Stream("cam"), 0, 0, surface_from_rgb(rgb, pixel_format=PixelFormat.I420))

    (result,) = run_element(detect(model, regions=[[0.5, 0, 1, 1]]), [Batch((seen,))])

    assert boxes(result.objects) == [("yellow", (72.0, 16.0, 80.0, 24.0))]


def test_what_two_regions_see_is_one_object(model: Path) -> None:
    seen = frame((3, 3, "yellow"))

    (result,) = run_element(detect(model, regions=[[0, 0, 1, 1], [0, 0, 1, 1]]), [Batch((seen,))])

    assert len(result.objects) == 1


def test_regions_can_differ_from_stream_to_stream(model: Path) -> None:
    frames = [frame((1, 1, "yellow"), stream=name) for name in ("gate-1", "yard")]

    (result,) = run_element(detect(model, regions={"gate*": [[0.5, 0.5, 1, 1]]}), make_batches(frames, size=2))

    assert [len(view.objects) for view in result] == [0, 1]


def test_objects_already_there_are_kept(model: Path) -> None:
    before = Objects.from_columns(
        frame=[0], xyxy=[[0, 0, 5, 5]], confidence=[1], class_id=[0], source=Origin("earlier", ("thing",))
    )

    (result,) = run_element(detect(model), [Batch((frame((1, 1, "yellow")),), objects=before)])

    assert result.objects.labels() == ["thing", "yellow"]
    assert [origin.element for origin in result.objects.origins] == ["earlier", "detect"]


@ENGINES
def test_a_model_that_wants_the_images_size_gets_it(tmp_path: Path, engine: str) -> None:
    model = write_sized_detector(tmp_path / "sized.onnx")
    seen = frame((1, 1, "yellow"), size_wh=(128, 64))

    (result,) = run_element(detect(model, engine=engine, fit="stretch"), [Batch((seen,))])

    assert boxes(result.objects) == [("pink", (0.0, 0.0, 128.0, 64.0))]


def test_boxes_are_clipped_to_the_image(tmp_path: Path) -> None:
    model = write_detector(tmp_path / "shifted.onnx", offset=0.0)

    (result,) = run_element(detect(model), [Batch((frame((0, 0, "yellow")),))])

    assert boxes(result.objects) == [("yellow", (0.0, 0.0, 4.0, 4.0))]


def test_boxes_that_are_not_finite_become_no_objects_and_are_reported_once(tmp_path: Path) -> None:
    model = write_detector(tmp_path / "nan.onnx", offset=float("nan"))
    messages: list[Message] = []
    frames = [frame((1, 1, "yellow"), index=n) for n in range(3)]

    results = run_element(detect(model, engine="onnxruntime"), make_batches(frames), messages=messages)

    assert sum(len(batch.objects) for batch in results) == 0
    assert [message.kind for message in messages] == [MessageKind.WARNING]


def test_metadata_of_the_export_names_the_classes(tmp_path: Path) -> None:
    model = write_detector(tmp_path / "named.onnx", metadata={"names": "{0: 'lemon', 1: 'rose'}", "task": "detect"})

    (result,) = run_element(
        Detect.model_validate({"model": model, "color": "rgb"}), [Batch((frame((1, 1, "yellow")),))]
    )

    assert result.objects.labels() == ["lemon"]


def test_a_card_sets_what_the_model_needs(tmp_path: Path) -> None:
    model = write_detector(tmp_path / "carded.onnx")
    (tmp_path / "kinds.names").write_text("lemon\nrose\n")
    (tmp_path / "carded.yaml").write_text("labels: kinds.names\nconfidence: 0.5\ninput: {color: rgb, fit: stretch}\n")

    (result,) = run_element(Detect(model=model), [Batch((frame((1, 1, "yellow"), (4, 4, "pink")),))])

    assert sorted(result.objects.labels()) == ["lemon", "rose"]
