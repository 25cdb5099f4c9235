# SPDX-License-Identifier: Apache-2.0
"""Small networks of kinds that no library has, as int8_networks.py writes them."""

import torch
from torch import nn
from torch.nn import functional as F

from zoo_modules import conv


def resize(x, like):
    return F.interpolate(x, size=like.shape[2:], mode='bilinear', align_corners=False)


class Basic(nn.Module):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.body = nn.Sequential(conv(inputs, outputs, 3, stride), conv(outputs, outputs, 3, act=None))
        same = stride == 1 and inputs == outputs
        self.past = nn.Identity() if same else conv(inputs, outputs, 1, stride, act=None)

    def forward(self, x):
        return F.relu(self.body(x) + self.past(x))


class Trunk(nn.Module):
    """Four maps, from a quarter of the side to a thirty-second."""

    def __init__(self, sizes=(32, 64, 96, 128)):
        super().__init__()
        self.stem = nn.Sequential(conv(3, sizes[0], 3, 2), nn.MaxPool2d(3, 2, 1))
        self.parts = nn.ModuleList(
            Basic(a, b, 1 if at == 0 else 2) for at, (a, b) in enumerate(zip((sizes[0], *sizes), sizes)))

    def forward(self, x):
        x, maps = self.stem(x), []
        for part in self.parts:
            x = part(x)
            maps.append(x)
        return maps


class Attention(nn.Module):
    """A map times a gate that is found from its means."""

    def __init__(self, size):
        super().__init__()
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), conv(size, size, 1, act=nn.Sigmoid))

    def forward(self, x):
        return x * self.gate(x)


class BiSeNet(nn.Module):
    """A path of details and one of context, joined by attention."""

    def __init__(self):
        super().__init__()
        self.details = nn.Sequential(conv(3, 32, 7, 2), conv(32, 32, 3, 2), conv(32, 32, 3, 2), conv(32, 96, 1))
        self.trunk = Trunk()
        self.attend = nn.ModuleList(nn.Sequential(conv(size, 64), Attention(64)) for size in (96, 128))
        self.context = nn.Sequential(nn.AdaptiveAvgPool2d(1), conv(128, 64, 1))
        self.heads = nn.ModuleList([conv(64, 64), conv(64, 64)])
        self.join = nn.Sequential(conv(160, 128, 1), Attention(128))
        self.last = nn.Sequential(conv(128, 64), nn.Conv2d(64, 19, 1))

    def forward(self, x):
        details, (_, _, one, two) = self.details(x), self.trunk(x)
        two = self.attend[1](two) + self.context(two)
        one = self.attend[0](one) + self.heads[0](F.interpolate(two, scale_factor=2.0))
        one = self.heads[1](F.interpolate(one, scale_factor=2.0))
        both = self.join(torch.cat([details, one], 1))
        return F.interpolate(self.last(both), scale_factor=8.0, mode='bilinear')


class LiteSeg(nn.Module):
    """Blocks of shrinking concatenated convolutions, a pool pyramid and fusion by means and maxima of channels."""

    class Stdc(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.first = conv(inputs, outputs // 2, 1)
            self.down = conv(outputs // 2, outputs // 2, 3, 2, outputs // 2, act=None) if stride == 2 else None
            self.skip = nn.AvgPool2d(3, 2, 1) if stride == 2 else nn.Identity()
            sizes = [outputs // 2, outputs // 4, outputs // 8, outputs // 8]
            self.rest = nn.ModuleList(conv(a, b) for a, b in zip(sizes, sizes[1:]))

        def forward(self, x):
            one = self.first(x)
            x = self.down(one) if self.down else one
            found = [self.skip(one)]
            for part in self.rest:
                x = part(x)
                found.append(x)
            return torch.cat(found, 1)

    class Fuse(nn.Module):
        def __init__(self, low, high, size):
            super().__init__()
            self.low, self.high = conv(low, size), conv(high, size)
            self.gate = nn.Sequential(conv(4, 2), nn.Conv2d(2, 1, 3, padding=1))

        def forward(self, low, high):
            low = self.low(low)
            high = resize(self.high(high), low)
            seen = [one for x in (low, high) for one in (x.mean(1, keepdim=True), x.max(1, keepdim=True)[0])]
            gate = torch.sigmoid(self.gate(torch.cat(seen, 1)))
            return low * gate + high * (1 - gate)

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(conv(3, 32, 3, 2), conv(32, 32, 3, 2))
        sizes = [(32, 64), (64, 128), (128, 256)]
        self.parts = nn.ModuleList(
            nn.Sequential(self.Stdc(a, b, 2), self.Stdc(b, b, 1)) for a, b in sizes)
        self.pools = nn.ModuleList(nn.Sequential(nn.AdaptiveAvgPool2d(n), conv(256, 64, 1)) for n in (1, 2, 4))
        self.pyramid = conv(64, 64)
        self.fuse = nn.ModuleList([self.Fuse(128, 64, 64), self.Fuse(64, 64, 48)])
        self.last = nn.Sequential(conv(48, 48), nn.Conv2d(48, 19, 1))

    def forward(self, x):
        size, maps, x = x, [], self.stem(x)
        for part in self.parts:
            x = part(x)
            maps.append(x)
        x = self.pyramid(sum(resize(pool(x), x) for pool in self.pools))
        x = self.fuse[1](maps[0], self.fuse[0](maps[1], x))
        return resize(self.last(x), size)


class BiFpn(nn.Module):
    """Weighted sums up and down, separable layers, heads that are shared by levels."""

    def __init__(self, size=64, rounds=2):
        super().__init__()
        self.trunk = Trunk()
        self.even = nn.ModuleList(conv(one, size, 1, act=None) for one in (64, 96, 128))
        self.deeper = conv(128, size, 1, act=None)

        def separable():
            return nn.Sequential(nn.Conv2d(size, size, 3, 1, 1, 1, size, bias=False), conv(size, size, 1, act=nn.SiLU))

        self.up = nn.ModuleList(nn.ModuleList(separable() for _ in range(3)) for _ in range(rounds))
        self.down = nn.ModuleList(nn.ModuleList(separable() for _ in range(3)) for _ in range(rounds))
        self.weights = nn.Parameter(torch.rand(rounds, 6, 3) + 0.2)
        self.classes = nn.Sequential(separable(), separable(), nn.Conv2d(size, 9 * 20, 1))
        self.boxes = nn.Sequential(separable(), separable(), nn.Conv2d(size, 9 * 4, 1))

    def forward(self, x):
        maps = self.trunk(x)[1:]
        last = F.max_pool2d(self.deeper(maps[-1]), 3, 2, 1)
        maps = [*(even(one) for even, one in zip(self.even, maps)), last]
        for up, down, weights in zip(self.up, self.down, self.weights):
            middle, count = list(maps), len(maps) - 1
            for at in range(count - 1, -1, -1):
                w = weights[at] / weights[at].sum()
                middle[at] = up[at](w[0] * maps[at] + w[1] * resize_nearest(middle[at + 1]))
            for at in range(1, count + 1):
                w = weights[at + 2] / weights[at + 2].sum()
                below = F.max_pool2d(middle[at - 1], 3, 2, 1)
                middle[at] = down[at - 1](w[0] * maps[at] + w[1] * middle[at] + w[2] * below)
            maps = middle
        found = [[head(one).permute(0, 2, 3, 1).flatten(1).view(x.shape[0], -1, wide) for one in maps]
                 for head, wide in ((self.classes, 20), (self.boxes, 4))]
        return torch.cat(found[0], 1).sigmoid(), torch.cat(found[1], 1)


def resize_nearest(x):
    return F.interpolate(x, scale_factor=2.0)


class DbNet(nn.Module):
    """Text: a pyramid whose levels are joined, probabilities by two deconvolutions."""

    def __init__(self, size=64):
        super().__init__()
        self.trunk = Trunk()
        self.even = nn.ModuleList(nn.Conv2d(one, size, 1, bias=False) for one in (32, 64, 96, 128))
        self.smooth = nn.ModuleList(nn.Conv2d(size, size // 4, 3, padding=1, bias=False) for _ in range(4))

        def head():
            up = [nn.ConvTranspose2d(size // 4, size // 4, 2, 2), nn.BatchNorm2d(size // 4), nn.ReLU()]
            return nn.Sequential(conv(size, size // 4), *up, nn.ConvTranspose2d(size // 4, 1, 2, 2), nn.Sigmoid())

        self.heads = nn.ModuleList([head(), head()])

    def forward(self, x):
        maps = [even(one) for even, one in zip(self.even, self.trunk(x))]
        for at in (2, 1, 0):
            maps[at] = maps[at] + resize_nearest(maps[at + 1])
        maps = [F.interpolate(smooth(one), scale_factor=2.0 ** at) if at else smooth(one)
                for at, (smooth, one) in enumerate(zip(self.smooth, maps))]
        x = torch.cat(maps[::-1], 1)
        shrunk, threshold = (head(x) for head in self.heads)
        return shrunk, threshold, 1 / (1 + torch.exp(-50 * (shrunk - threshold)))


class Hourglass(nn.Module):
    """Key points: down, up by deconvolutions, twice, with what was there before added."""

    class One(nn.Module):
        def __init__(self, size=64):
            super().__init__()
            self.down = nn.ModuleList(Basic(size, size, 2) for _ in range(3))
            self.past = nn.ModuleList(Basic(size, size) for _ in range(3))
            self.up = nn.ModuleList(
                nn.Sequential(nn.ConvTranspose2d(size, size, 4, 2, 1, bias=False), nn.BatchNorm2d(size), nn.ReLU())
                for _ in range(3))

        def forward(self, x):
            kept = []
            for down, past in zip(self.down, self.past):
                kept.append(past(x))
                x = down(x)
            for up in self.up:
                x = up(x) + kept.pop()
            return x

    def __init__(self, size=64):
        super().__init__()
        self.stem = nn.Sequential(conv(3, size, 7, 2), Basic(size, size, 2))
        self.stacks = nn.ModuleList([self.One(size), self.One(size)])
        self.heads = nn.ModuleList([nn.Conv2d(size, 17, 1), nn.Conv2d(size, 17, 1)])
        self.back = nn.Conv2d(17, size, 1)

    def forward(self, x):
        x = self.stem(x)
        y = self.stacks[0](x)
        maps = self.heads[0](y)
        return maps, self.heads[1](self.stacks[1](x + y + self.back(maps)))


class OsNet(nn.Module):
    """People again: light layers in streams of several sizes under one shared gate."""

    class Block(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            size = outputs // 4

            def light():
                point = nn.Conv2d(size, size, 1, bias=False)
                return nn.Sequential(point, conv(size, size, 3, groups=size))

            self.first, self.last = conv(inputs, size, 1), conv(size, outputs, 1, act=None)
            self.streams = nn.ModuleList(nn.Sequential(*[light() for _ in range(at + 1)]) for at in range(4))
            small = [nn.Conv2d(size, size // 8, 1), nn.ReLU(), nn.Conv2d(size // 8, size, 1), nn.Sigmoid()]
            self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), *small)
            self.past = conv(inputs, outputs, 1, act=None) if inputs != outputs else nn.Identity()

        def forward(self, x):
            one = self.first(x)
            found = [stream(one) for stream in self.streams]
            return F.relu(self.last(sum(y * self.gate(y) for y in found)) + self.past(x))

    def __init__(self):
        super().__init__()
        parts, sizes = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], [(64, 192), (192, 256), (256, 320)]
        for at, (a, b) in enumerate(sizes):
            parts += [self.Block(a, b), self.Block(b, b)]
            parts += [conv(b, b, 1), nn.AvgPool2d(2, 2)] if at < 2 else []
        head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(320, 256), nn.BatchNorm1d(256)]
        self.body = nn.Sequential(*parts, *head)

    def forward(self, x):
        return F.normalize(self.body(x))


class Crnn(nn.Module):
    """Lines of text: convolutions, then LSTM in both directions, twice."""

    def __init__(self):
        super().__init__()
        pool, flat = nn.MaxPool2d(2), nn.MaxPool2d((2, 2), (2, 1), (0, 1))
        parts = [conv(1, 32), pool, conv(32, 64), pool, conv(64, 128), conv(128, 128), flat, conv(128, 256)]
        self.body = nn.Sequential(*parts, flat, nn.Conv2d(256, 256, 2), nn.ReLU())
        self.along = nn.LSTM(256, 128, 2, bidirectional=True)
        self.head = nn.Linear(256, 37)

    def forward(self, x):
        x = self.along(self.body(x).squeeze(2).permute(2, 0, 1))[0]
        return self.head(x)


class Shuffled(nn.Module):
    """Super-resolution: residual layers, twice a pixel shuffle, the input enlarged added."""

    def __init__(self, size=32):
        super().__init__()
        self.first = nn.Conv2d(3, size, 3, padding=1)
        self.parts = nn.ModuleList(nn.Sequential(nn.Conv2d(size, size, 3, padding=1), nn.PReLU(size),
                                                 nn.Conv2d(size, size, 3, padding=1)) for _ in range(6))
        up = [nn.Conv2d(size, size * 4, 3, padding=1), nn.PixelShuffle(2), nn.LeakyReLU(0.1)]
        again = [nn.Conv2d(size, size * 4, 3, padding=1), nn.PixelShuffle(2), nn.LeakyReLU(0.1)]
        self.up = nn.Sequential(*up, *again, nn.Conv2d(size, 3, 3, padding=1))

    def forward(self, x):
        y = first = self.first(x)
        for part in self.parts:
            y = y + 0.2 * part(y)
        return self.up(y + first) + F.interpolate(x, scale_factor=4.0, mode='bilinear')


class Audio(nn.Module):
    """Separable convolutions along time under a mask, as QuartzNet's, and dilated ones with gates."""

    class Separable(nn.Module):
        def __init__(self, size, kernel):
            super().__init__()
            self.parts = nn.Sequential(*[nn.Sequential(
                nn.Conv1d(size, size, kernel, padding=kernel // 2, groups=size, bias=False),
                nn.Conv1d(size, size, 1, bias=False), nn.BatchNorm1d(size), nn.ReLU()) for _ in range(3)])

        def forward(self, x):
            return F.relu(x + self.parts(x))

    class Gated(nn.Module):
        def __init__(self, size, dilation):
            super().__init__()
            self.both = nn.Conv1d(size, 2 * size, 3, padding=dilation, dilation=dilation)
            self.last = nn.Conv1d(size, size, 1)

        def forward(self, x):
            a, b = self.both(x).chunk(2, 1)
            return x + self.last(a.tanh() * b.sigmoid())

    def __init__(self, size=128):
        super().__init__()
        self.first = nn.Sequential(nn.Conv1d(64, size, 33, 2, 16, bias=False), nn.BatchNorm1d(size), nn.ReLU())
        parts = [self.Separable(size, kernel) for kernel in (33, 39, 51)]
        self.body = nn.Sequential(*parts, *[self.Gated(size, 2 ** at) for at in range(4)])
        self.head = nn.Conv1d(size, 29, 1)

    def forward(self, x):
        return self.head(self.body(self.first(x))).log_softmax(1)


class UNet(nn.Module):
    """Plain, in two or three axes, up by transposed convolutions."""

    def __init__(self, axes, inputs, sizes):
        super().__init__()
        conv_of, norm = (nn.Conv2d, nn.BatchNorm2d) if axes == 2 else (nn.Conv3d, nn.BatchNorm3d)
        up = nn.ConvTranspose2d if axes == 2 else nn.ConvTranspose3d
        self.pool = F.max_pool2d if axes == 2 else F.max_pool3d

        def two(a, b):
            return nn.Sequential(*[one for c in (a, b) for one in (
                conv_of(c, b, 3, padding=1, bias=False), norm(b), nn.ReLU())])

        self.down = nn.ModuleList(two(a, b) for a, b in zip((inputs, *sizes), sizes))
        self.up = nn.ModuleList(up(b, a, 2, 2) for a, b in zip(sizes, sizes[1:]))
        self.join = nn.ModuleList(two(2 * a, a) for a in sizes[:-1])
        self.head = conv_of(sizes[0], 3, 1)

    def forward(self, x):
        seen = []
        for part in self.down:
            x = part(self.pool(x, 2) if seen else x)
            seen.append(x)
        for at in range(len(self.up) - 1, -1, -1):
            x = self.join[at](torch.cat([seen[at], self.up[at](x)], 1))
        return self.head(x)


class Clip3d(nn.Module):
    """Video: convolutions in space and along time apart, and whole ones."""

    def __init__(self):
        super().__init__()
        def part(a, b, kernel, stride):
            pads = tuple(one // 2 for one in kernel)
            return nn.Sequential(nn.Conv3d(a, b, kernel, stride, pads, bias=False), nn.BatchNorm3d(b), nn.ReLU())
        parts, sizes = [part(3, 32, (1, 7, 7), (1, 2, 2)), part(32, 32, (3, 1, 1), 1)], [(32, 64), (64, 96)]
        for a, b in sizes:
            parts += [part(a, b, (1, 3, 3), (1, 2, 2)), part(b, b, (3, 1, 1), 1), part(b, b, (3, 3, 3), 1)]
        self.body = nn.Sequential(*parts, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(96, 50))

    def forward(self, x):
        return self.body(x)
