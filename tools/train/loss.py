"""The detector's loss: task-aligned assignment (TOOD, Feng et al., 2021), complete IoU, cross entropy."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

BOX_WEIGHT = 7.5
SCORE_WEIGHT = 1.0
CANDIDATES = 10
SMALLEST_REACH_PX = 12.0


@dataclass(frozen=True, slots=True)
class Targets:
    """What a batch holds, padded to the same count: class ids, boxes (xyxy, pixels) and 1 for real, 0 for padding.

    `ignored` are boxes in which a detection counts neither as right nor as wrong.
    """

    class_id: Tensor
    xyxy: Tensor
    real: Tensor
    ignored: Tensor


def decode(raw: Tensor, *, centres: Tensor, strides: Tensor) -> Tensor:
    """Distances (N, 4 + classes, points) to boxes (N, points, 4), xyxy in pixels."""
    distances = raw[:, :4].transpose(1, 2) * strides[:, None]
    return torch.cat([centres - distances[..., :2], centres + distances[..., 2:]], dim=-1)


def overlap(first: Tensor, second: Tensor) -> Tensor:
    """IoU of boxes (..., 4) xyxy, broadcast."""
    low, high = torch.maximum(first[..., :2], second[..., :2]), torch.minimum(first[..., 2:], second[..., 2:])
    both = (high - low).clamp(min=0).prod(-1)
    return both / (_area(first) + _area(second) - both + 1e-7)


def _area(boxes: Tensor) -> Tensor:
    return (boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(-1)


def complete_overlap(first: Tensor, second: Tensor) -> Tensor:
    """CIoU (Zheng et al., 2020) of matched boxes (..., 4)."""
    iou = overlap(first, second)
    hull = torch.maximum(first[..., 2:], second[..., 2:]) - torch.minimum(first[..., :2], second[..., :2])
    apart = ((first[..., :2] + first[..., 2:] - second[..., :2] - second[..., 2:]) / 2).square().sum(-1)
    wide, high = (first[..., 2:] - first[..., :2]).unbind(-1)
    target_wide, target_high = (second[..., 2:] - second[..., :2]).unbind(-1)
    turn = torch.atan(target_wide / (target_high + 1e-7)) - torch.atan(wide / (high + 1e-7))
    shape = 4 / torch.pi**2 * turn.square()
    with torch.no_grad():
        share = shape / (1 - iou + shape + 1e-7)
    return iou - apart / (hull.square().sum(-1) + 1e-7) - share * shape


@torch.no_grad()
def assign(scores: Tensor, boxes: Tensor, *, centres: Tensor, targets: Targets) -> tuple[Tensor, Tensor, Tensor]:
    """For each point (N, points): the index of its target, whether it has one, and its wanted score."""
    class_id = targets.class_id[:, :, None].expand(-1, -1, scores.shape[1])
    score = scores.transpose(1, 2).gather(1, class_id)
    iou = overlap(targets.xyxy[:, :, None], boxes[:, None]).clamp(min=0)
    middle = (targets.xyxy[..., :2] + targets.xyxy[..., 2:]) / 2
    half = ((targets.xyxy[..., 2:] - targets.xyxy[..., :2]) / 2).clamp(min=SMALLEST_REACH_PX / 2)
    inside = ((centres - middle[:, :, None]).abs() < half[:, :, None]).all(-1) & targets.real[:, :, None].bool()
    align = score.sqrt() * iou.pow(4) * inside
    best = align.topk(min(CANDIDATES, align.shape[-1]), dim=-1)
    chosen = torch.zeros_like(align).scatter_(2, best.indices, 1.0) * (inside & (align > 1e-12))
    winner = torch.where(chosen > 0, iou, torch.full_like(iou, -1)).argmax(dim=1)
    taken = chosen.any(dim=1)
    owner = torch.nn.functional.one_hot(winner, align.shape[1]).transpose(1, 2) * taken[:, None]
    align = align * owner
    top_align = align.amax(dim=-1, keepdim=True)
    top_iou = (iou * owner).amax(dim=-1, keepdim=True)
    wanted = (align / (top_align + 1e-9) * top_iou).amax(dim=1)
    return winner, taken, wanted


def loss(raw: Tensor, *, centres: Tensor, strides: Tensor, targets: Targets) -> tuple[Tensor, Tensor]:
    """The box and the score part of the loss of raw answers (N, 4 + classes, points)."""
    boxes = decode(raw, centres=centres, strides=strides)
    logits = raw[:, 4:].transpose(1, 2)
    winner, taken, wanted = assign(logits.sigmoid(), boxes.detach(), centres=centres, targets=targets)
    class_id = targets.class_id.gather(1, winner)
    wished = torch.zeros_like(logits).scatter_(2, class_id[..., None], (wanted * taken)[..., None])
    total = wished.sum().clamp(min=1.0)
    where_ignored = targets.ignored
    inside = (centres[None, None] > where_ignored[:, :, None, :2]) & (
        centres[None, None] < where_ignored[:, :, None, 2:]
    )
    counted = taken | ~inside.all(-1).any(dim=1)
    entropy = torch.nn.functional.binary_cross_entropy_with_logits(logits, wished, reduction="none").sum(-1)
    score_loss = (entropy * counted).sum() / total
    matched = targets.xyxy.gather(1, winner[..., None].expand(-1, -1, 4))[taken]
    box_loss = ((1 - complete_overlap(boxes[taken], matched)) * wanted[taken]).sum() / total
    return BOX_WEIGHT * box_loss, SCORE_WEIGHT * score_loss
