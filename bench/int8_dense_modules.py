# SPDX-License-Identifier: Apache-2.0
"""More small networks for int8_networks.py: persons, classes of pixels, larger images."""

import torch
from torch import nn
from torch.nn import functional as F

from int8_modules import Basic, resize
from zoo_modules import conv


class HalfNorm(nn.Module):
    """Half of the channels normalised by image, half by batch."""

    def __init__(self, size):
        super().__init__()
        self.image, self.batch = nn.InstanceNorm2d(size // 2, affine=True), nn.BatchNorm2d(size - size // 2)

    def forward(self, x):
        a, b = x.chunk(2, 1)
        return torch.cat([self.image(a), self.batch(b)], 1)


class IbnNet(nn.Module):
    """Persons: bottlenecks with such layers, a vector of unit length."""

    class Block(nn.Module):
        def __init__(self, inputs, size, stride):
            super().__init__()
            first = [nn.Conv2d(inputs, size, 1, bias=False), HalfNorm(size), nn.ReLU()]
            self.body = nn.Sequential(*first, conv(size, size, 3, stride), conv(size, 4 * size, 1, act=None))
            same = inputs == 4 * size and stride == 1
            self.past = nn.Identity() if same else conv(inputs, 4 * size, 1, stride, act=None)

        def forward(self, x):
            return F.relu(self.body(x) + self.past(x))

    def __init__(self):
        super().__init__()
        sizes = [(64, 64, 1), (256, 64, 1), (256, 128, 2), (512, 128, 1), (512, 192, 2)]
        self.body = nn.Sequential(conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1), *[self.Block(*one) for one in sizes])

    def forward(self, x):
        return F.normalize(self.body(x).mean((2, 3)))


class PidNet(nn.Module):
    """Pixels: paths of details, of context and of borders, which decides between the two."""

    def __init__(self, size=32, classes=19):
        super().__init__()
        first = [conv(3, size, 3, 2), conv(size, size, 3, 2), Basic(size, size)]
        self.stem = nn.Sequential(*first, Basic(size, 2 * size, 2))
        self.context = nn.ModuleList([Basic(2 * size, 4 * size, 2), Basic(4 * size, 8 * size, 2)])
        self.details = nn.ModuleList([Basic(2 * size, 2 * size), Basic(2 * size, 2 * size)])
        self.borders = nn.ModuleList([Basic(2 * size, size), Basic(size, 2 * size)])
        self.even = nn.ModuleList([conv(4 * size, 2 * size, 1, act=None), conv(8 * size, 2 * size, 1, act=None)])
        self.edges = nn.ModuleList([conv(4 * size, size, 3, act=None), conv(8 * size, 2 * size, 3, act=None)])
        self.pools = nn.ModuleList(nn.Sequential(nn.AvgPool2d(one, one // 2, one // 2), conv(8 * size, size, 1))
                                   for one in (3, 5))
        self.join = conv(2 * size + 8 * size, 2 * size, 1)
        self.head = nn.Sequential(conv(2 * size, 2 * size), nn.Conv2d(2 * size, classes, 1))

    def forward(self, x):
        side = x
        x = self.stem(x)
        details, borders = x, x
        for context, detail, border, even, edge in zip(self.context, self.details, self.borders, self.even, self.edges):
            x, details, borders = context(x), detail(details), border(borders)
            gate = even(x)
            share = torch.sigmoid((details * resize(gate, details)).sum(1, keepdim=True) / 32)
            details = F.relu(share * resize(gate, details) + (1 - share) * details)
            borders = F.relu(borders + resize(edge(x), borders))
        x = self.join(torch.cat([x, *[resize(pool(x), x) for pool in self.pools]], 1))
        gate, x = torch.sigmoid(borders), resize(x, details)
        return resize(self.head(gate * details + (1 - gate) * x), side)


class ErfNet(nn.Module):
    """Pixels: windows of three rows, then of three columns, dilated, and deconvolutions."""

    class Down(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(inputs, outputs - inputs, 3, 2, 1), nn.BatchNorm2d(outputs)

        def forward(self, x):
            return F.relu(self.norm(torch.cat([self.conv(x), F.max_pool2d(x, 2)], 1)))

    class Line(nn.Module):
        def __init__(self, size, dilation):
            super().__init__()
            def pair(at):
                return [nn.Conv2d(size, size, (3, 1), padding=(at, 0), dilation=(at, 1)), nn.ReLU(),
                        nn.Conv2d(size, size, (1, 3), padding=(0, at), dilation=(1, at)), nn.BatchNorm2d(size)]
            self.parts = nn.Sequential(*pair(1), nn.ReLU(), *pair(dilation))

        def forward(self, x):
            return F.relu(x + self.parts(x))

    def __init__(self, classes=20):
        super().__init__()
        def up(a, b):
            return [nn.ConvTranspose2d(a, b, 3, 2, 1, 1), nn.BatchNorm2d(b), nn.ReLU(), self.Line(b, 1)]
        first = [self.Down(3, 16), self.Down(16, 64), *[self.Line(64, 1) for _ in range(2)], self.Down(64, 128)]
        self.body = nn.Sequential(*first, *[self.Line(128, 2 ** at) for at in (1, 2, 3, 4)], *up(128, 64), *up(64, 16))
        self.head = nn.ConvTranspose2d(16, classes, 2, 2)

    def forward(self, x):
        return self.head(self.body(x))


class EnetBlock(nn.Module):
    """A bottleneck of a quarter of the channels with PReLU, plain, dilated or in two lines."""

    def __init__(self, size, kind):
        super().__init__()
        middle = size // 4
        if kind == 'lines':
            window = [nn.Conv2d(middle, middle, (5, 1), padding=(2, 0), bias=False),
                      nn.Conv2d(middle, middle, (1, 5), padding=(0, 2), bias=False)]
        else:
            window = [nn.Conv2d(middle, middle, 3, padding=kind, dilation=kind, bias=False)]
        def end(channels):
            return [nn.BatchNorm2d(channels), nn.PReLU(channels)]
        self.body = nn.Sequential(nn.Conv2d(size, middle, 1, bias=False), *end(middle), *window, *end(middle),
                                  nn.Conv2d(middle, size, 1, bias=False), nn.BatchNorm2d(size))
        self.act = nn.PReLU(size)

    def forward(self, x):
        return self.act(x + self.body(x))


class Enet(nn.Module):
    """Pixels: thin bottlenecks, down by strides beside pools."""

    def __init__(self, classes=19):
        super().__init__()
        self.first = nn.Conv2d(3, 13, 3, 2, 1)
        self.down = nn.ModuleList([conv(16, 64, 2, 2, act=nn.PReLU), conv(64, 128, 2, 2, act=nn.PReLU)])
        self.one = nn.Sequential(*[EnetBlock(64, 1) for _ in range(3)])
        self.two = nn.Sequential(*[EnetBlock(128, kind) for kind in (1, 2, 'lines', 4, 1, 8, 'lines', 16)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(128, 64, 3, 2, 1, 1), nn.ConvTranspose2d(64, 16, 3, 2, 1, 1)])
        self.rest = nn.ModuleList([EnetBlock(64, 1), EnetBlock(16, 1)])
        self.head = nn.ConvTranspose2d(16, classes, 2, 2)

    def forward(self, x):
        x = torch.cat([self.first(x), F.max_pool2d(x, 2)], 1)
        x = self.two(self.down[1](self.one(self.down[0](x))))
        for up, rest in zip(self.up, self.rest):
            x = rest(F.relu(up(x)))
        return self.head(x)


class Espcn(nn.Module):
    """Larger images by few layers and one pixel shuffle."""

    def __init__(self, scale=3):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 64, 5, padding=2), nn.Tanh(), nn.Conv2d(64, 32, 3, padding=1), nn.Tanh(),
                                  nn.Conv2d(32, scale * scale, 3, padding=1), nn.PixelShuffle(scale))

    def forward(self, x):
        return self.body(x)


class Edsr(nn.Module):
    """Larger images by residual layers without normalisation."""

    def __init__(self, size=64, count=8):
        super().__init__()
        self.first = nn.Conv2d(3, size, 3, padding=1)
        self.parts = nn.ModuleList(nn.Sequential(nn.Conv2d(size, size, 3, padding=1), nn.ReLU(),
                                                 nn.Conv2d(size, size, 3, padding=1)) for _ in range(count))
        self.last = nn.Conv2d(size, size, 3, padding=1)
        self.up = nn.Sequential(nn.Conv2d(size, 4 * size, 3, padding=1), nn.PixelShuffle(2),
                                nn.Conv2d(size, 3, 3, padding=1))

    def forward(self, x):
        y = first = self.first(x)
        for part in self.parts:
            y = y + part(y)
        return self.up(self.last(y) + first)


class Imdn(nn.Module):
    """Larger images: a quarter of the channels leaves each layer, gated by their spread."""

    class Block(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.left = size // 4
            sizes = [size, *[size - self.left] * 2]
            self.parts = nn.ModuleList(nn.Conv2d(one, size, 3, padding=1) for one in sizes)
            self.small = nn.Conv2d(size - self.left, self.left, 3, padding=1)
            self.gate = nn.Sequential(nn.Conv2d(size, size // 16, 1), nn.ReLU(), nn.Conv2d(size // 16, size, 1),
                                      nn.Sigmoid())
            self.last = nn.Conv2d(size, size, 1)

        def forward(self, x):
            y, found = x, []
            for part in self.parts:
                y = F.leaky_relu(part(y), 0.05)
                one, y = y[:, :self.left], y[:, self.left:]
                found.append(one)
            y = torch.cat([*found, self.small(y)], 1)
            mean = y.mean((2, 3), keepdim=True)
            spread = ((y - mean) ** 2).mean((2, 3), keepdim=True).sqrt()
            return self.last(y * self.gate(spread + mean)) + x

    def __init__(self, size=64, count=3, scale=2):
        super().__init__()
        self.first = nn.Conv2d(3, size, 3, padding=1)
        self.parts = nn.ModuleList(self.Block(size) for _ in range(count))
        self.join = nn.Sequential(nn.Conv2d(count * size, size, 1), nn.LeakyReLU(0.05),
                                  nn.Conv2d(size, size, 3, padding=1))
        self.up = nn.Sequential(nn.Conv2d(size, 3 * scale * scale, 3, padding=1), nn.PixelShuffle(scale))

    def forward(self, x):
        x, found = self.first(x), []
        y = x
        for part in self.parts:
            y = part(y)
            found.append(y)
        return self.up(self.join(torch.cat(found, 1)) + x)
