#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small networks of further kinds, trained in FP32 on drawn images, unlike those of int8_nets.py and int8_more_nets.py.

A mask of one channel as logits (cuts), depth (depths), an image of twice the size (larger), several labels an image as
sigmoid (labels) and as logits (tags), an autoencoder whose error shows what is odd (odd), a detector of anchors with
undecoded boxes (anchors), and one of centre points: scores, sizes and offsets in three maps (centres). For
int8_kinds.py.

  bench/int8_other_nets.py FOLDER [cuts] [depths] [larger] [labels] [tags] [odd] [anchors] [centres]
"""

import json
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F
import torchvision
from int8_more_nets import KINDS_OF_BOXES, SIDE, Masks, Trunk, draw_boxes, draw_masks, export
from int8_nets import SHAPES, Block, background, colour, conv, drawn, noisy, outline, train, write
from PIL import Image, ImageDraw
from torch import nn


def draw_depths(random):
    """Shapes before a floor that rises into the distance, in mist: far things are grey and small."""
    far = np.repeat(np.linspace(1, 0.25, SIDE)[:, None], SIDE, 1)
    pixels, mist = np.asarray(background(SIDE, SIDE, random), float), random.uniform(150, 230)
    for distance in sorted(random.uniform(0.12, 0.95, random.integers(2, 7)), reverse=True):
        shape = SHAPES[int(random.integers(0, len(SHAPES)))]
        mask = Image.new("L", (SIDE, SIDE), 0)
        place = random.uniform(0, SIDE), SIDE * (1.1 - 0.75 * distance), 5 / distance, random.uniform(0, 6.28)
        ImageDraw.Draw(mask).polygon(outline(shape, *place), fill=1)
        is_there = np.asarray(mask) > 0
        pixels[is_there], far[is_there] = colour(random), distance
    share = (1 - np.exp(-1.6 * far))[..., None]
    return noisy(pixels * (1 - share) + mist * share, random, 4), np.round(far, 4).tolist()


def draw_larger(random):
    """Half the size, and what it was made from."""
    image = background(SIDE, SIDE, random)
    for _ in range(random.integers(3, 9)):
        shape = SHAPES[int(random.integers(0, len(SHAPES)))]
        place = random.uniform(0, SIDE), random.uniform(0, SIDE), random.uniform(4, 26), random.uniform(0, 6.28)
        ImageDraw.Draw(image).polygon(outline(shape, *place), fill=colour(random))
    large = noisy(image, random, 1.5)
    small = Image.fromarray(large).resize((SIDE // 2, SIDE // 2), Image.BICUBIC)
    return np.asarray(small), large.tolist()


def draw_labels(random):
    """Which of five shapes are there."""
    image, found = background(SIDE, SIDE, random), [0] * len(KINDS_OF_BOXES)
    for _ in range(random.integers(1, 4)):
        kind = int(random.integers(0, len(KINDS_OF_BOXES)))
        place = random.uniform(18, 78), random.uniform(18, 78), random.uniform(13, 26), random.uniform(0, 6.28)
        ImageDraw.Draw(image).polygon(outline(KINDS_OF_BOXES[kind], *place), fill=colour(random))
        found[kind] = 1
    return noisy(image, random, 8), found


def draw_odd(random, odd=None):
    """A woven pattern, and a scratch or a stain on every second one."""
    rows, columns = np.mgrid[0:64, 0:64]
    first, second, step = random.uniform(0, 6.28), random.uniform(0, 6.28), random.uniform(7, 9)
    weave = 90 + 50 * np.sin(columns * 6.28 / step + first) * np.sin(rows * 6.28 / step + second)
    pixels = np.stack([weave, weave * random.uniform(0.75, 0.85), weave * random.uniform(0.5, 0.6)], -1)
    image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
    odd = bool(random.random() < 0.5) if odd is None else odd
    if odd:
        x, y, angle, length = *random.uniform(10, 54, 2), random.uniform(0, 6.28), random.uniform(6, 14)
        pen, paint = ImageDraw.Draw(image, "RGBA"), (*colour(random), int(random.integers(90, 200)))
        pen.line((x, y, x + length * np.cos(angle), y + length * np.sin(angle)), fill=paint, width=2)
    return noisy(image, random, 5), int(odd)


class Cuts(Masks):
    """Logits, before the sigmoid."""

    def forward(self, x):
        return self.logits(x)


class Depths(Masks):
    def forward(self, x):
        return F.softplus(self.logits(x))


class Larger(nn.Module):
    """Residual blocks and pixels from channels."""

    def __init__(self, width=24):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, 1, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1))
            for _ in range(4)
        )
        self.last = nn.Sequential(nn.Conv2d(width, 12, 3, 1, 1), nn.PixelShuffle(2))

    def forward(self, x):
        seen = self.first(x)
        for block in self.blocks:
            seen = seen + block(seen)
        return self.last(seen) + F.interpolate(x, scale_factor=2.0, mode="nearest")


class Tags(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(Trunk(act=nn.ReLU, last=16), conv(96, 192, 1))
        self.head = nn.Linear(2 * 192, len(KINDS_OF_BOXES))

    def forward(self, x):
        x = self.body(x)
        return self.head(torch.cat([x.amax((2, 3)), x.mean((2, 3))], 1))


class Labels(Tags):
    def forward(self, x):
        return super().forward(x).sigmoid()


class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        down = [conv(3, 24, 3, 2), conv(24, 32, 3, 2), conv(32, 48, 3, 2), nn.Conv2d(48, 8, 1)]
        up = [conv(8, 48, 1)]
        for one, other in [(48, 32), (32, 24), (24, 16)]:
            up += [nn.ConvTranspose2d(one, other, 4, 2, 1), nn.ReLU()]
        self.body = nn.Sequential(*down, *up, nn.Conv2d(16, 3, 3, 1, 1), nn.Sigmoid())

    def forward(self, x):
        return self.body(x)


def anchor_table():
    """Centre and size in pixels: three shapes at two strides."""
    shapes = {8: [(14, 14), (22, 12), (12, 22)], 16: [(32, 32), (44, 24), (24, 44)]}
    return torch.tensor([(x * stride + stride / 2, y * stride + stride / 2, *size)
                         for stride, sizes in shapes.items() for y in range(SIDE // stride)
                         for x in range(SIDE // stride) for size in sizes], dtype=torch.float32)  # fmt: skip


class Anchors(nn.Module):
    """Logits of each anchor's classes, and offsets of its box, undecoded, as RetinaNet's."""

    def __init__(self):
        super().__init__()
        self.first = Trunk(act=nn.ReLU)
        self.second = Block(64, 96, 2, nn.ReLU, False)
        self.even = nn.ModuleList([conv(64, 64, 1), conv(96, 64, 1)])
        self.kinds = nn.Sequential(conv(64, 64), nn.Conv2d(64, 3 * len(KINDS_OF_BOXES), 1))
        self.sides = nn.Sequential(conv(64, 64), nn.Conv2d(64, 12, 1))
        nn.init.constant_(self.kinds[1].bias, -4)

    def forward(self, x):
        one = self.first(x)
        both = self.even[0](one), self.even[1](self.second(one))

        def rows(head, size):
            return torch.cat([head(f).permute(0, 2, 3, 1).reshape(len(x), -1, size) for f in both], 1)

        return rows(self.kinds, len(KINDS_OF_BOXES)), rows(self.sides, 4)


class Centres(nn.Module):
    """Likelihoods of centres at a quarter of the side, logarithms of sizes in cells, and offsets within a cell."""

    def __init__(self):
        super().__init__()
        up = [nn.ConvTranspose2d(64, 48, 4, 2, 1, bias=False), nn.BatchNorm2d(48), nn.ReLU()]
        self.body = nn.Sequential(Trunk(act=nn.ReLU), *up, conv(48, 48, 3))
        self.kinds = nn.Conv2d(48, len(KINDS_OF_BOXES), 1)
        self.sides, self.places = nn.Conv2d(48, 2, 1), nn.Conv2d(48, 2, 1)
        nn.init.constant_(self.kinds.bias, -4)

    def forward(self, x):
        x = self.body(x)
        return self.kinds(x).sigmoid(), self.sides(x), self.places(x)


def centres_loss(model, images, labels):
    """The focal loss of CenterNet (Zhou et al., 2019, Objects as Points), and absolute errors at the centres."""
    scores, sides, places = model(images)
    scores, cost, count = scores.clamp(1e-4, 1 - 1e-4), 0, sum(map(len, labels))
    wanted = torch.zeros_like(scores)
    rows, columns = torch.meshgrid(torch.arange(SIDE // 4), torch.arange(SIDE // 4), indexing="ij")
    for at, objects in enumerate(labels):
        for kind, (left, top, right, bottom) in objects:
            x, y, wide, high = (left + right) / 8, (top + bottom) / 8, (right - left) / 4, (bottom - top) / 4
            column, row = min(int(x), SIDE // 4 - 1), min(int(y), SIDE // 4 - 1)
            far = ((columns - column) / wide) ** 2 + ((rows - row) / high) ** 2
            wanted[at, kind] = torch.maximum(wanted[at, kind], (-far * 18).exp())
            own = torch.tensor([np.log(wide), np.log(high)]), torch.tensor([x - column, y - row])
            cost = cost + (sides[at, :, row, column] - own[0]).abs().sum()
            cost = cost + (places[at, :, row, column] - own[1]).abs().sum()
    is_centre = wanted == 1
    found = ((1 - scores) ** 2 * scores.log())[is_centre].sum()
    empty = ((1 - wanted) ** 4 * scores**2 * (1 - scores).log())[~is_centre].sum()
    return (cost - found - empty) / max(count, 1)


def boxes_of(offsets):
    table = anchor_table()
    centre = table[:, :2] + offsets[..., :2] * table[:, 2:]
    size = table[:, 2:] * offsets[..., 2:].clamp(max=3).exp()
    return torch.cat([centre - size / 2, centre + size / 2], -1)


def anchors_loss(model, images, labels):
    scores, offsets = model(images)
    boxes, table = boxes_of(offsets), boxes_of(torch.zeros(1, len(anchor_table()), 4))[0]
    target, cost, count = torch.zeros_like(scores), 0, 0
    for at, objects in enumerate(labels):
        wanted = torch.tensor([box for _, box in objects]).reshape(-1, 4)
        shared, thing = torchvision.ops.box_iou(table, wanted).max(1)
        taken = shared > 0.45
        best = torchvision.ops.box_iou(table, wanted).argmax(0)
        taken[best], thing[best] = True, torch.arange(len(wanted))
        own = torch.tensor([kind for kind, _ in objects])
        target[at, taken, own[thing[taken]]] = 1
        cost = cost + torchvision.ops.generalized_box_iou_loss(boxes[at, taken], wanted[thing[taken]], reduction="sum")
        count += int(taken.sum())
    focal = torchvision.ops.sigmoid_focal_loss(scores, target, alpha=0.5, reduction="sum")
    return (focal + 2 * cost) / count


def cuts_loss(model, images, labels):
    return F.binary_cross_entropy_with_logits(model(images)[:, 0], torch.tensor(labels).float())


def depths_loss(model, images, labels):
    return (model(images)[:, 0].clamp(1e-3).log() - torch.tensor(labels).log()).abs().mean()


def larger_loss(model, images, labels):
    wanted = torch.tensor(np.array(labels, np.float32)).permute(0, 3, 1, 2) / 255
    return (model(images) - wanted).abs().mean()


def tags_loss(model, images, labels):
    return F.binary_cross_entropy_with_logits(Tags.forward(model, images), torch.tensor(labels).float())


def odd_loss(model, images, labels):
    return 100 * F.mse_loss(model(images), images)


KINDS = {
    "cuts": (draw_masks, Cuts, cuts_loss, 400, 12, 300, 2000),
    "depths": (draw_depths, Depths, depths_loss, 400, 12, 300, 2000),
    "larger": (draw_larger, Larger, larger_loss, 300, 8, 200, 800),
    "labels": (draw_labels, Labels, tags_loss, 900, 32, 1000, 6000),
    "tags": (draw_labels, Tags, tags_loss, 900, 32, 1000, 6000),
    "odd": (draw_odd, Odd, odd_loss, 800, 16, 1000, 3000),
    "anchors": (draw_boxes, Anchors, anchors_loss, 700, 24, 600, 5000),
    "centres": (draw_boxes, Centres, centres_loss, 700, 24, 600, 5000),
}


def make(kind, folder):
    torch.manual_seed(0)
    draw, network, loss, steps, batch, count, trained_on = KINDS[kind]
    is_odd = kind == "odd"  # it learns from good ones alone
    good = (lambda random: draw_odd(random, False)) if is_odd else draw
    write(folder, "calib", [image for image, _ in drawn(good, 80, 2)])
    images, labels = zip(*drawn(draw, count, 3))
    model = train(network(), drawn(good, trained_on, 1), steps, batch, loss)
    write(folder, "val", images)
    (folder / "labels.json").write_text(json.dumps(labels))
    export(model, images[0], f"{folder}.onnx")


def main():
    torch.set_num_threads(1)
    for kind in sys.argv[2:] or KINDS:
        make(kind, pathlib.Path(sys.argv[1]) / kind)


if __name__ == "__main__":
    main()
