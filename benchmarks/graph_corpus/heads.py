"""Detectors written by hand: heads and what exporters put behind them, on backbones of a few convolutions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from onnx import TensorProto, helper

from benchmarks.graph_corpus.backbones import attention, branch, halves, regrouped, stem
from benchmarks.graph_corpus.builder import Builder, Map
from benchmarks.graph_corpus.registry import structure

CLASSES = 6
BINS = 8
FAR = 2**31 - 1


def maps_of(b: Builder, x: Map, *, act: str = "Relu", channels: int = 16) -> list[Map]:
    """Three maps, the largest first."""
    maps = [b.conv(x, channels, 3, stride=2, act=act)]
    for _ in range(2):
        maps.append(b.conv(maps[-1], channels, 3, stride=2, act=act))
    return maps


def aggregated(b: Builder, maps: list[Map], *, act: str = "Relu") -> list[Map]:
    """Joined on the way up, by enlarging, and on the way down."""
    up = [maps[-1]]
    for lower in maps[-2::-1]:
        up.insert(0, b.conv(b.concat(b.enlarge(b.conv(up[0], 16, act=act)), lower), 16, act=act))
    down = up[:1]
    for upper in up[1:]:
        down.append(b.conv(b.concat(b.conv(down[-1], 16, 3, stride=2, act=act), upper), 16, act=act))
    return down


@structure("nanodet", "NanoDet", opset=11)
@structure("nanodet-ir3", "NanoDet", opset=9, listed="some")
def nanodet(b: Builder) -> None:
    """ShuffleNetV2, a pyramid, and six outputs of scores and distributions, as published with ONNX samples."""
    maps = []
    x = b.pool(b.conv(b.image(), 16, 3, stride=2, act="LeakyRelu"), 3)
    for channels in (16, 24, 32):
        entered = b.conv(x, channels, 3, stride=2, act="LeakyRelu")
        kept, changed = halves(b, entered)
        x = b.shuffle(b.concat(kept, branch(b, changed, act="LeakyRelu")))
        one, two = halves(b, x)
        x = b.shuffle(b.concat(one, branch(b, two, act="LeakyRelu")))
        maps.append(x)
    levels = [b.conv(one, 16, act="LeakyRelu") for one in maps]
    for lower in (1, 0):
        levels[lower] = b.same("Add", levels[lower], b.enlarge(levels[lower + 1]))
    for count, kind in ((CLASSES, "Sigmoid"), (4 * BINS, "")):
        for level in levels:
            tower = b.conv(b.conv(level, 16, 3, group=16), 16)
            b.output(b.rows(b.conv(tower, count, act=kind)))


@structure("picodet", "Paddle", opset=11, constants=True)
def picodet(b: Builder) -> None:
    """Enhanced shuffles with excitation; shapes computed from the maps, as Paddle's exporter writes them."""
    x = stem(b, act="hardswish")
    for _ in range(2):
        kept, changed = b.split(x, 8, 8)
        squeezed = b.conv(Map(b.add("GlobalAveragePool", changed), 8, 1, 1), 4)
        gated = b.same("Mul", changed, b.conv(squeezed, 8, act="HardSigmoid"))
        x = computed_shuffle(b, b.concat(kept, b.conv(gated, 8, act="hardswish")))
    for level in aggregated(b, maps_of(b, x, act="hardswish"), act="hardswish"):
        for count, kind in ((CLASSES, "Sigmoid"), (4 * BINS, "")):
            y = b.conv(level, count, act=kind)
            rows = b.slice(b.add("Shape", y), [0], [1], [0])
            shape = b.add("Concat", rows, b.constant([count]), b.constant([-1]), axis=0)
            b.output(b.transpose(b.add("Reshape", y, shape), 0, 2, 1))


def computed_shuffle(b: Builder, x: Map) -> Map:
    """A channel shuffle whose shapes are read from the map."""
    shape = b.add("Shape", x)
    rows, plane = b.slice(shape, [0], [1], [0]), b.slice(shape, [2], [4], [0])
    apart = b.add("Concat", rows, b.constant([2, x.channels // 2]), plane, axis=0)
    turned = b.transpose(b.add("Reshape", x, apart), 0, 2, 1, 3, 4)
    back = b.add("Concat", rows, b.constant([x.channels]), plane, axis=0)
    return replace(x, name=b.add("Reshape", turned, back))


@structure("pp-yoloe-with-suppression", "Paddle", opset=12, constants=True)
def pp_yoloe(b: Builder) -> None:
    """Distances projected in the graph, a second input of scales, suppression, and rows of six."""
    scale = b.input("scale_factor", (1, 2))
    boxes, scores = [], []
    for stride, level in zip((8, 16, 32), aggregated(b, maps_of(b, stem(b))), strict=True):
        scores.append(b.reshape(b.conv(level, CLASSES, 3, act="Sigmoid"), 1, CLASSES, level.pixels))
        apart = b.reshape(b.conv(level, 4 * BINS, 3, act=""), 1, 4, BINS, level.pixels)
        shares = b.add("Softmax", b.transpose(apart, 0, 3, 1, 2), axis=3)
        bins = b.constant(np.arange(BINS, dtype=np.float32)[:, None])
        far = b.reshape(b.add("MatMul", shares, bins), 1, level.pixels, 4)
        boxes.append(b.add("Mul", b.add("Add", far, centres(b, level)), b.constant(float(stride))))
    joined = b.add("Div", b.add("Concat", *boxes, axis=1), b.add("Concat", scale, scale, axis=1))
    suppressed(b, joined, b.add("Concat", *scores, axis=2), most=20)


def centres(b: Builder, level: Map) -> str:
    """The cells of a map as (1, H W, 4)."""
    x, y = np.tile(np.arange(level.width), level.height), np.repeat(np.arange(level.height), level.width)
    return b.constant((np.stack([x, y, x, y], axis=1)[None] + 0.5).astype(np.float32))


def suppressed(b: Builder, boxes: str, scores: str, *, most: int) -> None:
    """Rows of class, score and box that the suppression keeps, (N, 6), the best first."""
    limits = [b.constant(np.array([most])), b.constant([0.6]), b.constant([0.3])]
    kept = b.add("NonMaxSuppression", boxes, scores, *limits)
    place, kind = (b.slice(kept, [low], [low + 1], [1]) for low in (2, 1))
    found = b.add("GatherND", scores, kept)
    corners = b.add("Gather", b.reshape(boxes, -1, 4), b.reshape(place, -1), axis=0)
    rows = [b.add("Cast", kind, to=TensorProto.FLOAT), b.reshape(found, -1, 1), corners]
    order = b.add_many("TopK", found, b.add("Shape", found), count=2, axis=0)[1]
    b.output(b.add("Gather", b.add("Concat", *rows, axis=1), order, axis=0))


@structure("yolov3-darknet", "Darknet", opset=9, listed="all")
def yolov3(b: Builder) -> None:
    """Leaky activations, three maps with anchors on an axis of their own."""
    for level in aggregated(b, maps_of(b, stem(b, act="LeakyRelu"), act="LeakyRelu"), act="LeakyRelu"):
        y = b.conv(level, 3 * (5 + CLASSES), act="")
        apart = b.reshape(y, 1, 3, 5 + CLASSES, level.height, level.width)
        b.output(b.transpose(apart, 0, 1, 3, 4, 2))


@structure("yolov4-mish", "Darknet", opset=11)
def yolov4(b: Builder) -> None:
    """Mish, a pyramid of pools, boxes decoded by slices and exponents."""
    x = b.conv(stem(b, act="mish"), 16, 3, stride=2, act="mish")
    x = b.conv(b.concat(x, *(b.pool(x, size, stride=1) for size in (5, 9, 13))), 16, act="LeakyRelu")
    y = b.conv(x, 5 + CLASSES, act="")
    xy, wh, scores = (b.slice(y, [low], [high], [1]) for low, high in ((0, 2), (2, 4), (4, FAR)))
    grid = b.constant(np.indices((8, 8))[None].astype(np.float32))
    parts = [b.add("Add", b.add("Sigmoid", xy), grid), b.add("Exp", wh), b.add("Sigmoid", scores)]
    joined = Map(b.add("Concat", *parts, axis=1), 5 + CLASSES, 8, 8)
    b.output(b.rows(joined))


@structure("yolov5", "Ultralytics", opset=12)
def yolov5(b: Builder) -> None:
    """Anchors; the grid is made in the graph from the shape of each map."""
    found = []
    levels = aggregated(b, maps_of(b, stem(b, act="silu"), act="silu"), act="silu")
    for stride, level in zip((8, 16, 32), levels, strict=True):
        y = b.conv(level, 3 * (5 + CLASSES), act="")
        apart = b.reshape(y, 1, 3, 5 + CLASSES, level.height, level.width)
        rows = b.add("Sigmoid", b.transpose(apart, 0, 1, 3, 4, 2))
        size = b.add("Gather", b.add("Shape", y), b.constant(3), axis=0)
        steps = b.add("Range", b.constant(np.int64(0)), size, b.constant(np.int64(1)))
        line = b.reshape(b.add("Cast", steps, to=TensorProto.FLOAT), 1, 1, 1, -1, 1)
        shape = b.constant([1, 1, level.height, level.width, 1])
        columns = b.add("Expand", line, shape)
        grid = b.add("Concat", columns, b.transpose(columns, 0, 1, 3, 2, 4), axis=4)
        xy = b.add("Mul", b.add("Add", b.slice(rows, [0], [2], [4]), grid), b.constant(float(stride)))
        wh = b.add("Pow", b.add("Mul", b.slice(rows, [2], [4], [4]), b.constant(2.0)), b.constant(2.0))
        whole = b.add("Concat", xy, wh, b.slice(rows, [4], [FAR], [4]), axis=4)
        found.append(b.reshape(whole, 1, -1, 5 + CLASSES))
    b.output(b.add("Concat", *found, axis=1))


def distributions(b: Builder, levels: list[Map]) -> tuple[str, str]:
    """Boxes (1, 4, N) from distributions and scores (1, classes, N), as YOLOv8 has them."""
    joined = []
    for level in levels:
        parts = b.concat(b.conv(level, 4 * BINS, act=""), b.conv(level, CLASSES, act=""))
        joined.append(b.reshape(parts, 1, parts.channels, -1))
    flat = b.add("Concat", *joined, axis=2)
    count = sum(level.pixels for level in levels)
    sides, scores = (b.slice(flat, [low], [high], [1]) for low, high in ((0, 4 * BINS), (4 * BINS, FAR)))
    apart = b.transpose(b.reshape(sides, 1, 4, BINS, count), 0, 2, 1, 3)
    bins = b.constant(np.arange(BINS, dtype=np.float32).reshape(1, BINS, 1, 1))
    mean = b.add("Conv", b.add("Softmax", apart, axis=1), bins, kernel_shape=[1, 1])
    return b.reshape(mean, 1, 4, count), b.add("Sigmoid", scores)


@structure("yolov8", "Ultralytics", opset=17)
def yolov8(b: Builder) -> None:
    """Distributions, one output (1, 4 + classes, N)."""
    x = stem(b, act="silu")
    maps = [x, *b.split(x, 8, 8)]
    x = b.conv(b.concat(*maps, b.conv(maps[-1], 8, 3, act="silu")), 16, act="silu")
    b.output(b.add("Concat", *distributions(b, aggregated(b, maps_of(b, x, act="silu"), act="silu")), axis=1))


@structure("yolov8-transposed", "Ultralytics", opset=13)
def yolov8_transposed(b: Builder) -> None:
    """The same with (1, N, 4 + classes): maps are joined, then transposed."""
    flat = [b.reshape(b.conv(one, 10, act=""), 1, 10, one.pixels) for one in maps_of(b, stem(b, act="silu"))]
    b.output(b.transpose(b.add("Concat", *flat, axis=2), 0, 2, 1))


@structure("yolov10-best", "Ultralytics", opset=13)
def yolov10(b: Builder) -> None:
    """The best candidates as rows of box, score, class."""
    boxes, scores = distributions(b, maps_of(b, stem(b, act="silu"), act="silu"))
    flat = b.reshape(b.transpose(scores, 0, 2, 1), 1, -1)
    values, places = b.add_many("TopK", flat, b.constant([30]), count=2, axis=1)
    rows = b.unsqueeze(b.add("Div", places, b.constant(np.int64(CLASSES))), 2)
    index = b.add("Expand", rows, b.constant([1, 30, 4]))
    kept = b.add("GatherElements", b.transpose(boxes, 0, 2, 1), index, axis=1)
    kinds = b.add("Cast", b.add("Mod", places, b.constant(np.int64(CLASSES))), to=TensorProto.FLOAT)
    b.output(b.add("Concat", kept, b.unsqueeze(values, 2), b.unsqueeze(kinds, 2), axis=2))


@structure("yolo11-attention", "Ultralytics", opset=18)
def yolo11(b: Builder) -> None:
    """Partial self-attention on the coarsest map, split heads of unequal sizes."""
    x = b.conv(stem(b, act="silu"), 16, 3, stride=2, act="silu")
    kept, seen = b.split(x, 8, 8)
    apart = b.reshape(b.conv(seen, 16, act=""), 1, 2, 8, x.pixels)
    query, key, value = b.add_many("Split", apart, b.constant([2, 2, 4]), count=3, axis=2)
    weights = b.add("Softmax", b.add("MatMul", b.transpose(query, 0, 1, 3, 2), key), axis=-1)
    mixed = b.reshape(b.add("MatMul", value, b.transpose(weights, 0, 1, 3, 2)), 1, 8, 8, 8)
    place = b.conv(replace(seen, name=b.reshape(value, 1, 8, 8, 8)), 8, 3, group=8, act="")
    attended = b.conv(b.same("Add", replace(seen, name=mixed), place), 8, act="")
    b.output(b.conv(b.concat(kept, b.same("Add", seen, attended)), 16, act="silu"))


@structure("yolox", "YOLOX", opset=11)
def yolox(b: Builder) -> None:
    """A focus, depthwise convolutions, and towers joined along channels, then transposed."""
    x = b.conv(regrouped(b, b.image(), [(0, 0), (1, 0), (0, 1), (1, 1)]), 16, 3, act="silu")
    x = b.conv(b.conv(x, 16, 3, stride=2, group=16, act="silu"), 16, act="silu")
    rows = []
    for level in aggregated(b, maps_of(b, x, act="silu"), act="silu"):
        parts = (b.conv(level, 4, act=""), b.conv(level, 1, act="Sigmoid"), b.conv(level, CLASSES, act="Sigmoid"))
        joined = b.concat(*parts)
        rows.append(b.reshape(joined, 1, joined.channels, joined.pixels))
    b.output(b.transpose(b.add("Concat", *rows, axis=2), 0, 2, 1))


@structure("yolo-fastestv2", "Yolo-Fastest", opset=11)
def yolo_fastestv2(b: Builder) -> None:
    """Sums and joins of 1x1 convolutions, softmax over classes, maps with channels last."""
    maps = maps_of(b, b.shuffle(stem(b)))
    coarse = b.conv(maps[2], 16)
    for level in (b.conv(b.concat(b.enlarge(coarse), maps[1]), 16), coarse):
        tower = b.conv(b.conv(level, 16, 5, group=16), 16, act="")
        kinds = b.transpose(b.conv(tower, CLASSES, act=""), 0, 2, 3, 1)
        parts = [b.transpose(b.conv(tower, count, act="Sigmoid"), 0, 2, 3, 1) for count in (12, 3)]
        b.output(b.add("Concat", *parts, b.add("Softmax", kinds, axis=3), axis=3))


@structure("rtmdet-with-suppression", "MMDetection", opset=11)
def rtmdet(b: Builder) -> None:
    """Channel attention, the best candidates of each map, then suppression: boxes with scores, and labels."""
    x = stem(b, act="silu")
    gate = b.conv(Map(b.add("GlobalAveragePool", x), 16, 1, 1), 16, act="HardSigmoid")
    x = b.conv(b.conv(b.same("Mul", x, gate), 16, 5, group=16, act="silu"), 16, act="silu")
    boxes, scores = [], []
    for stride, level in zip((8, 16, 32), aggregated(b, maps_of(b, x, act="silu"), act="silu"), strict=True):
        kinds, far = b.rows(b.conv(level, CLASSES, act="Sigmoid")), b.rows(b.conv(level, 4))
        best = b.add("ReduceMax", kinds, axes=[2], keepdims=0)
        count = b.constant([min(24, level.pixels)])
        places = b.reshape(b.add_many("TopK", best, count, count=2, axis=1)[1], -1)
        moved = b.add("Add", b.add("Mul", far, b.constant([-1.0, -1.0, 1.0, 1.0])), centres(b, level))
        boxes.append(b.add("Gather", b.add("Mul", moved, b.constant(float(stride))), places, axis=1))
        scores.append(b.add("Gather", kinds, places, axis=1))
    joined = b.transpose(b.add("Concat", *scores, axis=1), 0, 2, 1)
    suppressed(b, b.add("Concat", *boxes, axis=1), joined, most=10)


@structure("fcos-group-norm", "MMDetection", opset=11)
def fcos(b: Builder) -> None:
    """Shared towers with group normalisation as three operators, a scale of each map."""
    for level in aggregated(b, maps_of(b, stem(b))):
        groups = b.reshape(b.conv(level, 16, 3, act=""), 1, 4, -1)
        ones, zeros = b.constant(np.ones(4, np.float32)), b.constant(np.zeros(4, np.float32))
        normal = b.reshape(b.add("InstanceNormalization", groups, ones, zeros), 1, 16, level.height, level.width)
        scaled = b.same("Mul", replace(level, name=normal), b.constant(b.random(16, 1, 1)))
        far = b.same("Mul", b.conv(b.same("Relu", scaled), 4), b.constant(0.7))
        b.output(b.rows(far))
        b.output(b.rows(b.conv(scaled, CLASSES, act="")))


@structure("ssd-channels-last", "TensorFlow", opset=13)
def ssd(b: Builder) -> None:
    """Images with channels last; borders by auto_pad; boxes decoded with exponents, softmax over the last axis."""
    x = b.transpose(b.input("image", (1, 64, 64, 3)), 0, 3, 1, 2)
    for given, made in ((3, 8), (8, 16)):
        weights = b.constant(b.random(made, given, 3, 3, size=0.2))
        x = b.clip(Map(b.add("Conv", x, weights, auto_pad="SAME_UPPER", strides=[2, 2]), made, 0, 0), 0, 6).name
    level = b.conv(Map(x, 16, 16, 16), 16, act="Relu")
    kinds = b.transpose(b.conv(level, 2 * CLASSES, 3, act=""), 0, 2, 3, 1)
    b.output(b.add("Softmax", b.reshape(kinds, 1, -1, CLASSES), axis=2))
    places = b.reshape(b.transpose(b.conv(level, 8, 3, act=""), 0, 2, 3, 1), 1, -1, 4)
    centre, size = (b.slice(places, [low], [low + 2], [2]) for low in (0, 2))
    b.output(b.add("Concat", centre, b.add("Exp", size), axis=2))


@structure("retinaface", "InsightFace", opset=9, listed="all")
def retinaface(b: Builder) -> None:
    """Maps with channels last, reshaped to rows and joined over all maps: three outputs."""
    levels = aggregated(b, maps_of(b, stem(b, act="LeakyRelu"), act="LeakyRelu"), act="LeakyRelu")
    for count in (4, 2, 10):
        rows = [b.reshape(b.transpose(b.conv(one, 2 * count, act=""), 0, 2, 3, 1), 1, -1, count) for one in levels]
        joined = b.add("Concat", *rows, axis=1)
        b.output(b.add("Softmax", joined, axis=2) if count == 2 else joined)


@structure("centernet", "MMDetection", opset=13)
def centernet(b: Builder) -> None:
    """A transposed convolution, peaks found by pooling."""
    x = b.conv(stem(b), 16, 3, stride=2)
    weights = b.constant(b.random(16, 16, 4, 4, size=0.1))
    up = b.add("ConvTranspose", x, weights, kernel_shape=[4, 4], strides=[2, 2], pads=[1, 1, 1, 1])
    fine = b.normalized(Map(up, 16, 16, 16))
    heat = b.conv(fine, CLASSES, 3, act="Sigmoid")
    peaks = b.add("Cast", b.add("Equal", heat, b.pool(heat, 3, stride=1)), to=TensorProto.FLOAT)
    b.output(b.same("Mul", heat, peaks))
    b.output(b.conv(fine, 2, act=""))


@structure("efficientdet", "TensorFlow", opset=11)
def efficientdet(b: Builder) -> None:
    """Sums whose learned weights are made positive and normalised in the graph."""
    fine, middle, coarse = maps_of(b, stem(b, act="silu"), act="silu")
    raw = b.add("Relu", b.constant(np.array([0.4, 0.9], np.float32)))
    shares = b.add("Div", raw, b.add("Add", b.add("ReduceSum", raw, keepdims=1), b.constant(1e-4)))
    first, second = (b.add("Gather", shares, b.constant(place), axis=0) for place in (0, 1))
    up = b.same("Add", b.same("Mul", middle, first), b.same("Mul", b.enlarge(coarse), second))
    down = b.same("Add", b.same("Mul", up, first), b.same("Mul", b.pool(fine, 3), second))
    for level in (fine, down, coarse):
        b.output(b.rows(b.conv(b.conv(level, 16, 3, group=16, act="silu"), 9, act="")))


@structure("detr", "transformers", opset=13)
def detr(b: Builder) -> None:
    """Tokens of the coarsest map, a transformer, and learned queries."""
    x = b.conv(stem(b), 16, 3, stride=2)
    tokens = b.add("Add", b.rows(x), b.constant(b.random(1, 64, 16)))
    queries = b.add("Concat", attention(b, tokens, 16), b.constant(b.random(1, 10, 16)), axis=1)
    found = b.slice(attention(b, queries, 16), [-10], [FAR], [1])
    b.output(b.linear(found, 16, CLASSES + 1))
    b.output(b.add("Sigmoid", b.linear(b.add("Relu", b.linear(found, 16, 16)), 16, 4)))


@structure("deformable-detr", "transformers", opset=16)
def deformable_detr(b: Builder) -> None:
    """Queries that look at points of a map, by sampling."""
    x = b.conv(stem(b), 16, 3, stride=2)
    queries = b.constant(b.random(1, 12, 16))
    places = b.add("Tanh", b.reshape(b.linear(attention(b, queries, 16), 16, 8), 1, 12, 4, 2))
    seen = b.add("GridSample", x, places, mode="bilinear", padding_mode="zeros", align_corners=0)
    b.output(b.linear(b.transpose(b.mean(seen, [3]), 0, 3, 2, 1), 16, 4))


@structure("bytes-of-any-size", "OpenVINO model zoo", opset=13)
def end_to_end(b: Builder) -> None:
    """Bytes with channels last in, resized and normalised in the graph; rows of seven out."""
    image = b.input("image", (1, 96, 80, 3), TensorProto.UINT8)
    levels = b.transpose(b.add("Cast", image, to=TensorProto.FLOAT), 0, 3, 1, 2)
    x = b.add("Resize", levels, "", "", b.constant([1, 3, 64, 64]), mode="linear")
    x = b.add("Div", b.add("Sub", x, b.constant(b.random(3, 1, 1))), b.constant(58.0))
    level = b.conv(b.conv(Map(x, 3, 64, 64), 16, 3, stride=2), 16, 3, stride=2)
    scores = b.reshape(b.conv(level, CLASSES, act="Sigmoid"), 1, CLASSES, level.pixels)
    boxes = b.add("Add", b.rows(b.conv(level, 4)), centres(b, level))
    suppressed(b, boxes, scores, most=8)


@structure("two-images", "Paddle", opset=11)
def two_images(b: Builder) -> None:
    """Exported for two images at a time."""
    x = b.conv(b.image(rows=2), 16, 3, stride=2)
    up = b.enlarge(b.conv(b.pool(x), 16))
    y = b.conv(b.concat(x, up), 8)
    b.output(b.transpose(b.reshape(y, 2, 8, y.pixels), 0, 2, 1))


@structure("nested-graphs", "torchvision", opset=13)
def nested(b: Builder) -> None:
    """A branch taken by the number of candidates, whose graphs read tensors from outside."""
    x = stem(b)
    shuffled = b.shuffle(x)
    boxes = b.rows(b.conv(shuffled, 4))
    shape = b.add("Shape", b.add("NonZero", b.slice(b.add("Relu", boxes), [0], [1], [2])))
    some = b.add("Greater", b.reshape(b.slice(shape, [1], [2], [0]), 1), b.constant(np.array([4])))
    branches = []
    for name, operator, source in (("one", "Exp", boxes), ("two", "Neg", boxes)):
        value = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        branches.append(helper.make_graph([helper.make_node(operator, [source], [name])], name, [], [value]))
    b.output(b.add("If", some, then_branch=branches[0], else_branch=branches[1]))
    b.output(b.conv(shuffled, 4))
