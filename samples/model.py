# SPDX-License-Identifier: Apache-2.0
"""A small anchor-free detector: C2f backbone and neck, decoupled heads with a distribution over each side (DFL)."""
import math

import torch
from torch import nn
import torch.nn.functional as F

REG_MAX = 16
STRIDES = (8, 16, 32)


class Conv(nn.Module):
  def __init__(self, cin, cout, kernel=1, stride=1):
    super().__init__()
    self.conv = nn.Conv2d(cin, cout, kernel, stride, kernel // 2, bias=False)
    self.bn = nn.BatchNorm2d(cout, eps=1e-3, momentum=0.03)
    self.act = nn.SiLU()

  def forward(self, x):
    return self.act(self.bn(self.conv(x)))

  def fold(self):
    """Moves the normalisation into the convolution's weights; for inference alone."""
    scale = self.bn.weight / torch.sqrt(self.bn.running_var + self.bn.eps)
    folded = nn.Conv2d(self.conv.in_channels, self.conv.out_channels, self.conv.kernel_size, self.conv.stride,
                       self.conv.padding)
    folded.weight.data = self.conv.weight.data * scale[:, None, None, None]
    folded.bias.data = self.bn.bias.data - self.bn.running_mean * scale
    self.conv, self.bn = folded, nn.Identity()


class Bottleneck(nn.Module):
  def __init__(self, channels, shortcut):
    super().__init__()
    self.cv1, self.cv2, self.shortcut = Conv(channels, channels, 3), Conv(channels, channels, 3), shortcut

  def forward(self, x):
    y = self.cv2(self.cv1(x))
    return x + y if self.shortcut else y


class C2f(nn.Module):
  def __init__(self, cin, cout, depth=1, shortcut=False):
    super().__init__()
    self.hidden = hidden = cout // 2
    self.cv1 = Conv(cin, 2 * hidden)
    self.cv2 = Conv((2 + depth) * hidden, cout)
    self.m = nn.ModuleList(Bottleneck(hidden, shortcut) for _ in range(depth))

  def forward(self, x):
    parts = list(self.cv1(x).split((self.hidden, self.hidden), 1))
    for block in self.m:
      parts.append(block(parts[-1]))
    return self.cv2(torch.cat(parts, 1))


class SPPF(nn.Module):
  def __init__(self, channels):
    super().__init__()
    self.cv1, self.cv2 = Conv(channels, channels // 2), Conv(channels * 2, channels)
    self.pool = nn.MaxPool2d(5, 1, 2)

  def forward(self, x):
    a = self.cv1(x)
    b = self.pool(a)
    c = self.pool(b)
    return self.cv2(torch.cat((a, b, c, self.pool(c)), 1))


class Head(nn.Module):
  """Per scale: raw maps [N, 4*REG_MAX + classes, h, w]. `decode` turns them into [N, 4 + classes, anchors]."""

  def __init__(self, classes, channels, size):
    super().__init__()
    self.classes, self.size = classes, size
    box, score = 32, 40
    self.box = nn.ModuleList(nn.Sequential(Conv(c, box, 3), Conv(box, box, 3), nn.Conv2d(box, 4 * REG_MAX, 1))
                             for c in channels)
    self.score = nn.ModuleList(nn.Sequential(Conv(c, score, 3), Conv(score, score, 3), nn.Conv2d(score, classes, 1))
                               for c in channels)
    self.dfl = nn.Conv2d(REG_MAX, 1, 1, bias=False)
    self.dfl.weight.data = torch.arange(REG_MAX, dtype=torch.float32).view(1, REG_MAX, 1, 1)
    self.dfl.weight.requires_grad_(False)
    for b, s, stride in zip(self.box, self.score, STRIDES):
      b[-1].bias.data.fill_(1.0)
      s[-1].bias.data.fill_(math.log(5 / classes / (size / stride) ** 2))
    points, strides = [], []
    for stride in STRIDES:
      axis = torch.arange(size // stride, dtype=torch.float32) + 0.5
      y, x = torch.meshgrid(axis, axis, indexing='ij')
      points.append(torch.stack((x.flatten(), y.flatten())))
      strides.append(torch.full((1, x.numel()), float(stride)))
    self.register_buffer('points', torch.cat(points, 1)[None], persistent=False)
    self.register_buffer('strides', torch.cat(strides, 1), persistent=False)

  def forward(self, maps):
    return [torch.cat((b(x), s(x)), 1) for b, s, x in zip(self.box, self.score, maps)]

  def decode(self, raw):
    width, anchors = 4 * REG_MAX + self.classes, self.points.shape[-1]
    flat = torch.cat([x.reshape(-1, width, (self.size // s) ** 2) for x, s in zip(raw, STRIDES)], 2)
    sides, scores = flat.split((4 * REG_MAX, self.classes), 1)
    sides = sides.view(-1, 4, REG_MAX, anchors).transpose(2, 1).softmax(1)
    sides = self.dfl(sides).view(-1, 4, anchors)
    near, far = sides.split((2, 2), 1)
    low, high = self.points - near, self.points + far
    box = torch.cat(((low + high) / 2, high - low), 1) * self.strides
    return torch.cat((box, scores.sigmoid()), 1)


class Detector(nn.Module):
  """Input [N, 3, size, size] RGB 0..1. Training gives the raw maps, evaluation the decoded [N, 4+classes, anchors]."""

  def __init__(self, classes, size=320, widths=(16, 24, 48, 80, 112)):
    super().__init__()
    a, b, c, d, e = widths
    self.stem = Conv(3, a, 3, 2)
    self.stage1 = nn.Sequential(Conv(a, b, 3, 2), C2f(b, b, 1, True))
    self.stage2 = nn.Sequential(Conv(b, c, 3, 2), C2f(c, c, 2, True))
    self.stage3 = nn.Sequential(Conv(c, d, 3, 2), C2f(d, d, 2, True))
    self.stage4 = nn.Sequential(Conv(d, e, 3, 2), C2f(e, e, 1, True), SPPF(e))
    self.up1, self.up2 = C2f(d + e, d), C2f(c + d, c)
    self.down1, self.mix1 = Conv(c, c, 3, 2), C2f(c + d, d)
    self.down2, self.mix2 = Conv(d, d, 3, 2), C2f(d + e, e)
    self.head = Head(classes, (c, d, e), size)

  def forward(self, images):
    p3 = self.stage2(self.stage1(self.stem(images)))
    p4 = self.stage3(p3)
    p5 = self.stage4(p4)
    n4 = self.up1(torch.cat((F.interpolate(p5, scale_factor=2.0, mode='nearest'), p4), 1))
    n3 = self.up2(torch.cat((F.interpolate(n4, scale_factor=2.0, mode='nearest'), p3), 1))
    m4 = self.mix1(torch.cat((self.down1(n3), n4), 1))
    m5 = self.mix2(torch.cat((self.down2(m4), p5), 1))
    raw = self.head([n3, m4, m5])
    return raw if self.training else self.head.decode(raw)
