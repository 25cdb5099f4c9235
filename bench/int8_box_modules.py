# SPDX-License-Identifier: Apache-2.0
"""More small networks for int8_networks.py: key points and boxes."""

import torch
from torch import nn
from torch.nn import functional as F

from int8_modules import Trunk, resize
from zoo_modules import Bottleneck, conv


def shuffle(x, groups=2):
    n, c, h, w = x.shape
    return x.reshape(n, groups, c // groups, h, w).transpose(1, 2).reshape(n, c, h, w)


class Weighted(nn.Module):
    """Half of the channels of each resolution, weighted across resolutions and by their own means, as Lite-HRNet's."""

    def __init__(self, sizes):
        super().__init__()
        halves = [size // 2 for size in sizes]
        both = sum(halves)
        self.across = nn.Sequential(conv(both, both // 8, 1), conv(both // 8, both, 1, act=nn.Sigmoid))
        self.depth = nn.ModuleList(conv(size, size, groups=size, act=None) for size in halves)
        self.own = nn.ModuleList(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(size, size // 4, 1), nn.ReLU(),
                                               nn.Conv2d(size // 4, size, 1), nn.Sigmoid()) for size in halves)

    def forward(self, maps):
        kept, moved = zip(*[x.chunk(2, 1) for x in maps])
        last = len(moved) - 1
        gates = self.across(torch.cat([F.avg_pool2d(x, 2 ** (last - at)) for at, x in enumerate(moved)], 1))
        gates = gates.split([x.shape[1] for x in moved], 1)
        found = []
        for one, x, gate, depth, own in zip(kept, moved, gates, self.depth, self.own):
            x = depth(x * F.interpolate(gate, size=x.shape[-2:]))
            found.append(shuffle(torch.cat([one, x * own(x)], 1)))
        return found


class LiteHrNet(nn.Module):
    """Key points as heat maps from three resolutions that are kept throughout."""

    def __init__(self, sizes=(40, 80, 160), points=17):
        super().__init__()
        self.stem = nn.Sequential(conv(3, 32, 3, 2), Bottleneck(32, sizes[0], 2))
        self.down = nn.ModuleList(Bottleneck(a, b, 2) for a, b in zip(sizes, sizes[1:]))
        self.parts = nn.ModuleList(nn.ModuleList(Weighted(sizes) for _ in range(2)) for _ in range(3))
        self.fuse = nn.ModuleList(nn.ModuleList(conv(b, a, 1, act=None) for a, b in zip(sizes, sizes[1:]))
                                  for _ in range(3))
        self.head = nn.Conv2d(sizes[0], points, 1)

    def forward(self, x):
        maps = [self.stem(x)]
        for part in self.down:
            maps.append(part(maps[-1]))
        for part, fuse in zip(self.parts, self.fuse):
            for one in part:
                maps = one(maps)
            for at in (1, 0):
                up = F.interpolate(fuse[at](maps[at + 1]), size=maps[at].shape[-2:])
                maps[at] = F.relu(maps[at] + up)
        return self.head(maps[0])


class C2f(nn.Module):
    """Halves of channels, each further part of the one before, all joined, as YOLOv8's."""

    def __init__(self, inputs, outputs, count=1, add=True):
        super().__init__()
        self.size, self.add = outputs // 2, add
        self.first = conv(inputs, outputs, 1, act=nn.SiLU)
        self.parts = nn.ModuleList(nn.Sequential(conv(self.size, self.size, act=nn.SiLU),
                                                 conv(self.size, self.size, act=nn.SiLU)) for _ in range(count))
        self.last = conv((2 + count) * self.size, outputs, 1, act=nn.SiLU)

    def forward(self, x):
        found = list(self.first(x).chunk(2, 1))
        for part in self.parts:
            y = part(found[-1])
            found.append(found[-1] + y if self.add else y)
        return self.last(torch.cat(found, 1))


class Pyramid(nn.Module):
    """Three pools of five one behind the other, joined: SPPF."""

    def __init__(self, size):
        super().__init__()
        self.first, self.last = conv(size, size // 2, 1, act=nn.SiLU), conv(2 * size, size, 1, act=nn.SiLU)

    def forward(self, x):
        found = [self.first(x)]
        for _ in range(3):
            found.append(F.max_pool2d(found[-1], 5, 1, 2))
        return self.last(torch.cat(found, 1))


class Anchorless(nn.Module):
    """Boxes as distributions of the distances to their sides (DFL), at three strides, without anchors."""

    def __init__(self, sizes=(32, 64, 128), classes=20, bins=16):
        super().__init__()
        self.bins, act = bins, nn.SiLU
        self.stem = nn.Sequential(conv(3, 16, 3, 2, act=act), conv(16, 32, 3, 2, act=act), C2f(32, 32))
        self.down = nn.ModuleList(nn.Sequential(conv(a, b, 3, 2, act=act), C2f(b, b))
                                  for a, b in zip((32, *sizes), sizes))
        self.pools = Pyramid(sizes[-1])
        self.up = nn.ModuleList(C2f(a + b, a, add=False) for a, b in zip(sizes, sizes[1:]))
        self.boxes = nn.ModuleList(nn.Sequential(conv(one, 64, act=act), conv(64, 64, act=act),
                                                 nn.Conv2d(64, 4 * bins, 1)) for one in sizes)
        self.classes = nn.ModuleList(nn.Sequential(conv(one, 32, act=act), conv(32, 32, act=act),
                                                   nn.Conv2d(32, classes, 1)) for one in sizes)
        self.register_buffer('steps', torch.arange(bins, dtype=torch.float32).view(1, bins, 1, 1))

    def forward(self, x):
        x, maps = self.stem(x), []
        for part in self.down:
            x = part(x)
            maps.append(x)
        maps[2] = self.pools(maps[2])
        for at in (1, 0):
            up = F.interpolate(maps[at + 1], scale_factor=2.0)
            maps[at] = self.up[at](torch.cat([up, maps[at]], 1))
        sides = torch.cat([part(x).flatten(2) for part, x in zip(self.boxes, maps)], 2)
        scores = torch.cat([part(x).flatten(2) for part, x in zip(self.classes, maps)], 2)
        shares = sides.reshape(1, 4, self.bins, -1).transpose(1, 2).softmax(1)
        return (shares * self.steps).sum(1), scores.sigmoid()


class Nano(nn.Module):
    """Boxes: blocks that shuffle channels, a pyramid of depthwise layers of five, heads that levels share."""

    class Shuffle(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            half, self.stride, act = outputs // 2, stride, lambda: nn.LeakyReLU(0.1)
            given = inputs if stride == 2 else inputs // 2
            self.body = nn.Sequential(conv(given, half, 1, act=act), conv(half, half, 3, stride, half, act=None),
                                      conv(half, half, 1, act=act))
            self.past = nn.Sequential(conv(given, given, 3, 2, given, act=None), conv(given, half, 1, act=act))

        def forward(self, x):
            a, b = (self.past(x), x) if self.stride == 2 else x.chunk(2, 1)
            return shuffle(torch.cat([a, self.body(b)], 1))

    def __init__(self, sizes=(116, 232, 464), size=96, outputs=20 + 32):
        super().__init__()
        act = lambda: nn.LeakyReLU(0.1)
        self.stem = nn.Sequential(conv(3, 24, 3, 2, act=act), nn.MaxPool2d(3, 2, 1))
        self.down = nn.ModuleList(nn.Sequential(self.Shuffle(a, b, 2), *[self.Shuffle(b, b, 1) for _ in range(2)])
                                  for a, b in zip((24, *sizes), sizes))
        self.even = nn.ModuleList(conv(one, size, 1, act=act) for one in sizes)
        def five(inputs):
            return nn.Sequential(conv(inputs, inputs, 5, 1, inputs, act=act), conv(inputs, size, 1, act=act))
        self.join = nn.ModuleList(five(2 * size) for _ in sizes[1:])
        self.head = nn.Sequential(five(size), five(size), nn.Conv2d(size, outputs, 1))

    def forward(self, x):
        x, maps = self.stem(x), []
        for part, even in zip(self.down, self.even):
            x = part(x)
            maps.append(even(x))
        for at in (1, 0):
            maps[at] = self.join[at](torch.cat([maps[at], resize(maps[at + 1], maps[at])], 1))
        return torch.cat([self.head(one).flatten(2) for one in maps], 2)


class Queries(nn.Module):
    """Boxes by queries: one layer of attention over the smallest map, then layers that look at it, as RT-DETR's."""

    def __init__(self, size=128, queries=100, classes=20):
        super().__init__()
        self.trunk = Trunk((32, 64, 128, 256))
        self.even = nn.ModuleList(conv(one, size, 1, act=None) for one in (64, 128, 256))
        self.inside = nn.TransformerEncoderLayer(size, 8, 4 * size, activation='gelu', batch_first=True)
        self.up = nn.ModuleList(conv(2 * size, size, 3, act=nn.SiLU) for _ in range(2))
        self.queries = nn.Parameter(torch.randn(1, queries, size))
        self.layers = nn.ModuleList(nn.TransformerDecoderLayer(size, 8, 4 * size, batch_first=True) for _ in range(3))
        self.classes = nn.Linear(size, classes)
        self.boxes = nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, 4))

    def forward(self, x):
        maps = [even(one) for even, one in zip(self.even, self.trunk(x)[1:])]
        n, c, h, w = maps[2].shape
        maps[2] = self.inside(maps[2].flatten(2).transpose(1, 2)).transpose(1, 2).reshape(n, c, h, w)
        for at in (1, 0):
            maps[at] = self.up[at](torch.cat([maps[at], F.interpolate(maps[at + 1], scale_factor=2.0)], 1))
        memory = torch.cat([one.flatten(2) for one in maps], 2).transpose(1, 2)
        x = self.queries
        for layer in self.layers:
            x = layer(x, memory)
        return self.classes(x), self.boxes(x).sigmoid()


