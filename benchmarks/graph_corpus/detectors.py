"""Small detectors in the manner of Ultralytics, PaddleDetection, MMDetection and NanoDet: backbone, neck, head.

Each is put together from blocks as its publication does it, with few channels: a graph is what matters here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.graph_corpus.blocks import (
    C3,
    Bottleneck,
    C2f,
    C3k2,
    Conv,
    CspNext,
    CspRes,
    Depthwise,
    Elan,
    Enhanced,
    Focus,
    Ghost,
    Halve,
    Inverted,
    Psa,
    RepVgg,
    Shuffle,
    ShuffleFlat,
    Spp,
    Sppf,
)

Block = Callable[[int, int], nn.Module]
WIDTHS = (32, 48, 64)
STRIDES = (8, 16, 32)
NECK = 32
CLASSES = 20
BINS = 8
DOWN: Block = partial(Conv, kernel=3, stride=2)
FINE: Block = partial(Conv, kernel=3)
DEEP: Block = Depthwise


class Upsample(nn.Sequential):
    """Twice as large, by repeating pixels."""

    def __init__(self, given: int, made: int) -> None:
        super().__init__(Conv(given, made), nn.Upsample(scale_factor=2))


class Deconvolve(nn.Sequential):
    """Twice as large, by a transposed convolution."""

    def __init__(self, given: int, made: int) -> None:
        super().__init__(Conv(given, made), nn.ConvTranspose2d(made, made, 2, 2))


class ResizeTo(nn.Sequential):
    """Twice as large, to a size that is computed from the map, as older MMDetection writes it."""

    def forward(self, x: Tensor) -> Tensor:
        """The map, resized."""
        x = super().forward(x)
        return functional.interpolate(x, size=(x.shape[2] * 2, x.shape[3] * 2), mode="nearest")


class Backbone(nn.Module):
    """Maps of strides 8, 16 and 32 with `WIDTHS` channels."""

    def __init__(self, block: Block, *, stem: Block = DOWN, down: Block = DOWN, last: Block | None = None) -> None:
        super().__init__()
        self.stem = nn.Sequential(stem(3, 16), DOWN(16, 24))
        widths = (24, *WIDTHS)
        self.stages = nn.ModuleList(
            nn.Sequential(down(given, made), block(made, made)) for given, made in zip(widths, WIDTHS, strict=False)
        )
        self.last = nn.Identity() if last is None else last(WIDTHS[-1], WIDTHS[-1])

    def forward(self, x: Tensor) -> list[Tensor]:
        """Three maps, the largest first."""
        x, maps = self.stem(x), []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return [*maps[:-1], self.last(x)]


class Pan(nn.Module):
    """Path aggregation: maps are joined on the way up and on the way down. `NECK` channels."""

    def __init__(self, block: Block, *, up: Block = Upsample, down: Block = DOWN) -> None:
        super().__init__()
        self.top = Conv(WIDTHS[2], NECK)
        self.ups = nn.ModuleList(up(NECK, NECK) for _ in range(2))
        self.joins = nn.ModuleList(block(NECK + width, NECK) for width in WIDTHS[1::-1])
        self.downs = nn.ModuleList(down(NECK, NECK) for _ in range(2))
        self.merges = nn.ModuleList(block(2 * NECK, NECK) for _ in range(2))

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        """Three maps, the largest first."""
        inner = [self.top(maps[2])]
        for place, (up, join) in enumerate(zip(self.ups, self.joins, strict=True)):
            inner.insert(0, join(torch.cat((up(inner[0]), maps[1 - place]), 1)))
        made = inner[:1]
        for down, merge, other in zip(self.downs, self.merges, inner[1:], strict=True):
            made.append(merge(torch.cat((down(made[-1]), other), 1)))
        return made


class Fpn(nn.Module):
    """Feature pyramid: lateral convolutions and sums. `NECK` channels."""

    def __init__(self) -> None:
        super().__init__()
        self.laterals = nn.ModuleList(nn.Conv2d(width, NECK, 1) for width in WIDTHS)
        self.smooths = nn.ModuleList(nn.Conv2d(NECK, NECK, 3, padding=1) for _ in WIDTHS)

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        """Three maps, the largest first."""
        made = [lateral(one) for lateral, one in zip(self.laterals, maps, strict=True)]
        for place in (1, 0):
            size = made[place].shape[2:]
            made[place] = made[place] + functional.interpolate(made[place + 1], size=size, mode="nearest")
        return [smooth(one) for smooth, one in zip(self.smooths, made, strict=True)]


class BiFpn(Fpn):
    """EfficientDet's: sums whose weights are learned and made positive."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.rand(4, 2) + 0.5)

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        """Three maps, the largest first."""
        made = [lateral(one) for lateral, one in zip(self.laterals, maps, strict=True)]
        weights = functional.relu(self.weights)
        weights = weights / (weights.sum(1, keepdim=True) + 1e-4)
        for place in (1, 0):
            up = functional.interpolate(made[place + 1], scale_factor=2.0, mode="nearest")
            made[place] = functional.silu(made[place] * weights[place, 0] + up * weights[place, 1])
        for place in (1, 2):
            down = functional.max_pool2d(made[place - 1], 3, 2, 1)
            made[place] = functional.silu(made[place] * weights[place + 1, 0] + down * weights[place + 1, 1])
        return [smooth(one) for smooth, one in zip(self.smooths, made, strict=True)]


class Dilated(nn.Module):
    """YOLOF: the last map only, by convolutions with holes."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = Conv(WIDTHS[2], NECK)
        self.steps = nn.ModuleList(nn.Conv2d(NECK, NECK, 3, padding=rate, dilation=rate) for rate in (2, 4, 6))

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        """One map."""
        x = self.enter(maps[2])
        for step in self.steps:
            x = x + functional.relu(step(x))
        return [x]


class Anchors(nn.Module):
    """YOLOv3 to v7: three anchors a cell, boxes decoded in the graph, (1, candidates, 5 + classes)."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleList(nn.Conv2d(NECK, 3 * (5 + CLASSES), 1) for _ in STRIDES)

    def forward(self, maps: list[Tensor]) -> Tensor:
        """The decoded candidates of all maps."""
        rows = []
        for head, x, stride in zip(self.heads, maps, STRIDES, strict=False):
            size, (height, width) = 5 + CLASSES, x.shape[2:]
            y = head(x).view(1, 3, size, height, width).permute(0, 1, 3, 4, 2).sigmoid()
            grid = torch.stack(torch.meshgrid(torch.arange(width), torch.arange(height), indexing="xy"), 2).float()
            xy, wh, scores = y.split((2, 2, 1 + CLASSES), 4)
            anchors = torch.tensor([[1.0, 1.5], [2.0, 1.0], [3.0, 3.0]]).view(1, 3, 1, 1, 2) * stride
            y = torch.cat(((xy * 2 - 0.5 + grid) * stride, (wh * 2) ** 2 * anchors, scores), 4)
            rows.append(y.view(1, -1, size))
        return torch.cat(rows, 1)


class Distances(nn.Module):
    """YOLOv8 to v12: distances as distributions, (1, 4 + classes + `extra`, candidates). `deep`: depthwise classes."""

    def __init__(self, *, extra: int = 0, deep: bool = False, top: int = 0) -> None:
        super().__init__()
        fine: Block = DEEP if deep else FINE
        self.boxes = nn.ModuleList(nn.Sequential(FINE(NECK, NECK), nn.Conv2d(NECK, 4 * BINS, 1)) for _ in STRIDES)
        self.scores = nn.ModuleList(nn.Sequential(fine(NECK, NECK), nn.Conv2d(NECK, CLASSES, 1)) for _ in STRIDES)
        self.extras = nn.ModuleList(nn.Conv2d(NECK, extra, 1) for _ in STRIDES if extra)
        self.bins = nn.Conv2d(BINS, 1, 1, bias=False)
        self.bins.weight.data[:] = torch.arange(BINS, dtype=torch.float32).view(1, BINS, 1, 1)
        self.bins.weight.requires_grad = False
        self.top = top

    def forward(self, maps: list[Tensor]) -> Tensor:
        """All candidates, or the `top` ones as rows of box, score, class."""
        boxes = torch.cat([head(x).flatten(2) for head, x in zip(self.boxes, maps, strict=True)], 2)
        scores = torch.cat([head(x).view(1, CLASSES, -1) for head, x in zip(self.scores, maps, strict=True)], 2)
        shares = boxes.view(1, 4, BINS, -1).transpose(2, 1).softmax(1)
        near, far = self.bins(shares).view(1, 4, -1).chunk(2, 1)
        points, strides = points_of(maps)
        corners = torch.cat((points.T[None] - near, points.T[None] + far), 1)
        centre, size = (corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]
        found = [torch.cat((centre, size), 1) * strides, scores.sigmoid()]
        if self.extras:
            found.append(torch.cat([head(x).flatten(2) for head, x in zip(self.extras, maps, strict=True)], 2))
        return self._best(found[0], found[1]) if self.top else torch.cat(found, 1)

    def _best(self, boxes: Tensor, scores: Tensor) -> Tensor:
        values, places = scores.transpose(1, 2).flatten(1).topk(self.top, dim=1)
        kept = boxes.transpose(1, 2).gather(1, (places // CLASSES)[..., None].expand(-1, -1, 4))
        return torch.cat((kept, values[..., None], (places % CLASSES)[..., None].float()), 2)


def points_of(maps: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Middles of the cells (N, 2) and their strides (N,)."""
    points, strides = [], []
    for x, stride in zip(maps, STRIDES, strict=False):
        height, width = x.shape[2:]
        grid = torch.meshgrid(torch.arange(width) + 0.5, torch.arange(height) + 0.5, indexing="xy")
        points.append(torch.stack(grid, -1).view(-1, 2))
        strides.append(torch.full((height * width,), float(stride)))
    return torch.cat(points), torch.cat(strides)


class Segment(nn.Module):
    """YOLOv8-seg: coefficients with each candidate, and prototypes of masks."""

    def __init__(self) -> None:
        super().__init__()
        self.head = Distances(extra=8)
        self.masks = nn.Sequential(FINE(NECK, 16), nn.ConvTranspose2d(16, 16, 2, 2), FINE(16, 16), Conv(16, 8))

    def forward(self, maps: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Candidates and prototypes."""
        return self.head(maps), self.masks(maps[0])


class Decoupled(nn.Module):
    """YOLOX and YOLOv6: towers for boxes and classes, (1, candidates, 5 + classes), not decoded."""

    def __init__(self, tower: Block = FINE) -> None:
        super().__init__()
        self.towers = nn.ModuleList(nn.ModuleList(tower(NECK, NECK) for _ in range(2)) for _ in STRIDES)
        self.boxes = nn.ModuleList(nn.Conv2d(NECK, 4, 1) for _ in STRIDES)
        self.objects = nn.ModuleList(nn.Conv2d(NECK, 1, 1) for _ in STRIDES)
        self.scores = nn.ModuleList(nn.Conv2d(NECK, CLASSES, 1) for _ in STRIDES)

    def forward(self, maps: list[Tensor]) -> Tensor:
        """The candidates of all maps."""
        rows = []
        for place, x in enumerate(maps):
            one, two = (tower(x) for tower in self.towers[place])
            parts = (self.boxes[place](one), self.objects[place](one).sigmoid(), self.scores[place](two).sigmoid())
            rows.append(torch.cat(parts, 1).flatten(2))
        return torch.cat(rows, 2).permute(0, 2, 1)


class Towers(nn.Module):
    """GFL, ATSS, FCOS, RTMDet, PicoDet, NanoDet: shared towers, scores and distances of each map, one output each.

    `normal`: group normalisation, as MMDetection's towers have it; else batch normalisation of its own for each map.
    `joined`: one (1, candidates, classes + distances) of all.
    """

    def __init__(self, tower: Block = FINE, *, normal: bool = False, joined: bool = False, count: int = 4) -> None:
        super().__init__()
        made = nn.Sequential(nn.Conv2d(NECK, NECK, 3, padding=1), nn.GroupNorm(4, NECK), nn.ReLU()) if normal else None
        self.towers = nn.ModuleList(tower(NECK, NECK) if made is None else made for _ in STRIDES)
        self.scores, self.distances = nn.Conv2d(NECK, CLASSES, 1), nn.Conv2d(NECK, count, 1)
        self.scales = nn.Parameter(torch.rand(3) + 0.5)
        self.joined = joined

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        """Scores and distances, map by map."""
        scores, distances = [], []
        for place, x in enumerate(maps):
            y = self.towers[place](x)
            scores.append(self.scores(y).sigmoid().flatten(2).permute(0, 2, 1))
            far = self.distances(y) * self.scales[place]
            distances.append(far.reshape(1, far.shape[1], -1).permute(0, 2, 1))
        if not self.joined:
            return [*scores, *distances]
        return [torch.cat((torch.cat(scores, 1), torch.cat(distances, 1)), 2)]


class PaddleHead(nn.Module):
    """PP-YOLOE: distances projected to pixels in the graph, scores as (1, classes, candidates)."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.ModuleList(nn.Conv2d(NECK, NECK, 1) for _ in STRIDES)
        self.scores = nn.ModuleList(nn.Conv2d(NECK, CLASSES, 3, padding=1) for _ in STRIDES)
        self.distances = nn.ModuleList(nn.Conv2d(NECK, 4 * BINS, 3, padding=1) for _ in STRIDES)

    def forward(self, maps: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Corners (1, candidates, 4) and scores."""
        scores, far = [], []
        for place, x in enumerate(maps):
            weighed = x * self.gates[place](functional.adaptive_avg_pool2d(x, 1)).sigmoid()
            scores.append(self.scores[place](weighed + x).sigmoid().reshape(1, CLASSES, -1))
            shares = self.distances[place](weighed).reshape(1, 4, BINS, -1).permute(0, 2, 3, 1).softmax(1)
            far.append((shares * torch.arange(BINS).view(1, BINS, 1, 1)).sum(1))
        points, strides = points_of(maps)
        near, beyond = torch.cat(far, 1).split((2, 2), -1)
        corners = torch.cat((points - near, points + beyond), -1) * strides[:, None]
        return corners, torch.cat(scores, -1)


class Flat(nn.Module):
    """FastestDet and Yolo-Fastest: one map of box, objectness and classes each, in NHWC for the latter."""

    def __init__(self, *, last: bool) -> None:
        super().__init__()
        self.tower, self.last = DEEP(NECK, NECK), last
        self.parts = nn.ModuleList(nn.Conv2d(NECK, count, 1) for count in (4, 1, CLASSES))

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        """One output a map."""
        found = []
        for x in maps:
            y = self.tower(x)
            boxes, objects, scores = (part(y) for part in self.parts)
            joined = torch.cat((boxes.tanh(), objects.sigmoid(), scores.softmax(1)), 1)
            found.append(joined.permute(0, 2, 3, 1) if self.last else joined)
        return found


class Peaks(nn.Module):
    """CenterNet: deconvolutions, a heat map whose peaks are found by pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.heat, self.size = Deconvolve(NECK, NECK), nn.Conv2d(NECK, CLASSES, 1), nn.Conv2d(NECK, 4, 1)

    def forward(self, maps: list[Tensor]) -> tuple[Tensor, Tensor]:
        """The heat map with its peaks only, and sizes with offsets."""
        x = self.up(maps[0])
        heat = self.heat(x).sigmoid()
        return heat * (functional.max_pool2d(heat, 3, 1, 1) == heat).float(), self.size(x)


def _computed_size(given: int, made: int) -> nn.Module:
    return ResizeTo(Conv(given, made))


def detectors() -> dict[str, nn.Module]:
    """Small detectors by the name of what they are like."""

    def made(backbone: nn.Module, neck: nn.Module, head: nn.Module) -> nn.Module:
        return nn.Sequential(backbone, neck, head)

    thin = partial(Depthwise, stride=2)
    return {
        "yolov3": made(Backbone(Bottleneck), Pan(FINE), Anchors()),
        "yolov4": made(Backbone(C3, last=Spp), Pan(C3), Anchors()),
        "yolov5-5.0": made(Backbone(C3, stem=Focus, last=Spp), Pan(C3), Anchors()),
        "yolov5-6.0": made(Backbone(C3, last=Sppf), Pan(C3), Anchors()),
        "yolov6": made(Backbone(RepVgg, last=Sppf), Pan(RepVgg, up=Deconvolve), Decoupled(Conv)),
        "yolov7": made(Backbone(Elan, last=Spp), Pan(Elan, down=Halve), Anchors()),
        "yolov8": made(Backbone(C2f, last=Sppf), Pan(C2f), Distances()),
        "yolov8-pose": made(Backbone(C2f, last=Sppf), Pan(C2f), Distances(extra=51)),
        "yolov8-seg": made(Backbone(C2f, last=Sppf), Pan(C2f), Segment()),
        "yolov9": made(Backbone(Elan, down=Halve, last=Sppf), Pan(Elan, down=Halve), Distances()),
        "yolov10": made(Backbone(C2f, down=thin, last=Psa), Pan(C2f), Distances(deep=True, top=50)),
        "yolo11": made(Backbone(C3k2, last=Psa), Pan(C3k2), Distances(deep=True)),
        "yolox": made(Backbone(C3, stem=Focus, last=Spp), Pan(C3), Decoupled()),
        "yolox-nano": made(Backbone(DEEP, stem=Focus, last=Spp), Pan(DEEP), Decoupled(DEEP)),
        "yolof": made(Backbone(Elan), Dilated(), Towers(normal=True)),
        "yolo-fastestv2": made(Backbone(ShuffleFlat, last=Spp), Fpn(), Flat(last=True)),
        "fastestdet": made(Backbone(ShuffleFlat, last=Sppf), Pan(Conv, down=thin), Flat(last=False)),
        "nanodet": made(Backbone(Shuffle), Fpn(), Towers(DEEP, count=4 * BINS)),
        "nanodet-plus": made(Backbone(Shuffle), Pan(Ghost, down=thin), Towers(DEEP, joined=True, count=4 * BINS)),
        "picodet": made(Backbone(Enhanced), Pan(DEEP, down=thin), Towers(DEEP, count=4 * BINS)),
        "pp-yoloe": made(Backbone(CspRes, last=Spp), Pan(CspRes), PaddleHead()),
        "rtmdet": made(Backbone(CspNext, last=Spp), Pan(CspNext), Towers(FINE)),
        "gfl": made(Backbone(Bottleneck), Fpn(), Towers(normal=True, count=4 * BINS)),
        "atss-computed-sizes": made(Backbone(Elan), Pan(Conv, up=_computed_size), Towers(normal=True)),
        "efficientdet": made(Backbone(Inverted), BiFpn(), Towers(DEEP, joined=True)),
        "centernet": made(Backbone(Bottleneck), Pan(FINE), Peaks()),
        "mobilenet-ssd": made(Backbone(Inverted), Fpn(), Decoupled(DEEP)),
    }
