"""Building blocks of detectors as their publications describe them, in PyTorch: what backbones and necks repeat.

Every block takes (channels in, channels out) and keeps height and width, unless it says otherwise.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Conv(nn.Module):
    """Convolution, batch normalisation, activation."""

    def __init__(
        self,
        given: int,
        made: int,
        kernel: int = 1,
        stride: int = 1,
        group: int = 1,
        act: type[nn.Module] | None = nn.SiLU,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(given, made, kernel, stride, kernel // 2, groups=group, bias=False)
        self.bn = nn.BatchNorm2d(made)
        self.act = nn.Identity() if act is None else act()

    def forward(self, x: Tensor) -> Tensor:
        """The activation of the normalised convolution."""
        return self.act(self.bn(self.conv(x)))


class Depthwise(nn.Sequential):
    """Depthwise 5x5, then 1x1."""

    def __init__(self, given: int, made: int, kernel: int = 5, stride: int = 1) -> None:
        super().__init__(Conv(given, given, kernel, stride, given), Conv(given, made))


class Focus(nn.Module):
    """Pixels of 2x2 blocks become channels (YOLOv5 1 to 5, YOLOX). Halves height and width."""

    def __init__(self, given: int, made: int, kernel: int = 3) -> None:
        super().__init__()
        self.conv = Conv(4 * given, made, kernel)

    def forward(self, x: Tensor) -> Tensor:
        """Four slices, joined and convolved."""
        parts = [x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]]
        return self.conv(torch.cat(parts, 1))


class Bottleneck(nn.Module):
    """Two convolutions and a sum."""

    def __init__(self, given: int, made: int, first: int = 1) -> None:
        super().__init__()
        self.one, self.two = Conv(given, made, first), Conv(made, made, 3)

    def forward(self, x: Tensor) -> Tensor:
        """The input and what two convolutions add to it."""
        return x + self.two(self.one(x))


class C3(nn.Module):
    """Cross-stage partial block of YOLOv4 to v7 and YOLOX."""

    def __init__(self, given: int, made: int, inner: type[nn.Module] = Bottleneck) -> None:
        super().__init__()
        half = made // 2
        self.one, self.two, self.three = Conv(given, half), Conv(given, half), Conv(2 * half, made)
        self.inner = inner(half, half)

    def forward(self, x: Tensor) -> Tensor:
        """Two branches, joined."""
        return self.three(torch.cat((self.inner(self.one(x)), self.two(x)), 1))


class C2f(nn.Module):
    """Block of YOLOv8: split in halves, every intermediate map is joined."""

    def __init__(self, given: int, made: int, inner: type[nn.Module] = Bottleneck) -> None:
        super().__init__()
        half = made // 2
        self.one, self.two = Conv(given, 2 * half), Conv(4 * half, made)
        self.inner = nn.ModuleList(inner(half, half) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """Halves and what the inner blocks make of the second, joined."""
        maps = list(self.one(x).chunk(2, 1))
        for block in self.inner:
            maps.append(block(maps[-1]))
        return self.two(torch.cat(maps, 1))


class C3k2(C2f):
    """Block of YOLO11: a C2f of C3."""

    def __init__(self, given: int, made: int) -> None:
        super().__init__(given, made, C3)


class Elan(nn.Module):
    """Block of YOLOv7 and v9: a chain whose every second map is joined."""

    def __init__(self, given: int, made: int) -> None:
        super().__init__()
        half = made // 2
        self.left, self.right = Conv(given, half), Conv(given, half)
        self.chain = nn.ModuleList(nn.Sequential(Conv(half, half, 3), Conv(half, half, 3)) for _ in range(2))
        self.join = Conv(4 * half, made)

    def forward(self, x: Tensor) -> Tensor:
        """Four maps, joined."""
        maps = [self.left(x), self.right(x)]
        for block in self.chain:
            maps.append(block(maps[-1]))
        return self.join(torch.cat(maps, 1))


class RepVgg(nn.Module):
    """Block of YOLOv6 and PP-YOLOE before its branches are merged: 3x3, 1x1 and the input itself."""

    def __init__(self, given: int, made: int) -> None:
        super().__init__()
        self.three, self.one = Conv(given, made, 3, act=None), Conv(given, made, 1, act=None)
        self.same = nn.BatchNorm2d(given) if given == made else None

    def forward(self, x: Tensor) -> Tensor:
        """The sum of the branches."""
        total = self.three(x) + self.one(x)
        return functional.relu(total if self.same is None else total + self.same(x))


class SqueezeExcite(nn.Module):
    """Channels weighed by a gate from their means; `hard` as PaddlePaddle writes it."""

    def __init__(self, channels: int, *, hard: bool = False) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(channels, channels // 4, 1), nn.Conv2d(channels // 4, channels, 1)
        self.gate = nn.Hardsigmoid() if hard else nn.Sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        """The channels, weighed."""
        return x * self.gate(self.two(functional.relu(self.one(functional.adaptive_avg_pool2d(x, 1)))))


class CspRes(nn.Module):
    """Stage of PP-YOLOE: RepVGG blocks in one half, effective squeeze and excitation."""

    def __init__(self, given: int, made: int) -> None:
        super().__init__()
        half = made // 2
        self.one, self.two = Conv(given, half), Conv(given, half)
        self.inner, self.gate = RepVgg(half, half), nn.Conv2d(2 * half, 2 * half, 1)
        self.last = Conv(2 * half, made)

    def forward(self, x: Tensor) -> Tensor:
        """Halves joined, gated, mixed."""
        joined = torch.cat((self.one(x), self.inner(self.two(x))), 1)
        return self.last(joined * functional.hardsigmoid(self.gate(joined.mean((2, 3), keepdim=True))))


class CspNext(nn.Module):
    """Stage of RTMDet: large depthwise kernels in one half, channel attention."""

    def __init__(self, given: int, made: int) -> None:
        super().__init__()
        half = made // 2
        self.one, self.two = Conv(given, half), Conv(given, half)
        self.inner = nn.Sequential(Conv(half, half, 3), Depthwise(half, half))
        self.attention, self.last = SqueezeExcite(2 * half, hard=True), Conv(2 * half, made)

    def forward(self, x: Tensor) -> Tensor:
        """Halves joined, gated, mixed."""
        return self.last(self.attention(torch.cat((self.inner(self.two(x)), self.one(x)), 1)))


def shuffled(x: Tensor, groups: int = 2) -> Tensor:
    """Channels of `groups` in turn."""
    rows, channels, height, width = x.shape
    apart = x.view(rows, groups, channels // groups, height, width)
    return apart.transpose(1, 2).reshape(rows, channels, height, width)


class Shuffle(nn.Module):
    """Unit of ShuffleNetV2; its first convolution gives the wanted channels."""

    def __init__(self, given: int, made: int) -> None:
        super().__init__()
        half = made // 2
        self.enter = Conv(given, made, act=nn.ReLU)
        self.branches = nn.ModuleList(self._branch(half) for _ in range(2))

    @staticmethod
    def _branch(half: int) -> nn.Sequential:
        deep = Conv(half, half, 3, 1, half, None)
        return nn.Sequential(Conv(half, half, act=nn.ReLU), deep, Conv(half, half, act=nn.ReLU))

    def forward(self, x: Tensor) -> Tensor:
        """Two units, one behind the other."""
        x = self.enter(x)
        for branch in self.branches:
            kept, changed = x.chunk(2, 1)
            x = shuffled(torch.cat((kept, branch(changed)), 1))
        return x


class ShuffleFlat(Shuffle):
    """The same as YOLO-Fastest writes it: pairs on an axis of their own, picked by index."""

    def forward(self, x: Tensor) -> Tensor:
        """Two units, one behind the other."""
        x = self.enter(x)
        for branch in self.branches:
            rows, channels, height, width = x.shape
            pairs = x.reshape(rows * channels // 2, 2, height * width).permute(1, 0, 2)
            pairs = pairs.reshape(2, -1, channels // 2, height, width)
            x = torch.cat((pairs[0], branch(pairs[1])), 1)
        return x


class Enhanced(nn.Module):
    """Block of PicoDet's ESNet: a shuffle with squeeze and excitation in its branch."""

    def __init__(self, given: int, made: int) -> None:
        super().__init__()
        half = made // 2
        self.enter = Conv(given, made, act=nn.Hardswish)
        self.one, self.gate = Conv(half, half, act=nn.Hardswish), SqueezeExcite(2 * half, hard=True)
        self.deep, self.last = Conv(half, half, 3, 1, half, None), Conv(2 * half, half, act=nn.Hardswish)

    def forward(self, x: Tensor) -> Tensor:
        """Split, change one half, join, shuffle."""
        kept, changed = torch.split(self.enter(x), self.one.conv.in_channels, 1)
        changed = self.one(changed)
        changed = self.last(self.gate(torch.cat((changed, self.deep(changed)), 1)))
        return shuffled(torch.cat((kept, changed), 1))


class Ghost(nn.Module):
    """Half of the channels by a convolution, half by a cheap depthwise one of these (GhostNet, NanoDet-Plus)."""

    def __init__(self, given: int, made: int) -> None:
        super().__init__()
        self.one = Conv(given, made // 2, act=nn.LeakyReLU)
        self.two = Conv(made // 2, made // 2, 3, 1, made // 2, nn.LeakyReLU)

    def forward(self, x: Tensor) -> Tensor:
        """Both halves."""
        first = self.one(x)
        return torch.cat((first, self.two(first)), 1)


class Inverted(nn.Module):
    """Inverted residual with squeeze and excitation (MobileNetV3, EfficientDet)."""

    def __init__(self, given: int, made: int) -> None:
        super().__init__()
        self.steps = nn.Sequential(
            Conv(given, 3 * made),
            Conv(3 * made, 3 * made, 3, 1, 3 * made),
            SqueezeExcite(3 * made),
            Conv(3 * made, made, act=None),
        )
        self.same = given == made

    def forward(self, x: Tensor) -> Tensor:
        """Wide, depthwise, gated, narrow."""
        return x + self.steps(x) if self.same else self.steps(x)


class Spp(nn.Module):
    """Pools of three sizes beside each other (YOLOv4, YOLOv5 to 5.0, YOLOX)."""

    def __init__(self, given: int, made: int) -> None:
        super().__init__()
        self.one, self.two = Conv(given, given // 2), Conv(2 * given, made)

    def forward(self, x: Tensor) -> Tensor:
        """The map and its three pools, joined."""
        x = self.one(x)
        return self.two(torch.cat([x, *(functional.max_pool2d(x, size, 1, size // 2) for size in (5, 9, 13))], 1))


class Sppf(Spp):
    """The same, one pool behind the other (YOLOv5 6.0 and later)."""

    def forward(self, x: Tensor) -> Tensor:
        """The map and three pools of each other, joined."""
        maps = [self.one(x)]
        for _ in range(3):
            maps.append(functional.max_pool2d(maps[-1], 5, 1, 2))
        return self.two(torch.cat(maps, 1))


class Psa(nn.Module):
    """Partial self-attention of YOLOv10 and YOLO11 behind a pyramid of pools."""

    def __init__(self, given: int, made: int) -> None:
        super().__init__()
        self.pool, self.half = Sppf(given, made), made // 2
        self.enter, self.leave = Conv(made, made), Conv(made, made)
        self.qkv = Conv(self.half, 2 * self.half, act=None)
        self.place, self.mix = Conv(self.half, self.half, 3, 1, self.half, None), Conv(self.half, self.half, act=None)
        self.feed = nn.Sequential(Conv(self.half, 2 * self.half), Conv(2 * self.half, self.half, act=None))

    def forward(self, x: Tensor) -> Tensor:
        """One half attends to itself in two heads."""
        kept, x = self.enter(self.pool(x)).split((self.half, self.half), 1)
        rows, channels, height, width = x.shape
        head = channels // 2
        query, key, value = self.qkv(x).view(rows, 2, 2 * head, height * width).split((head // 2, head // 2, head), 2)
        weights = (query.transpose(-2, -1) @ key * (head // 2) ** -0.5).softmax(-1)
        attended = (value @ weights.transpose(-2, -1)).view(rows, channels, height, width)
        x = x + self.mix(attended + self.place(value.reshape(rows, channels, height, width)))
        return self.leave(torch.cat((kept, x + self.feed(x)), 1))


class Halve(nn.Module):
    """YOLOv9's way down: mean, then a convolution of one half and a pool of the other. Halves height and width."""

    def __init__(self, given: int, made: int) -> None:
        super().__init__()
        self.one, self.two = Conv(given // 2, made // 2, 3, 2), Conv(given // 2, made // 2)

    def forward(self, x: Tensor) -> Tensor:
        """Two halves, joined."""
        one, two = functional.avg_pool2d(x, 2, 1, 0, False, True).chunk(2, 1)
        return torch.cat((self.one(one), self.two(functional.max_pool2d(two, 3, 2, 1))), 1)
