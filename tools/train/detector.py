"""The detector's network: a small convolutional pyramid, anchor-free, one point per cell of three grids."""

from __future__ import annotations

import torch
from torch import Tensor, nn

STRIDES = (8, 16, 32)


class Conv(nn.Sequential):
    """Convolution, batch normalisation, rectifier."""

    def __init__(self, inputs: int, outputs: int, *, kernel: int = 3, stride: int = 1) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
            nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.03),
            nn.ReLU(inplace=True),
        )


class Residual(nn.Module):
    """Two 3x3 convolutions around a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(Conv(channels, channels), Conv(channels, channels))

    def forward(self, x: Tensor) -> Tensor:
        """Add what the body finds."""
        out: Tensor = x + self.body(x)
        return out


class Split(nn.Module):
    """Half of the channels go through residual blocks; all halves are mixed again (CSP, Wang et al., 2020)."""

    def __init__(self, inputs: int, outputs: int, *, blocks: int) -> None:
        super().__init__()
        half = outputs // 2
        self.enter = Conv(inputs, outputs, kernel=1)
        self.blocks = nn.ModuleList(Residual(half) for _ in range(blocks))
        self.leave = Conv(half * (2 + blocks), outputs, kernel=1)

    def forward(self, x: Tensor) -> Tensor:
        """Mix the untouched half, the other half and each block's result."""
        parts = list(self.enter(x).chunk(2, dim=1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        out: Tensor = self.leave(torch.cat(parts, dim=1))
        return out


class Pool(nn.Module):
    """Context from three nested 5x5 maxima (SPPF of YOLOv5)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.enter = Conv(channels, channels // 2, kernel=1)
        self.largest = nn.MaxPool2d(5, stride=1, padding=2)
        self.leave = Conv(channels * 2, channels, kernel=1)

    def forward(self, x: Tensor) -> Tensor:
        """Join the maxima of growing windows."""
        parts = [self.enter(x)]
        for _ in range(3):
            parts.append(self.largest(parts[-1]))
        out: Tensor = self.leave(torch.cat(parts, dim=1))
        return out


class Branch(nn.Module):
    """One grid's answer: distances to the four sides (in strides) and class logits."""

    def __init__(self, inputs: int, *, hidden: int, classes: int) -> None:
        super().__init__()
        self.trunk = Conv(inputs, hidden)
        self.box = nn.Conv2d(hidden, 4, 1)
        self.score = nn.Conv2d(hidden, classes, 1)
        if self.score.bias is not None and self.box.bias is not None:
            nn.init.constant_(self.score.bias, -4.6)
            nn.init.constant_(self.box.bias, 1.5)

    def forward(self, x: Tensor) -> Tensor:
        """(N, 4 + classes, height, width); distances are positive."""
        x = self.trunk(x)
        return torch.cat([nn.functional.softplus(self.box(x)), self.score(x)], dim=1)


class Detector(nn.Module):
    """The whole network; `forward` gives raw answers for training, `Deployed` wraps it for use."""

    def __init__(self, *, classes: int, widths: tuple[int, int, int, int, int] = (16, 24, 40, 72, 104)) -> None:
        super().__init__()
        w1, w2, w3, w4, w5 = widths
        self.stem = nn.Sequential(Conv(3, w1, stride=2), Conv(w1, w2, stride=2))
        self.down3 = nn.Sequential(Conv(w2, w3, stride=2), Split(w3, w3, blocks=1))
        self.down4 = nn.Sequential(Conv(w3, w4, stride=2), Split(w4, w4, blocks=2))
        self.down5 = nn.Sequential(Conv(w4, w5, stride=2), Split(w5, w5, blocks=1), Pool(w5))
        self.up4 = Split(w5 + w4, w4, blocks=1)
        self.up3 = Split(w4 + w3, w3, blocks=1)
        self.back4 = Conv(w3, w3, stride=2)
        self.join4 = Split(w3 + w4, w4, blocks=1)
        self.back5 = Conv(w4, w4, stride=2)
        self.join5 = Split(w4 + w5, w5, blocks=1)
        self.branches = nn.ModuleList(Branch(width, hidden=40, classes=classes) for width in (w3, w4, w5))

    def forward(self, images: Tensor) -> Tensor:
        """Images (N, 3, H, W), 0 to 1, to raw answers (N, 4 + classes, points), grids in order of stride."""
        p3 = self.down3(self.stem(images))
        p4 = self.down4(p3)
        p5 = self.down5(p4)
        up4 = self.up4(torch.cat([_twice(p5), p4], dim=1))
        out3 = self.up3(torch.cat([_twice(up4), p3], dim=1))
        out4 = self.join4(torch.cat([self.back4(out3), up4], dim=1))
        out5 = self.join5(torch.cat([self.back5(out4), p5], dim=1))
        answers = [branch(x).flatten(2) for branch, x in zip(self.branches, (out3, out4, out5), strict=True)]
        return torch.cat(answers, dim=2)


def _twice(x: Tensor) -> Tensor:
    out: Tensor = nn.functional.interpolate(x, scale_factor=2.0, mode="nearest")
    return out


def points(size_wh: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """The centre of each cell (points, 2), network pixels, and its stride (points,)."""
    centres, strides = [], []
    for stride in STRIDES:
        x = (torch.arange(size_wh[0] // stride) + 0.5) * stride
        y = (torch.arange(size_wh[1] // stride) + 0.5) * stride
        grid_y, grid_x = torch.meshgrid(y, x, indexing="ij")
        centres.append(torch.stack([grid_x, grid_y], dim=-1).reshape(-1, 2))
        strides.append(torch.full((centres[-1].shape[0],), float(stride)))
    return torch.cat(centres), torch.cat(strides)


class Deployed(nn.Module):
    """The detector as it is exported: (N, 4 + classes, points), boxes cx, cy, w, h in network pixels, scores."""

    def __init__(self, detector: Detector, *, size_wh: tuple[int, int]) -> None:
        super().__init__()
        self.detector = detector
        centres, strides = points(size_wh)
        self.register_buffer("centres", centres.T[None].contiguous())
        self.register_buffer("strides", strides[None, None])

    def forward(self, images: Tensor) -> Tensor:
        """Decode distances to boxes and logits to scores."""
        raw = self.detector(images)
        near, far = raw[:, :2], raw[:, 2:4]
        centres = self.get_buffer("centres") + (far - near) * (self.get_buffer("strides") * 0.5)
        sizes = (near + far) * self.get_buffer("strides")
        return torch.cat([centres, sizes, raw[:, 4:].sigmoid()], dim=1)
