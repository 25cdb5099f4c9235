# SPDX-License-Identifier: Apache-2.0
"""Networks for int8_networks.py: a matting, a depth, channel attention, dilated context, raw sound, boxes by areas."""

import torch
from torch import nn
from torch.nn import functional as F

from zoo_modules import conv


class Matting(nn.Module):
    """An alpha of each pixel: a coarse one of a small map, refined by details of the image."""

    def __init__(self, size=16):
        super().__init__()
        sizes = [size, 24, 40, 80]
        self.stem = conv(3, size, 3, 2, act=nn.Hardswish)
        self.stages = nn.ModuleList(nn.Sequential(conv(a, 4 * a, 1), conv(4 * a, 4 * a, 3, 2, groups=4 * a),
                                                  conv(4 * a, b, 1, act=None)) for a, b in zip(sizes, sizes[1:]))
        self.up = nn.ModuleList(conv(b + a, a, 3) for a, b in zip(sizes, sizes[1:]))
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(80, 80, 1), nn.Sigmoid())
        self.detail = nn.Sequential(conv(3 + size, 16, 3), conv(16, 16, 3))
        self.last = nn.Conv2d(16, 4, 1)

    def forward(self, x):
        maps = [self.stem(x)]
        for stage in self.stages:
            maps.append(stage(maps[-1]))
        y = maps[-1] * self.gate(maps[-1])
        for at in (2, 1, 0):
            y = F.interpolate(y, scale_factor=2., mode='bilinear', align_corners=False)
            y = self.up[at](torch.cat([y, maps[at]], 1))
        y = F.interpolate(y, scale_factor=2., mode='bilinear', align_corners=False)
        y = self.last(self.detail(torch.cat([x, y], 1)))
        return y[:, :1].sigmoid(), (x + y[:, 1:]).clamp(0, 1)


class Depth(nn.Module):
    """Disparities at two scales by ELU and reflected borders, above residual blocks."""

    class Block(nn.Module):
        def __init__(self, inputs, size):
            super().__init__()
            self.body = nn.Sequential(conv(inputs, size, 3, 2), conv(size, size, 3, act=None))
            self.side = conv(inputs, size, 1, 2, act=None)

        def forward(self, x):
            return F.relu(self.body(x) + self.side(x))

    def __init__(self):
        super().__init__()
        sizes = [32, 32, 64, 128]
        self.stem = conv(3, 32, 7, 2)
        self.stages = nn.ModuleList(self.Block(a, b) for a, b in zip(sizes, sizes[1:]))
        self.one = nn.ModuleList(nn.Conv2d(b, a, 3) for a, b in zip(sizes, sizes[1:]))
        self.two = nn.ModuleList(nn.Conv2d(2 * a, a, 3) for a in sizes[:-1])
        self.heads = nn.ModuleList(nn.Conv2d(a, 1, 3) for a in sizes[:2])

    def forward(self, x):
        maps, found = [self.stem(x)], []
        for stage in self.stages:
            maps.append(stage(maps[-1]))
        y = maps[-1]

        def padded(y):
            return F.pad(y, (1, 1, 1, 1), mode='reflect')

        for at in (2, 1, 0):
            y = F.interpolate(F.elu(self.one[at](padded(y))), scale_factor=2., mode='nearest')
            y = F.elu(self.two[at](padded(torch.cat([y, maps[at]], 1))))
            if at < 2:
                found.append(self.heads[at](padded(y)).sigmoid())
        return tuple(found)


class Rcan(nn.Module):
    """An image of four times the pixels by residual groups whose channels have weights of their own."""

    class Block(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(size, size, 3, 1, 1), nn.ReLU(), nn.Conv2d(size, size, 3, 1, 1))
            self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(size, size // 8, 1), nn.ReLU(),
                                      nn.Conv2d(size // 8, size, 1), nn.Sigmoid())

        def forward(self, x):
            y = self.body(x)
            return x + y * self.gate(y)

    def __init__(self, size=48, blocks=6):
        super().__init__()
        self.first = nn.Conv2d(3, size, 3, 1, 1)
        self.body = nn.Sequential(*[self.Block(size) for _ in range(blocks)], nn.Conv2d(size, size, 3, 1, 1))
        self.last = nn.Sequential(nn.Conv2d(size, 12, 3, 1, 1), nn.PixelShuffle(2))

    def forward(self, x):
        x = self.first(x)
        return self.last(x + self.body(x))


class Dilated(nn.Module):
    """Classes of pixels by a pyramid of dilated windows above inverted bottlenecks."""

    class Part(nn.Module):
        def __init__(self, inputs, size, stride=1, dilation=1):
            super().__init__()
            wide = 6 * inputs
            self.body = nn.Sequential(conv(inputs, wide, 1, act=nn.ReLU6),
                                      conv(wide, wide, 3, stride, wide, dilation, nn.ReLU6),
                                      conv(wide, size, 1, act=None))
            self.adds = stride == 1 and inputs == size

        def forward(self, x):
            return x + self.body(x) if self.adds else self.body(x)

    def __init__(self, classes=21):
        super().__init__()
        parts = [(16, 24, 2), (24, 24), (24, 32, 2), (32, 32), (32, 64), (64, 64, 1, 2), (64, 64, 1, 2)]
        self.body = nn.Sequential(conv(3, 16, 3, 2), *[self.Part(*one) for one in parts])
        self.context = nn.ModuleList([conv(64, 64, 1), *[conv(64, 64, dilation=one) for one in (6, 12, 18)]])
        self.whole = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(64, 64, 1), nn.ReLU())
        self.head = nn.Sequential(conv(320, 64, 1), nn.Conv2d(64, classes, 1))

    def forward(self, x):
        y = self.body(x)
        whole = self.whole(y).expand(-1, -1, y.shape[2], y.shape[3])
        y = self.head(torch.cat([*[one(y) for one in self.context], whole], 1))
        return F.interpolate(y, size=x.shape[2:], mode='bilinear', align_corners=False)


class RawSound(nn.Module):
    """Letters of raw sound: windows over samples with GELU, then two layers of a transformer."""

    def __init__(self, size=128):
        super().__init__()
        self.norm = nn.GroupNorm(64, 64)
        steps = [(1, 64, 10, 5), (64, 64, 3, 2), (64, 96, 3, 2), (96, size, 3, 2), (size, size, 2, 2)]
        self.windows = nn.ModuleList(nn.Conv1d(a, b, k, s, bias=False) for a, b, k, s in steps)
        self.place = nn.Conv1d(size, size, 15, 1, 7, groups=16)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(size, 4, 4 * size, 0., 'gelu', batch_first=True,
                                                               norm_first=True) for _ in range(2))
        self.head = nn.Linear(size, 32)

    def forward(self, x):
        for at, window in enumerate(self.windows):
            x = window(x)
            x = F.gelu(self.norm(x) if at == 0 else x)
        x = (x + F.gelu(self.place(x))).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Areas(nn.Module):
    """Boxes of a detector whose deepest map attends within areas, with large depthwise windows for places."""

    class Attention(nn.Module):
        def __init__(self, size, heads=2, areas=4):
            super().__init__()
            self.heads, self.areas = heads, areas
            self.qkv, self.place = conv(size, 3 * size, 1, act=None), conv(size, size, 7, groups=size, act=None)
            self.last = conv(size, size, 1, act=None)
            self.wide = nn.Sequential(conv(size, 2 * size, 1, act=nn.SiLU), conv(2 * size, size, 1, act=None))

        def forward(self, x):
            _, channels, height, width = x.shape
            qkv = self.qkv(x).flatten(2).transpose(1, 2).reshape(self.areas, height * width // self.areas, 3 * channels)
            q, k, v = qkv.reshape(self.areas, -1, self.heads, 3 * channels // self.heads).transpose(1, 2).chunk(3, 3)
            y = ((q @ k.transpose(2, 3)) * (channels // self.heads) ** -0.5).softmax(3) @ v
            y, v = (one.transpose(1, 2).reshape(1, height, width, channels).permute(0, 3, 1, 2) for one in (y, v))
            x = x + self.last(y + self.place(v))
            return x + self.wide(x)

    def __init__(self, classes=20):
        super().__init__()
        self.classes = classes
        silu = nn.SiLU
        self.first = nn.Sequential(conv(3, 16, 3, 2, act=silu), conv(16, 32, 3, 2, act=silu),
                                   conv(32, 64, 3, 2, act=silu))
        self.second = nn.Sequential(conv(64, 96, 3, 2, act=silu), self.Attention(96), self.Attention(96))
        self.even = conv(96, 64, 1, act=silu)
        self.sides = nn.ModuleList(nn.Sequential(conv(64, 64, 3, act=silu), nn.Conv2d(64, 4, 1)) for _ in 'ab')
        self.kinds = nn.ModuleList(nn.Sequential(conv(64, 64, 3, groups=64, act=silu), conv(64, 64, 1, act=silu),
                                                 nn.Conv2d(64, classes, 1)) for _ in 'ab')

    def forward(self, x):
        fine = self.first(x)
        deep = self.even(self.second(fine))
        maps = fine + F.interpolate(deep, scale_factor=2., mode='nearest'), deep
        sides = torch.cat([f(one).flatten(2) for f, one in zip(self.sides, maps)], 2)
        return sides.exp(), torch.cat([f(one).flatten(2) for f, one in zip(self.kinds, maps)], 2).sigmoid()
