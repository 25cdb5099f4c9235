# SPDX-License-Identifier: Apache-2.0
"""Task-aligned assignment and the CIoU, DFL and BCE losses."""
import math

import torch
import torch.nn.functional as F

from model import REG_MAX


def iou(a, b, complete=False):
  """IoU (CIoU if `complete`) of boxes x1 y1 x2 y2 in the last axis, broadcast over the others."""
  ax1, ay1, ax2, ay2 = a.unbind(-1)
  bx1, by1, bx2, by2 = b.unbind(-1)
  aw, ah, bw, bh = ax2 - ax1, ay2 - ay1, bx2 - bx1, by2 - by1
  inter = (torch.min(ax2, bx2) - torch.max(ax1, bx1)).clamp(0) * (torch.min(ay2, by2) - torch.max(ay1, by1)).clamp(0)
  value = inter / (aw * ah + bw * bh - inter + 1e-7)
  if not complete:
    return value
  span = (torch.max(ax2, bx2) - torch.min(ax1, bx1)) ** 2 + (torch.max(ay2, by2) - torch.min(ay1, by1)) ** 2 + 1e-7
  apart = ((bx1 + bx2 - ax1 - ax2) ** 2 + (by1 + by2 - ay1 - ay2) ** 2) / 4
  shape = (4 / math.pi ** 2) * (torch.atan(bw / (bh + 1e-7)) - torch.atan(aw / (ah + 1e-7))) ** 2
  with torch.no_grad():
    weight = shape / (shape - value + 1 + 1e-7)
  return value - apart / span - shape * weight


@torch.no_grad()
def assign(scores, boxes, points, labels, truth, valid, top=10, alpha=0.5, beta=6.0):
  """Gives each anchor at most one object.

  scores [N,A,C] and boxes [N,A,4] are predictions, points [A,2] anchor centres in pixels; labels [N,M], truth [N,M,4]
  and valid [N,M] the objects. Returns (object index [N,A], foreground [N,A], target score [N,A]).
  """
  inside = (torch.min(points - truth[..., None, :2], truth[..., None, 2:] - points).amin(-1) > 1e-6)
  inside &= valid[..., None]
  picked = scores.gather(2, labels[:, None].expand(-1, scores.shape[1], -1)).transpose(1, 2)
  overlap = iou(truth[:, :, None], boxes[:, None]).clamp(0) * inside
  metric = picked.pow(alpha) * overlap.pow(beta) * inside
  best = metric.topk(top, -1)
  chosen = torch.zeros_like(metric, dtype=torch.bool).scatter_(-1, best.indices, best.values > 1e-12)
  chosen &= inside
  rank = torch.where(chosen, overlap, -1.0)
  owner = rank.argmax(1)
  foreground = chosen.any(1)
  metric = metric * chosen
  scale = (overlap * chosen).amax(-1, keepdim=True) / (metric.amax(-1, keepdim=True) + 1e-9)
  target = (metric * scale).gather(1, owner[:, None])[:, 0] * foreground
  return owner, foreground, target


def detection_loss(raw, head, labels, truth, valid):
  """raw: the head's maps; truth in pixels. Returns (loss, (box, score, dfl) as detached scalars)."""
  flat = torch.cat([x.flatten(2) for x in raw], 2).float().transpose(1, 2)
  sides, logits = flat.split((4 * REG_MAX, head.classes), -1)
  points, strides = head.points[0].t(), head.strides.t()
  n, a, _ = sides.shape
  bins = torch.arange(REG_MAX, device=sides.device, dtype=torch.float32)
  expected = sides.view(n, a, 4, REG_MAX).softmax(-1) @ bins
  boxes = torch.cat((points - expected[..., :2], points + expected[..., 2:]), -1) * strides
  owner, front, target = assign(logits.detach().sigmoid(), boxes.detach(), points * strides, labels, truth, valid)
  goal = torch.zeros_like(logits)
  goal.scatter_(2, labels.gather(1, owner)[..., None], target[..., None])
  total = target.sum().clamp(1)
  score_loss = F.binary_cross_entropy_with_logits(logits, goal, reduction='sum') / total
  which = front.flatten().nonzero()[:, 0]
  weight = target.flatten()[which]
  wanted = truth.gather(1, owner[..., None].expand(-1, -1, 4)).flatten(0, 1)[which]
  box_loss = ((1 - iou(boxes.flatten(0, 1)[which], wanted, True)) * weight).sum() / total
  centre, stride = points.repeat(n, 1)[which], strides.repeat(n, 1)[which]
  distance = torch.cat((centre - wanted[:, :2] / stride, wanted[:, 2:] / stride - centre), -1)
  distance = distance.clamp(0, REG_MAX - 1.01)
  low = distance.long()
  share = low + 1 - distance
  spread = sides.flatten(0, 1)[which].view(-1, REG_MAX)
  both = F.cross_entropy(spread, low.view(-1), reduction='none') * share.view(-1)
  both = both + F.cross_entropy(spread, low.view(-1) + 1, reduction='none') * (1 - share.view(-1))
  dfl_loss = (both.view(-1, 4).mean(-1) * weight).sum() / total
  loss = 7.5 * box_loss + 0.5 * score_loss + 1.5 * dfl_loss
  return loss, (box_loss.detach(), score_loss.detach(), dfl_loss.detach())
