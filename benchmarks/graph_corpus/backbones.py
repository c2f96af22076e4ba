"""Backbones and necks written by hand: what moves, joins, enlarges and normalises channels in published networks.

Each ends in a few maps or a vector. Some only look like a pattern that a pass rewrites, and must stay as they are.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from onnx import TensorProto

from benchmarks.graph_corpus.builder import Builder, Map
from benchmarks.graph_corpus.registry import structure


def stem(b: Builder, channels: int = 16, *, size: int = 64, act: str = "Relu") -> Map:
    """An image and two convolutions: a quarter as high and wide."""
    return b.conv(b.conv(b.image(size), 8, 3, stride=2, act=act), channels, 3, stride=2, act=act)


def halves(b: Builder, x: Map) -> tuple[Map, Map]:
    """The two halves of the channels, by two slices."""
    half = x.channels // 2
    one, two = (b.slice(x, [low], [low + half], [1]) for low in (0, half))
    return replace(x, name=one, channels=half), replace(x, name=two, channels=half)


def branch(b: Builder, x: Map, *, act: str = "Relu") -> Map:
    """A ShuffleNetV2 branch: 1x1, depthwise, 1x1."""
    deep = b.conv(b.conv(x, x.channels, act=act), x.channels, 3, group=x.channels, act="")
    return b.conv(deep, x.channels, act=act)


@structure("shufflenetv2-split", "torchvision", opset=13)
@structure("shufflenetv2-split-ir3", "torchvision", opset=9, listed="all")
def shufflenet_by_split(b: Builder) -> None:
    """Units that split, change one half, join and shuffle."""
    x = stem(b)
    for _ in range(3):
        kept, changed = b.split(x, 8, 8)
        x = b.shuffle(b.concat(kept, branch(b, changed)))
    b.output(b.conv(x, 10))


@structure("shufflenetv2-flattened", "Yolo-Fastest", opset=11)
def shufflenet_flattened(b: Builder) -> None:
    """Pairs on an axis of their own, picked by index."""
    x = stem(b)
    for _ in range(2):
        pairs = b.transpose(b.reshape(x, x.channels // 2, 2, x.pixels), 1, 0, 2)
        apart = b.reshape(pairs, 2, -1, x.channels // 2, x.height, x.width)
        even, odd = (b.add("Gather", apart, b.constant(place), axis=0) for place in (0, 1))
        kept = replace(x, name=even, channels=x.channels // 2)
        x = b.concat(kept, branch(b, replace(kept, name=odd)))
    b.output(x)


@structure("shufflenetv1-groups", "MMDetection", opset=12)
def shufflenet_groups(b: Builder) -> None:
    """Grouped 1x1 convolutions with three groups, shuffled between them."""
    x = stem(b, 24)
    for _ in range(2):
        y = b.shuffle(b.conv(x, 24, group=3), 3)
        y = b.conv(b.conv(y, 24, 3, group=24, act=""), 24, group=3, act="")
        x = b.same("Relu", b.same("Add", x, y))
    b.output(x)


@structure("shuffle-of-pixels", "looks alike")
def shuffle_of_pixels(b: Builder) -> None:
    """Reshapes as of a shuffle, but groups take in rows of pixels: no channel stays whole."""
    x = stem(b)
    turned = b.transpose(b.reshape(x, 1, 4, x.channels // 2, 2, x.pixels // 4), 0, 3, 2, 1, 4)
    b.output(b.conv(replace(x, name=b.reshape(turned, 1, x.channels, x.height, x.width)), 8))


@structure("channels-in-another-order", "ncnn")
def another_order(b: Builder) -> None:
    """A choice of channels in an order that is not its own inverse, in front of three kinds of convolutions."""
    x = stem(b, 6)
    for order in ([2, 0, 1, 5, 3, 4], [5, 4, 3, 2, 1, 0], [1, 2, 3, 4, 5, 0]):
        picked = replace(x, name=b.add("Gather", x, b.constant(order), axis=1))
        x = b.conv(b.conv(picked, 6, 3, group=6), 6)
    last = replace(x, name=b.add("Gather", x, b.constant([1, 2, 3, 4, 5, 0]), axis=-3))
    b.output(b.conv(last, 4, 3))


@structure("channels-reversed-by-slice", "Paddle", opset=11)
def reversed_by_slice(b: Builder) -> None:
    """BGR made RGB in the graph by a slice with a negative step, and every second channel further on."""
    image = b.image()
    turned = replace(image, name=b.slice(image, [-1], [-(2**31)], [1], -1))
    x = b.conv(turned, 16, 3, stride=2)
    every = replace(x, name=b.slice(b.transpose(b.transpose(x, 0, 2, 3, 1), 0, 3, 1, 2), [1], [2**31 - 1], [1], 2))
    b.output(b.conv(replace(every, channels=8), 6))


def regrouped(b: Builder, image: Map, order: list[tuple[int, int]]) -> Map:
    """Pixels of 2 by 2 blocks as channels, (row, column) in `order`."""
    parts = []
    for row, column in order:
        rows = b.slice(image, [row], [2**31 - 1], [2], 2)
        parts.append(b.slice(rows, [column], [2**31 - 1], [3], 2))
    name = b.add("Concat", *parts, axis=1)
    return Map(name, 4 * image.channels, image.height // 2, image.width // 2)


@structure("focus-yolov5", "Ultralytics", opset=12)
def focus_yolov5(b: Builder) -> None:
    """The focus of YOLOv5 before 6.0."""
    x = regrouped(b, b.image(), [(0, 0), (1, 0), (0, 1), (1, 1)])
    b.output(b.conv(b.conv(x, 16, 3, act="silu"), 16, 3, stride=2))


@structure("focus-yolox", "YOLOX", opset=11, listed="all")
def focus_yolox(b: Builder) -> None:
    """The focus of YOLOX: another order of parts, a convolution without bias, and batch normalisation behind it."""
    x = regrouped(b, b.image(), [(0, 0), (0, 1), (1, 0), (1, 1)])
    b.output(b.act(b.normalized(b.conv(x, 16, 3, act="", bias=False)), "silu"))


@structure("focus-turned", "looks alike", opset=13)
def focus_turned(b: Builder) -> None:
    """A focus whose parts are read twice, one of columns only, and one of two of three channels."""
    image = b.image()
    x = regrouped(b, image, [(1, 1), (0, 0), (0, 0), (1, 0)])
    columns = [b.slice(image, [place], [2**31 - 1], [3], 2) for place in (0, 1)]
    narrow = Map(b.add("Concat", *columns, axis=1), 6, image.height, image.width // 2)
    warm = Map(b.add("Gather", image, b.constant([0, 1, 1]), axis=1), 3, image.height, image.width)
    b.output(b.conv(x, 8, 3))
    b.output(b.conv(narrow, 8, 3))
    b.output(b.conv(regrouped(b, warm, [(0, 0), (1, 0), (0, 1), (1, 1)]), 8, 3))


@structure("passthrough-yolov2", "Darknet", opset=9, listed="all")
def passthrough(b: Builder) -> None:
    """YOLOv2: pixels of a finer map become channels of a coarser one, once by an operator, once by transposing."""
    fine = stem(b, 8, act="LeakyRelu")
    coarse = b.conv(b.pool(fine), 16, 3, act="LeakyRelu")
    by_operator = Map(b.add("SpaceToDepth", fine, blocksize=2), 32, coarse.height, coarse.width)
    apart = b.transpose(b.reshape(fine, 1, 8, 8, 2, 8, 2), 0, 3, 5, 1, 2, 4)
    by_hand = replace(by_operator, name=b.reshape(apart, 1, 32, 8, 8))
    b.output(b.conv(b.concat(by_operator, by_hand, coarse), 30, act=""))
    b.output(b.conv(by_hand, 8, 3))


@structure("depth-to-space", "super resolution", opset=13)
def depth_to_space(b: Builder) -> None:
    """Channels become pixels in both orders."""
    x = stem(b, 16)
    for mode in ("DCR", "CRD"):
        b.output(b.add("DepthToSpace", b.conv(x, 12, 3, act=""), blocksize=2, mode=mode))


@structure("fpn-opset9", "Detectron", opset=9, listed="some")
@structure("fpn-opset10", "Detectron", opset=10)
@structure("fpn-opset18", "Detectron", opset=18)
def pyramid(b: Builder) -> None:
    """Enlarged maps joined with finer ones, and a 1x1 convolution behind."""
    fine = stem(b, 12)
    middle = b.conv(b.pool(fine), 16, 3)
    coarse = b.conv(b.pool(middle), 20, 3)
    up = b.conv(b.concat(b.enlarge(coarse), middle), 16)
    b.output(b.conv(b.concat(fine, b.enlarge(up)), 8))
    b.output(b.conv(b.concat(fine, b.enlarge(coarse, 4)), 24))
    b.output(b.same("Add", up, b.conv(b.enlarge(coarse), 16, act="")))


@structure("fpn-computed-sizes", "MMDetection", opset=11)
@structure("fpn-computed-sizes-opset17", "MMDetection", opset=17)
def pyramid_of_computed_sizes(b: Builder) -> None:
    """Enlarged to a size that is read from the finer map."""
    fine = stem(b, 12)
    coarse = b.conv(b.pool(fine), 16, 3)
    size, kept = b.shape(fine, 2, 4), b.shape(coarse, 0, 2)
    sizes = b.add("Concat", kept, size, axis=0)
    how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    up = replace(fine, name=b.add("Resize", coarse, b.no_region(), b.no_region(), sizes, **how), channels=16)
    b.output(b.conv(b.concat(fine, up), 8))


@structure("fpn-odd-sizes", "MMDetection", opset=13)
def pyramid_of_odd_sizes(b: Builder) -> None:
    """Enlarged from 5 to 9 pixels, by each way to round."""
    fine = Map(b.pool(b.conv(b.image(72), 12, 3, stride=2), stride=4, operator="AveragePool").name, 12, 9, 9)
    coarse = b.conv(fine, 16, 3, stride=2)
    for mode, rounding in (("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"), ("align_corners", "ceil")):
        how = {"mode": "nearest", "coordinate_transformation_mode": mode, "nearest_mode": rounding}
        up = b.add("Resize", coarse, "", "", b.constant([1, 16, 9, 9]), **how)
        b.output(b.conv(b.concat(replace(fine, name=up, channels=16), fine), 8))


@structure("unet-linear", "segmentation")
def unet(b: Builder) -> None:
    """Linear enlargement in front of a concatenation, and a transposed convolution."""
    fine = stem(b, 12)
    coarse = b.conv(b.pool(fine), 16, 3)
    up = b.enlarge(coarse, mode="linear", coordinates="half_pixel")
    x = b.conv(b.concat(up, fine), 12)
    weights = b.constant(b.random(12, 8, 2, 2, size=0.2))
    twice = b.add("ConvTranspose", x, weights, kernel_shape=[2, 2], strides=[2, 2])
    b.output(b.conv(Map(twice, 8, 32, 32), 4, 3, act=""))


@structure("pspnet", "segmentation", opset=11)
def pspnet(b: Builder) -> None:
    """Pools of several sizes, enlarged with aligned corners, and dilated convolutions beside them."""
    x = stem(b, 12)
    maps = [x, b.conv(x, 8, 3, dilation=2), b.conv(x, 8, 3, dilation=4)]
    for size in (2, 8):
        small = b.conv(b.pool(x, size, stride=size, operator="AveragePool"), 4)
        maps.append(b.enlarge(small, size, mode="linear", coordinates="align_corners"))
    b.output(b.conv(b.concat(*maps), 6))


@structure("hrnet", "MMPose")
def hrnet(b: Builder) -> None:
    """Three resolutions side by side, each summed and joined with the enlarged others."""
    fine = stem(b, 8)
    middle, coarse = b.conv(fine, 16, 3, stride=2), b.conv(fine, 24, 5, stride=4)
    up = b.enlarge(b.conv(middle, 8, act=""))
    total = b.same("Add", b.same("Add", fine, up), b.enlarge(b.conv(coarse, 8, act=""), 4))
    joined = b.concat(b.same("Relu", total), b.enlarge(middle), b.enlarge(coarse, 4))
    b.output(b.conv(joined, 17, act=""))


@structure("ghostnet", "Paddle", constants=True, opset=11)
def ghostnet(b: Builder) -> None:
    """Half of the channels from the other half by cheap convolutions; squeeze and excitation."""
    x = stem(b, 16, act="hardswish")
    for _ in range(2):
        one = b.conv(x, 8)
        y = b.concat(one, b.conv(one, 8, 3, group=8))
        squeezed = Map(b.add("GlobalAveragePool", y), 16, 1, 1)
        gate = b.conv(b.conv(squeezed, 4), 16, act="HardSigmoid")
        x = b.same("Add", x, b.same("Mul", y, gate))
    b.output(x)


@structure("res2net", "timm", opset=17)
def res2net(b: Builder) -> None:
    """Four parts, each with what the one before found; normalisation that was not folded."""
    x = stem(b, 16)
    parts = b.split(x, 4, 4, 4, 4)
    made = [parts[0]]
    for part in parts[1:]:
        made.append(b.normalized(b.conv(b.same("Add", part, made[-1]), 4, 3, act="")))
    b.output(b.same("Relu", b.same("Add", x, b.conv(b.concat(*made), 16, act=""))))


@structure("densenet", "torchvision", opset=9, listed="all")
def densenet(b: Builder) -> None:
    """Every map joined with all before it."""
    maps = [stem(b, 8)]
    for _ in range(4):
        joined = b.concat(*maps) if len(maps) > 1 else maps[0]
        maps.append(b.conv(b.conv(b.same("Relu", b.normalized(joined)), 16), 8, 3, act=""))
    pooled = b.add("GlobalAveragePool", b.concat(*maps))
    weights, bias = b.constant(b.random(10, 40, size=0.2)), b.constant(b.random(10))
    b.output(b.add("Gemm", b.add("Flatten", pooled, axis=1), weights, bias, transB=1))


@structure("repvgg-branches", "timm", opset=13)
def repvgg(b: Builder) -> None:
    """Three branches before they are merged."""
    x = stem(b, 16)
    for _ in range(2):
        three, one = (b.normalized(b.conv(x, 16, kernel, act="", bias=False)) for kernel in (3, 1))
        x = b.same("Relu", b.same("Add", b.same("Add", three, one), b.normalized(x)))
    b.output(x)


@structure("swin-windows", "timm", opset=17)
def swin(b: Builder) -> None:
    """Windows that attend to themselves, shifted by slices."""
    x = stem(b, 16)
    rolled = b.transpose(x, 0, 2, 3, 1)
    for axis in (1, 2):
        parts = [b.slice(rolled, [low], [high], [axis]) for low, high in ((2, 2**31 - 1), (0, 2))]
        rolled = b.add("Concat", *parts, axis=axis)
    windows = b.transpose(b.reshape(rolled, 1, 4, 4, 4, 4, 16), 0, 1, 3, 2, 4, 5)
    tokens = attention(b, b.reshape(windows, 16, 16, 16), 16, rows=16)
    back = b.transpose(b.reshape(tokens, 1, 4, 4, 4, 4, 16), 0, 1, 3, 2, 4, 5)
    b.output(b.conv(replace(x, name=b.transpose(b.reshape(back, 1, 16, 16, 16), 0, 3, 1, 2)), 8))


def attention(b: Builder, x: str, width: int, *, rows: int = 1, heads: int = 2) -> str:
    """Normalised tokens (rows, tokens, width) that attend to each other in `heads`, added to the tokens."""
    centred = b.add("Sub", x, b.mean(x, [-1]))
    spread = b.mean(b.add("Mul", centred, centred), [-1])
    normal = b.add("Div", centred, b.add("Sqrt", b.add("Add", spread, b.constant(1e-5))))
    query, key, value = (
        b.transpose(b.reshape(b.linear(normal, width, width), rows, -1, heads, width // heads), 0, 2, 1, 3)
        for _ in range(3)
    )
    scores = b.add("MatMul", query, b.transpose(key, 0, 1, 3, 2))
    scores = b.add("Mul", scores, b.constant(float((width // heads) ** -0.5)))
    seen = b.transpose(b.add("MatMul", b.add("Softmax", scores, axis=-1), value), 0, 2, 1, 3)
    return b.add("Add", x, b.linear(b.reshape(seen, rows, -1, width), width, width))


@structure("crnn", "Paddle", opset=11)
def crnn(b: Builder) -> None:
    """Text: columns of a map as steps of a recurrent layer."""
    x = stem(b, 16)
    columns = b.transpose(b.reshape(b.pool(x, 16, stride=16, operator="AveragePool"), 1, 16, 1), 2, 0, 1)
    steps = b.add("Concat", columns, b.transpose(b.reshape(x, 1, 16, 256), 2, 0, 1), axis=0)
    weights = [b.constant(b.random(2, size, width, size=0.3)) for size, width in ((32, 16), (32, 8), (64, 1))]
    flat = b.reshape(weights[2], 2, 64)
    found = b.add("LSTM", steps, weights[0], weights[1], flat, hidden_size=8, direction="bidirectional")
    rows = b.reshape(b.transpose(found, 0, 2, 1, 3), -1, 1, 16)
    b.output(b.add("Softmax", b.linear(rows, 16, 12), axis=2))


@structure("alexnet-caffe", "Caffe", opset=7, listed="all")
def caffe(b: Builder) -> None:
    """What Caffe's converters write: local response normalisation, groups, dropout, Gemm."""
    x = b.same("LRN", stem(b, 16), size=5, alpha=1e-4, beta=0.75)
    x = b.pool(b.conv(x, 16, 3, group=2))
    flat = b.add("Flatten", b.same("Dropout", x, ratio=0.5), axis=1)
    wide = b.add("Gemm", flat, b.constant(b.random(10, 1024, size=0.05)), b.constant(b.random(10)), transB=1)
    b.output(b.add("Softmax", wide, axis=1))


@structure("bias-that-is-computed", "looks alike")
def computed_bias(b: Builder) -> None:
    """1x1 convolutions in front of a shuffle whose bias depends on the image (dynamic convolutions)."""
    x = stem(b, 16)
    pooled = b.reshape(b.add("GlobalAveragePool", x), 16)
    weights = b.constant(b.random(16, 16, 1, 1, size=0.3))
    y = replace(x, name=b.add("Conv", x, weights, pooled, kernel_shape=[1, 1]))
    one, two = halves(b, b.shuffle(y))
    b.output(b.concat(branch(b, one), b.conv(two, 8)))


@structure("half-weights", "Ultralytics")
def half_weights(b: Builder) -> None:
    """Weights stored as float16 and cast, as tools that shrink files write them."""
    x = b.image(32)
    for made in (8, 16, 8):
        stored = b.constant(b.random(made, x.channels, 1, 1, size=0.4).astype(np.float16))
        name = b.add("Conv", x, b.add("Cast", stored, to=TensorProto.FLOAT), kernel_shape=[1, 1])
        x = b.shuffle(b.same("Relu", Map(name, made, x.height, x.width)))
    b.output(x)


@structure("quantized", "Sightline", opset=13)
def quantized(b: Builder) -> None:
    """Weights and activations of 8 bits between QuantizeLinear and DequantizeLinear."""
    x = b.image(32)
    for made in (8, 16):
        # Powers of two, so that no library rounds a sum to another step than the next one does.
        scale, zero = b.constant(1 / 64 if x.channels == 3 else 1 / 2), b.constant(np.int8(0))
        values = b.add("DequantizeLinear", b.add("QuantizeLinear", x, scale, zero), scale, zero)
        # Of 7 bits: sums of two products of 8 bits do not fit into 16 on processors without VNNI, where both libraries
        # compute something else than the file says, whatever the passes do.
        weights = np.random.default_rng(made).integers(-63, 64, (made, x.channels, 3, 3)).astype(np.int8)
        steps = b.constant(np.full(made, 1 / 64, np.float32))
        kept = b.add("DequantizeLinear", b.constant(weights), steps, b.constant(np.zeros(made, np.int8)), axis=0)
        name = b.add("Conv", values, kept, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        x = b.same("Relu", Map(name, made, x.height, x.width))
    b.output(x)
