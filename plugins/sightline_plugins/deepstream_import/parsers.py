"""Functions of compiled parser libraries, by the name that configurations give them, and the heads that do the same.

The names are those of DeepStream's own samples, of the TAO applications, and of DeepStream-Yolo (2026). A head is
recognised from the outputs of a model; its name here tells what to expect, and what to set where several fit.
"""

from __future__ import annotations

from collections.abc import Mapping

from sightline.graph.wording import suggest

HEADS: Mapping[str, str] = {
    "NvDsInferParseCustomResnet": "detectnet_v2",
    "NvDsInferParseDetectNetV2": "detectnet_v2",
    "NvDsInferParseCustomSSD": "detection_output",
    "NvDsInferParseCustomSSDUff": "detection_output",
    "NvDsInferParseCustomTfSSD": "object_detection_api",
    "NvDsInferParseCustomNMSTLT": "detection_output",
    "NvDsInferParseCustomBatchedNMSTLT": "end_to_end",
    "NvDsInferParseCustomEfficientNMSTLT": "end_to_end",
    "NvDsInferParseCustomEfficientNMS": "end_to_end",
    "NvDsInferParseCustomEfficientDetTAO": "end_to_end",
    "NvDsInferParseCustomDDETRTAO": "rt_detr",
    "NvDsInferParseCustomRTDETRTAO": "rt_detr",
    "NvDsInferParseCustomYoloV2": "yolo_anchors",
    "NvDsInferParseCustomYoloV2Tiny": "yolo_anchors",
    "NvDsInferParseCustomYoloV3": "yolo_anchors",
    "NvDsInferParseCustomYoloV3Tiny": "yolo_anchors",
    "NvDsInferParseCustomYoloV4": "yolo_anchors",
    "NvDsInferParseYolo": "end_to_end, yolov8 or yolov5",
    "NvDsInferParseYoloCuda": "end_to_end, yolov8 or yolov5",
    "NvDsInferParseYoloE": "yolo_nas or end_to_end",
    "NvDsInferParseYoloECuda": "yolo_nas or end_to_end",
    "NvDsInferParseCustomYolo": "yolov8 or yolov5",
    "NvDsInferParseYoloV5": "yolov5",
    "NvDsInferParseYoloV7": "yolov5",
    "NvDsInferParseYoloV8": "yolov8",
    "NvDsInferYoloMask": "yolov8_seg or yolov5_seg",
    "NvDsInferParseYoloSeg": "yolov8_seg or yolov5_seg",
    "NvDsInferParseYoloPose": "yolov8_pose or end_to_end_pose",
    "NvDsInferParseYoloFace": "yolov8_pose",
    "NvDsInferParseCustomRetinaface": "retinaface",
    "NvDsInferParseCustomCenterNet": "centernet",
    "NvDsInferParseCustomFCOS": "fcos",
    "NvDsInferClassifierParseCustomSoftmax": "classify",
    "NvDsInferClassiferParseCustomSoftmax": "classify",
    "NvDsInferParseCustomNVPlate": "ctc",
    "NvDsInferParseCustomLPRNet": "ctc",
    "NvDsInferParseCustomPeopleSemSegFormer": "class_map",
}
"""DeepStream's own samples misspell `Classifer`; both spellings are known."""
TASKS: Mapping[str, str] = {"ctc": "read", "yolov8_pose": "pose", "yolov8_pose or end_to_end_pose": "pose"}
"""Steps of heads whose kind of network nvinfer has no word for."""
ROW_PARSERS = frozenset(("NvDsInferParseYolo", "NvDsInferParseYoloCuda"))
"""Functions of DeepStream-Yolo, whose exports have rows of x1, y1, x2, y2, score and class that are not suppressed."""
_NOT_HERE: Mapping[str, str] = {
    "NvDsInferParseCustomFasterRCNN": "models of two stages: export with NonMaxSuppression inside, for `end_to_end`",
    "NvDsInferParseCustomMrcnnTLT": "models of two stages: a one-stage model with masks (`yolov8_seg`) does the same",
    "NvDsInferParseCustomMrcnnTLTV2": "models of two stages: a one-stage model with masks (`yolov8_seg`) does the same",
}
_WORDS: Mapping[str, str] = {
    "yolox": "yolox",
    **dict.fromkeys(("yolov5", "yolov6", "yolov7"), "yolov5"),
    **dict.fromkeys(("yolov8", "yolov9", "yolov11", "yolo11", "yolov12"), "yolov8"),
    **dict.fromkeys(("yolov10", "yolo26"), "end_to_end"),
    "retinaface": "retinaface",
    "rtdetr": "rt_detr",
    "centernet": "centernet",
    "retinanet": "retinanet",
    "scrfd": "scrfd",
    "lprnet": "ctc",
    "softmax": "classify",
}
"""Words in the names of functions that are not known, and the head that their family has."""
TEN_LINES = """\
import numpy as np

from sightline_plugins.heads.head import Candidates


def {name}(outputs, context):
    rows = outputs[0][0]                                   # (boxes, 5): centre, size, score, in pixels of the input
    kept = rows[rows[:, 4] >= context.confidence]
    centre, half = kept[:, :2], kept[:, 2:4] / 2
    boxes = np.concatenate([centre - half, centre + half], axis=1)
    return Candidates.from_arrays(boxes, kept[:, 4], np.zeros(len(kept)))
"""
"""A head of ten lines, for outputs of another form; `infer: {model: ..., head: "heads:NAME"}` runs it."""


def head_of(function: str) -> str | None:
    """Return the heads that read what a parser function reads, as text; None where none is known."""
    return HEADS.get(function)


def advice_on(function: str) -> tuple[str, bool]:
    """Return what to do about a parser function, and whether a user-defined head is needed for it."""
    head = HEADS.get(function)
    if head is not None:
        named = head.replace(", ", "`, `").replace(" or ", "` or `")
        return f"head `{named}` does the same, and is recognised from the outputs (`head` names it otherwise)", False
    if function in _NOT_HERE:
        return _NOT_HERE[function], False
    plain = function.lower()
    likely = next((name for word, name in _WORDS.items() if word in plain), None)
    if likely is not None:
        return (
            f"by its name, head `{likely}` does the same; if the outputs are not recognised, name it with `head`",
            False,
        )
    near = suggest(function, HEADS)
    return f"no head is known by this name{near}; if the outputs are not recognised, ten lines read them (below)", True
