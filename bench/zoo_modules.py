# SPDX-License-Identifier: Apache-2.0
"""Modules that zoo_networks.py wraps others in, and small networks of kinds that no library has."""

import torch
from torch import nn
from torch.nn import functional as F


class Wrapped(nn.Module):
    """One tensor of what a network of transformers gives."""

    def __init__(self, network, result='last_hidden_state'):
        super().__init__()
        self.network, self.result = network, result

    def forward(self, x):
        return getattr(self.network(x), self.result)


class Clip(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, ids, pixels):
        return self.network(input_ids=ids, pixel_values=pixels).logits_per_image


class Detector(nn.Module):
    """torchvision's detectors take a list of images."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        found = self.network([x])
        found = found[1][0] if isinstance(found, tuple) else found[0]
        return found['boxes'], found['labels'], found['scores']


def conv(inputs, outputs, kernel=3, stride=1, groups=1, dilation=1, act=nn.ReLU):
    pad = dilation * (kernel - 1) // 2
    parts = [nn.Conv2d(inputs, outputs, kernel, stride, pad, dilation, groups, bias=False), nn.BatchNorm2d(outputs)]
    return nn.Sequential(*parts, *([act()] if act else []))


class Bottleneck(nn.Module):
    """Pointwise, depthwise with dilation, pointwise, and the input added."""

    def __init__(self, inputs, outputs, stride=1, dilation=1, widen=2):
        super().__init__()
        middle = inputs * widen
        self.add = stride == 1 and inputs == outputs
        self.parts = nn.Sequential(conv(inputs, middle, 1), conv(middle, middle, 3, stride, middle, dilation),
                                   conv(middle, outputs, 1, act=None))

    def forward(self, x):
        return x + self.parts(x) if self.add else self.parts(x)


class DilatedSegmenter(nn.Module):
    """Real-time segmentation: 8 to 80 channels, dilated depthwise layers, transposed convolutions at the end."""

    def __init__(self, classes=8):
        super().__init__()
        self.stem = nn.Sequential(conv(3, 8, 3, 2), Bottleneck(8, 16, 2), Bottleneck(16, 16))
        self.middle = nn.Sequential(Bottleneck(16, 40, 2), *[Bottleneck(40, 40, 1, d) for d in (1, 2, 4, 8)])
        self.deep = nn.Sequential(*[Bottleneck(40, 40, 1, d) for d in (2, 4, 8, 16)], conv(40, 80, 1))
        self.up1 = nn.Sequential(nn.ConvTranspose2d(80, 16, 2, 2, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.up2 = nn.Sequential(nn.ConvTranspose2d(16, 8, 3, 2, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.last = nn.ConvTranspose2d(8, classes, 2, 2)

    def forward(self, x):
        low = self.stem(x)
        return self.last(self.up2(self.up1(self.deep(self.middle(low))) + low))


class CurveEnhancer(nn.Module):
    """Curves of brightness for each pixel: seven convolutions of 32 channels, eight steps of arithmetic."""

    def __init__(self, width=32):
        super().__init__()
        sizes = [(3, width), (width, width), (width, width), (width, width), (2 * width, width), (2 * width, width),
                 (2 * width, 24)]
        self.convs = nn.ModuleList([nn.Conv2d(i, o, 3, padding=1) for i, o in sizes])

    def forward(self, x):
        c = self.convs
        x1 = F.relu(c[0](x))
        x2 = F.relu(c[1](x1))
        x3 = F.relu(c[2](x2))
        x4 = F.relu(c[3](x3))
        x5 = F.relu(c[4](torch.cat([x3, x4], 1)))
        x6 = F.relu(c[5](torch.cat([x2, x5], 1)))
        for r in torch.tanh(c[6](torch.cat([x1, x6], 1))).split(3, 1):
            x = x + r * (x * x - x)
        return x


class UnetEnhancer(nn.Module):
    """3 to 64 channels at full size, transposed convolutions of 2x2 and stride 2."""

    def __init__(self, widths=(8, 16, 32, 64)):
        super().__init__()
        self.down = nn.ModuleList()
        inputs = 3
        for width in widths:
            self.down.append(nn.Sequential(conv(inputs, width), conv(width, width)))
            inputs = width
        self.up = nn.ModuleList([nn.ConvTranspose2d(2 * w, w, 2, 2) for w in reversed(widths[:-1])])
        self.merge = nn.ModuleList([conv(2 * w, w) for w in reversed(widths[:-1])])
        self.last = nn.Conv2d(widths[0], 3, 1)

    def forward(self, x):
        kept, y = [], x
        for at, part in enumerate(self.down):
            y = part(y if at == 0 else F.max_pool2d(y, 2))
            kept.append(y)
        for up, merge, low in zip(self.up, self.merge, reversed(kept[:-1])):
            y = merge(torch.cat([up(y), low], 1))
        return torch.sigmoid(self.last(y) + x)


class Volumes(nn.Module):
    """A U-Net in three dimensions of few channels; `norm` makes the normalisation of a number of channels."""

    def __init__(self, norm, widths=(12, 24, 48), classes=3):
        super().__init__()

        def twice(inputs, outputs):
            return nn.Sequential(nn.Conv3d(inputs, outputs, 3, padding=1), norm(outputs), nn.ReLU(),
                                 nn.Conv3d(outputs, outputs, 3, padding=1), norm(outputs), nn.ReLU())
        self.down = nn.ModuleList([twice(i, o) for i, o in zip((1, *widths), widths)])
        turned = widths[::-1]
        self.up = nn.ModuleList([nn.ConvTranspose3d(i, o, 2, 2) for i, o in zip(turned, turned[1:])])
        self.merge = nn.ModuleList([twice(2 * width, width) for width in turned[1:]])
        self.last = nn.Conv3d(widths[0], classes, 1)

    def forward(self, x):
        kept = []
        for part in self.down:
            x = part(F.max_pool3d(x, 2) if kept else x)
            kept.append(x)
        for up, merge, low in zip(self.up, self.merge, kept[-2::-1]):
            x = merge(torch.cat([up(x), low], 1))
        return self.last(x)


class ResidualVolumes(nn.Module):
    """As V-Net: residual blocks of 5x5x5, convolutions and transposed ones of 2x2x2 between them, PReLU."""

    def __init__(self, widths=(8, 16, 32), classes=2):
        super().__init__()

        def layer(inputs, outputs, kernel=5, stride=1):
            return nn.Sequential(nn.Conv3d(inputs, outputs, kernel, stride, kernel // 2 if stride == 1 else 0),
                                 nn.BatchNorm3d(outputs), nn.PReLU(outputs))
        self.first = layer(1, widths[0])
        self.left = nn.ModuleList([layer(width, width) for width in widths])
        self.down = nn.ModuleList([layer(i, o, 2, 2) for i, o in zip(widths, widths[1:])])
        turned = widths[::-1]
        self.up = nn.ModuleList([nn.ConvTranspose3d(i, o, 2, 2) for i, o in zip(turned, turned[1:])])
        self.right = nn.ModuleList([layer(2 * width, width) for width in turned[1:]])
        self.last = nn.Conv3d(widths[0], classes, 1)

    def forward(self, x):
        x, kept = self.first(x), []
        for at, part in enumerate(self.left):
            x = x + part(x)
            if at < len(self.down):
                kept.append(x)
                x = self.down[at](x)
        for up, right, low in zip(self.up, self.right, reversed(kept)):
            x = up(x)
            x = x + right(torch.cat([x, low], 1))
        return self.last(x)


class SegNet(nn.Module):
    """Pools give their indices to the unpooling of the other half."""

    def __init__(self, widths=(16, 32, 64), classes=8):
        super().__init__()
        self.down = nn.ModuleList([conv(i, o) for i, o in zip((3, *widths), widths)])
        turned = widths[::-1]
        self.up = nn.ModuleList([conv(i, o) for i, o in zip(turned, (*turned[1:], classes))])

    def forward(self, x):
        places = []
        for part in self.down:
            x = part(x)
            places.append((x.shape, F.max_pool2d(x, 2, return_indices=True)[1]))
            x = F.max_pool2d(x, 2)
        for part, (shape, where) in zip(self.up, reversed(places)):
            x = part(F.max_unpool2d(x, where, 2, output_size=shape))
        return x


class SuperResolution(nn.Module):
    def __init__(self, width=32, scale=3):
        super().__init__()
        self.first = nn.Conv2d(3, width, 5, padding=2)
        self.body = nn.Sequential(*[nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.PReLU(width))
                                    for _ in range(4)])
        self.last = nn.Conv2d(width, 3 * scale * scale, 3, padding=1)
        self.scale = scale

    def forward(self, x):
        y = F.pixel_shuffle(self.last(self.body(F.leaky_relu(self.first(x), 0.1))), self.scale)
        return y + F.interpolate(x, scale_factor=self.scale, mode='bilinear', align_corners=False)


class CompactSuperResolution(nn.Module):
    """Plain convolutions, each with a PReLU, as SRVGG."""

    def __init__(self, width=64, depth=16, scale=4):
        super().__init__()
        layers = [nn.Conv2d(3, width, 3, padding=1), nn.PReLU(width)]
        for _ in range(depth):
            layers += [nn.Conv2d(width, width, 3, padding=1), nn.PReLU(width)]
        self.body = nn.Sequential(*layers, nn.Conv2d(width, 3 * scale * scale, 3, padding=1))
        self.scale = scale

    def forward(self, x):
        return F.pixel_shuffle(self.body(x), self.scale) + F.interpolate(x, scale_factor=self.scale, mode='nearest')


class FaceBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(nn.BatchNorm2d(inputs), nn.Conv2d(inputs, outputs, 3, 1, 1, bias=False),
                                  nn.BatchNorm2d(outputs), nn.PReLU(outputs),
                                  nn.Conv2d(outputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs))
        self.short = nn.Identity()
        if stride != 1:
            self.short = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return self.body(x) + self.short(x)


class FaceResNet(nn.Module):
    """The residual network of ArcFace: normalised first, with PReLU."""

    def __init__(self, widths=(64, 128, 256, 512), blocks=2, size=112, features=512):
        super().__init__()
        layers = [nn.Conv2d(3, widths[0], 3, 1, 1, bias=False), nn.BatchNorm2d(widths[0]), nn.PReLU(widths[0])]
        for inputs, outputs in zip((widths[0], *widths), widths):
            layers.append(FaceBlock(inputs, outputs, 2))
            layers += [FaceBlock(outputs, outputs, 1) for _ in range(blocks - 1)]
        self.body = nn.Sequential(*layers, nn.BatchNorm2d(widths[-1]), nn.Flatten())
        self.last = nn.Sequential(nn.Linear(widths[-1] * (size // 16) ** 2, features), nn.BatchNorm1d(features))

    def forward(self, x):
        return self.last(self.body(x))


class Recurrent(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer, self.head = layer, nn.Linear(256, 40)

    def forward(self, x):
        return self.head(self.layer(x)[0])


def Lstm():
    return Recurrent(nn.LSTM(80, 128, 2, batch_first=True, bidirectional=True))


def Gru():
    return Recurrent(nn.GRU(80, 256, 2, batch_first=True))
