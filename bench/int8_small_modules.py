# SPDX-License-Identifier: Apache-2.0
"""Small networks for int8_networks.py: boxes as distributions, fast segmentation, coordinates, words in speech."""

import torch
from torch import nn
from torch.nn import functional as F

from zoo_modules import conv


class Distributions(nn.Module):
    """Boxes whose four sides are expectations over 16 places, from three maps that a small neck joins."""

    class Part(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.first, self.last = conv(size, size, 1, act=nn.SiLU), conv(2 * size, size, 1, act=nn.SiLU)
            self.body = nn.Sequential(*[conv(size // 2, size // 2, 3, act=nn.SiLU) for _ in range(2)])

        def forward(self, x):
            y = self.first(x)
            a, b = y.chunk(2, 1)
            return self.last(torch.cat([y, b, a + self.body(b)], 1))

    def __init__(self, size=24, classes=20):
        super().__init__()
        self.classes = classes
        sizes = [size, 2 * size, 4 * size, 8 * size]
        self.stem = nn.Sequential(conv(3, size, 3, 2, act=nn.SiLU), conv(size, size, 3, 2, act=nn.SiLU))
        self.stages = nn.ModuleList(nn.Sequential(conv(a, b, 3, 2, act=nn.SiLU), self.Part(b))
                                    for a, b in zip(sizes, sizes[1:]))
        self.down = nn.ModuleList(conv(b, a, 1, act=nn.SiLU) for a, b in zip(sizes[1:], sizes[2:]))
        self.heads = nn.ModuleList(nn.Sequential(conv(one, 64, 3, act=nn.SiLU), nn.Conv2d(64, 64 + classes, 1))
                                   for one in sizes[1:])
        self.register_buffer('places', torch.arange(16.))

    def forward(self, x):
        maps = [self.stem(x)]
        for stage in self.stages:
            maps.append(stage(maps[-1]))
        maps = maps[1:]
        for at in (1, 0):
            maps[at] = maps[at] + F.interpolate(self.down[at](maps[at + 1]), scale_factor=2.)
        rows = torch.cat([head(one).flatten(2) for head, one in zip(self.heads, maps)], 2)
        sides = rows[:, :64].reshape(1, 4, 16, -1).softmax(2)
        return (sides * self.places[:, None]).sum(2), rows[:, 64:].sigmoid()


class FastScnn(nn.Module):
    """Classes of pixels: a short path of details beside a deep one of a small map with pooled context."""

    class Bottleneck(nn.Module):
        def __init__(self, inputs, size, stride=1):
            super().__init__()
            wide = 6 * inputs
            self.body = nn.Sequential(conv(inputs, wide, 1), conv(wide, wide, 3, stride, groups=wide),
                                      conv(wide, size, 1, act=None))
            self.adds = stride == 1 and inputs == size

        def forward(self, x):
            return x + self.body(x) if self.adds else self.body(x)

    def __init__(self, classes=19):
        super().__init__()
        self.first = nn.Sequential(conv(3, 32, 3, 2), conv(32, 32, 3, 2, groups=32), conv(32, 48, 1),
                                   conv(48, 48, 3, 2, groups=48), conv(48, 64, 1))
        parts = [(64, 64, 2), (64, 64, 1), (64, 96, 2), (96, 96, 1), (96, 128, 1), (128, 128, 1)]
        self.deep = nn.Sequential(*[self.Bottleneck(*one) for one in parts])
        self.pools = nn.ModuleList(conv(128, 32, 1) for _ in range(2))
        self.joined, self.details = conv(192, 128, 1, act=None), conv(64, 128, 1, act=None)
        self.head = nn.Sequential(conv(128, 128, 3, groups=128), conv(128, 128, 1), nn.Conv2d(128, classes, 1))

    def forward(self, x):
        fine = self.first(x)
        deep = self.deep(fine)
        context = [F.interpolate(one(F.avg_pool2d(deep, size)), size=deep.shape[2:], mode='bilinear')
                   for one, size in zip(self.pools, (2, 4))]
        deep = self.joined(torch.cat([deep, *context], 1))
        return self.head(F.relu(self.details(fine) + F.interpolate(deep, size=fine.shape[2:], mode='bilinear')))


class Coordinates(nn.Module):
    """Landmarks as numbers: depthwise blocks with residuals, and products of a flattened map."""

    def __init__(self, points=68):
        super().__init__()
        layers, size = [conv(3, 24, 5, 2)], 24
        for wide in (32, 48, 64, 96):
            layers += [conv(size, size, 5, 2, groups=size), conv(size, wide, 1)]
            layers += [FastScnn.Bottleneck(wide, wide)]
            size = wide
        self.body = nn.Sequential(*layers)
        self.last = nn.Sequential(nn.Linear(96 * 36, 128), nn.ReLU(), nn.Linear(128, 2 * points))

    def forward(self, x):
        return self.last(self.body(x).flatten(1))


class Keywords(nn.Module):
    """A few words in speech: windows along time, gates by channel, classes of the mean."""

    class Block(nn.Module):
        def __init__(self, inputs, size):
            super().__init__()
            self.body = nn.Sequential(nn.Conv1d(inputs, inputs, 9, padding=4, groups=inputs),
                                      nn.Conv1d(inputs, size, 1), nn.BatchNorm1d(size), nn.ReLU(),
                                      nn.Conv1d(size, size, 1), nn.BatchNorm1d(size))
            self.gate = nn.Sequential(nn.Linear(size, size // 4), nn.ReLU(), nn.Linear(size // 4, size), nn.Sigmoid())
            self.past = nn.Conv1d(inputs, size, 1)

        def forward(self, x):
            y = self.body(x)
            return F.relu(y * self.gate(y.mean(2))[:, :, None] + self.past(x))

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(self.Block(40, 64), self.Block(64, 96), self.Block(96, 96), self.Block(96, 128))
        self.last = nn.Linear(128, 12)

    def forward(self, x):
        return self.last(self.body(x).mean(2))
