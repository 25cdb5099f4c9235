#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""More small networks trained in FP32 on drawn images, unlike those of int8_nets.py, for int8_kinds.py.

Key points as heat maps (joints), as their logits (dots), as one axis each (axes) and as coordinates (places); a
detector with raw heads (boxes) and with NMS inside (found, the same weights); an embedding of unit length (faces);
digits by a recurrent network (lines); a mask of one channel by a U-Net (masks); a classifier of SiLU, gates and
depthwise layers (objects).

  bench/int8_more_nets.py FOLDER [joints] [dots] [axes] [places] [boxes] [found] [faces] [lines] [masks] [objects]
"""

import json
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F
import torchvision
from int8_nets import (
    Block,
    background,
    classes_loss,
    colour,
    conv,
    draw_classes,
    draw_person,
    draw_texts,
    drawn,
    noisy,
    outline,
    persons_loss,
    SHAPES,
    tensor,
    train,
    write,
)
from PIL import Image, ImageDraw
from torch import nn

SIDE, JOINTS, BINS = 96, 7, 192
KINDS_OF_BOXES = ["triangle", "star", "disc", "bar", "cross"]


def draw_joints(random):
    """A figure whose left limbs are reddish and right ones bluish: head, neck, hips, hands and feet."""
    image = background(SIDE, SIDE, random)
    pen = ImageDraw.Draw(image)
    size, tilt = random.uniform(0.7, 1.15), random.uniform(-0.5, 0.5)

    def away(point, angle, length):
        return point[0] + length * size * np.sin(angle), point[1] + length * size * np.cos(angle)

    neck = SIDE / 2 + random.uniform(-14, 14), SIDE / 2 - 10 + random.uniform(-10, 10)
    hips, head = away(neck, tilt, 24), away(neck, tilt + np.pi + random.uniform(-0.3, 0.3), 11)
    arms = random.uniform(0.2, 2.4, 2) * (-1, 1) + tilt
    legs = random.uniform(0.05, 0.9, 2) * (-1, 1) + tilt
    points = [head, neck, hips, *(away(neck, angle, 22) for angle in arms), *(away(hips, angle, 27) for angle in legs)]
    red = tuple(int(v) for v in random.uniform((150, 0, 0), (255, 90, 90)))
    blue = tuple(int(v) for v in random.uniform((0, 0, 150), (90, 90, 255)))
    trunk, width = colour(random), int(random.integers(3, 6))
    pen.line([*neck, *hips], fill=trunk, width=width + 2)
    for start, end, paint in [(1, 3, red), (1, 4, blue), (2, 5, red), (2, 6, blue)]:
        pen.line([*points[start], *points[end]], fill=paint, width=width)
    radius = 6 * size
    pen.ellipse((head[0] - radius, head[1] - radius, head[0] + radius, head[1] + radius), fill=trunk)
    return noisy(image, random, 8), np.array(points).clip(0, SIDE - 1).tolist()


def draw_boxes(random):
    image, found = background(SIDE, SIDE, random), []
    for _ in range(random.integers(1, 5)):
        kind = int(random.integers(0, len(KINDS_OF_BOXES)))
        place = random.uniform(14, SIDE - 14), random.uniform(14, SIDE - 14), random.uniform(7, 24)
        points = np.array(outline(KINDS_OF_BOXES[kind], *place, random.uniform(0, 6.28)))
        box = [*points.min(0).clip(0, SIDE), *points.max(0).clip(0, SIDE)]
        if any(min(box[2], b[2]) > max(box[0], b[0]) and min(box[3], b[3]) > max(box[1], b[1]) for _, b in found):
            continue
        ImageDraw.Draw(image).polygon([tuple(p) for p in points], fill=colour(random))
        found.append((kind, [float(v) for v in box]))
    return noisy(image, random, 10), found


def draw_masks(random):
    """Stars are to be found, other shapes not."""
    image, mask = background(SIDE, SIDE, random), Image.new("L", (SIDE, SIDE), 0)
    for _ in range(random.integers(2, 6)):
        star = random.random() < 0.5
        shape = "star" if star else SHAPES[int(random.integers(0, 4))]
        place = random.uniform(5, 91), random.uniform(5, 91), random.uniform(10, 26), random.uniform(0, 6.28)
        ImageDraw.Draw(image).polygon(outline(shape, *place), fill=colour(random))
        ImageDraw.Draw(mask).polygon(outline(shape, *place), fill=int(star))
    return noisy(image, random, 10), np.asarray(mask, np.int64).tolist()


class Silu(Block):
    def __init__(self, *sizes):
        super().__init__(*sizes, act=nn.SiLU)


class Trunk(nn.Sequential):
    """To an eighth of the side, or a sixteenth."""

    def __init__(self, act=nn.ReLU6, last=8):
        sizes = [(24, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 64, 1)]
        sizes += [(64, 96, 2), (96, 96, 1)] if last == 16 else []
        super().__init__(conv(3, 24, 3, 2, act=act), *[Block(*one, act=act, gated=False) for one in sizes])


class Joints(nn.Module):
    """Heat maps at a quarter of the side, by deconvolutions."""

    def __init__(self):
        super().__init__()
        up = [nn.ConvTranspose2d(96, 48, 4, 2, 1, bias=False), nn.BatchNorm2d(48), nn.ReLU()]
        again = [nn.ConvTranspose2d(48, 48, 4, 2, 1, bias=False), nn.BatchNorm2d(48), nn.ReLU()]
        self.body = nn.Sequential(Trunk(last=16), *up, *again, nn.Conv2d(48, JOINTS, 1))

    def forward(self, x):
        return self.body(x)


class Axes(nn.Module):
    """Scores of each column and each row for each point."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(Trunk(act=nn.SiLU), conv(64, JOINTS * 2, 1, act=nn.SiLU))
        self.heads = nn.ModuleList([nn.Linear(2 * 144, BINS) for _ in "xy"])

    def forward(self, x):
        x = self.body(x).reshape(-1, JOINTS, 2 * 144)
        return tuple(head(x) for head in self.heads)


class Places(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(Trunk(act=nn.Hardswish, last=16), conv(96, 32, 1, act=nn.Hardswish), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(32 * 36, 128), nn.ReLU(), nn.Linear(128, 2 * JOINTS))

    def forward(self, x):
        return self.head(self.body(x)).sigmoid()


class Boxes(nn.Module):
    """Scores, and distances to the four sides in strides, at two strides."""

    strides = (8, 16)

    def __init__(self):
        super().__init__()
        self.first = Trunk(act=nn.SiLU)
        self.second = nn.Sequential(Block(64, 96, 2, nn.SiLU, False), Block(96, 96, 1, nn.SiLU, False))
        self.even = nn.ModuleList([conv(64, 64, 1, act=nn.SiLU), conv(96, 64, 1, act=nn.SiLU)])
        kinds = len(KINDS_OF_BOXES)

        def towers(size):
            return nn.ModuleList(
                nn.Sequential(conv(64, 64, act=nn.SiLU), nn.Conv2d(64, size, 1)) for _ in self.strides
            )

        self.scores, self.sides = towers(kinds), towers(4)
        for tower in self.scores:
            nn.init.constant_(tower[1].bias, -4)

    def forward(self, x):
        one = self.first(x)
        other = self.even[1](self.second(one))
        one = self.even[0](one) + F.interpolate(other, scale_factor=2.0, mode="nearest")
        both = (one, other)
        return (*(f(x) for f, x in zip(self.scores, both)), *(f(x) for f, x in zip(self.sides, both)))


def decoded(outputs):
    """Scores and boxes of all places."""
    scores, boxes = [], []
    for stride, score, side in zip(Boxes.strides, outputs[:2], outputs[2:]):
        count = score.shape[-1]
        at = (torch.arange(count, dtype=torch.float32) + 0.5) * stride
        x, y = at.view(1, 1, -1), at.view(1, -1, 1)
        left, up, right, down = (F.softplus(side) * stride).unbind(1)
        boxes.append(torch.stack([x - left, y - up, x + right, y + down], -1).reshape(len(score), -1, 4))
        scores.append(score.flatten(2).transpose(1, 2))
    return torch.cat(scores, 1), torch.cat(boxes, 1)


class Found(nn.Module):
    """The same with NMS inside, for one image."""

    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, x):
        scores, boxes = (one[0] for one in decoded(self.heads(x)))
        best, kind = scores.sigmoid().max(1)
        kept = torchvision.ops.nms(boxes + kind[:, None] * 200, best, 0.5)[:50]
        return boxes[kept], best[kept], kind[kept]


def wanted_boxes(labels):
    """The class of each place, or none, and its box; larger objects are the second stride's."""
    places = [(stride, (j + 0.5) * stride, (i + 0.5) * stride)
              for stride in Boxes.strides for i in range(SIDE // stride) for j in range(SIDE // stride)]  # fmt: skip
    table = torch.tensor(places)
    kinds, boxes = torch.full((len(labels), len(places)), -1), torch.zeros(len(labels), len(places), 4)
    for at, objects in enumerate(labels):
        for kind, box in objects:
            stride = Boxes.strides[max(box[2] - box[0], box[3] - box[1]) > 28]
            near = (table[:, 1] - (box[0] + box[2]) / 2).abs() < stride * 0.8
            near &= ((table[:, 2] - (box[1] + box[3]) / 2).abs() < stride * 0.8) & (table[:, 0] == stride)
            kinds[at, near], boxes[at, near] = kind, torch.tensor(box)
    return kinds, boxes


def boxes_loss(model, images, labels):
    scores, boxes = decoded(model(images))
    kinds, wanted = wanted_boxes(labels)
    is_there = kinds >= 0
    target = F.one_hot(kinds.clamp(min=0), scores.shape[-1]) * is_there[..., None].float()
    cost = torchvision.ops.sigmoid_focal_loss(scores, target, alpha=0.5, reduction="sum")
    sides = torchvision.ops.generalized_box_iou_loss(boxes[is_there], wanted[is_there], reduction="sum")
    return (cost + 2 * sides) / is_there.sum().clamp(min=1)


class Faces(nn.Module):
    """Residual layers with PReLU, as ArcFace's, and unit length."""

    def __init__(self):
        super().__init__()

        class Residual(nn.Module):
            def __init__(self, inputs, outputs):
                super().__init__()
                self.body = nn.Sequential(nn.BatchNorm2d(inputs), conv(inputs, outputs, act=None), nn.PReLU(outputs),
                                          conv(outputs, outputs, 3, 2, act=None))  # fmt: skip
                self.past = conv(inputs, outputs, 1, 2, act=None)

            def forward(self, x):
                return self.body(x) + self.past(x)

        sizes = [(16, 24), (24, 48), (48, 64)]
        self.body = nn.Sequential(conv(3, 16, 3, 2, act=None), nn.PReLU(16), *[Residual(*one) for one in sizes])
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(64 * 8 * 4, 96), nn.BatchNorm1d(96))

    def forward(self, x):
        return F.normalize(self.head(self.body(x)), dim=1)


class Lines(nn.Module):
    """Time in front, logarithms of shares, as CRNN gives them."""

    def __init__(self):
        super().__init__()
        pools = [nn.MaxPool2d(2), nn.MaxPool2d(2), nn.MaxPool2d((2, 1)), nn.MaxPool2d((2, 1))]
        self.body = nn.Sequential(conv(3, 16), pools[0], conv(16, 32), pools[1], conv(32, 64), pools[2],
                                  conv(64, 64), pools[3])  # fmt: skip
        self.along = nn.LSTM(128, 64, bidirectional=True)
        self.head = nn.Linear(128, 11)

    def forward(self, x):
        x = self.body(x).flatten(1, 2).permute(2, 0, 1)
        return self.head(self.along(x)[0]).log_softmax(2)


def lines_loss(model, images, labels):
    scores = model(images)
    wanted = torch.tensor([int(digit) + 1 for text in labels for digit in text])
    steps = torch.full((len(labels),), len(scores))
    return F.ctc_loss(scores, wanted, steps, torch.tensor([len(text) for text in labels]))


class Masks(nn.Module):
    """A U-Net with deconvolutions, pools and sigmoid."""

    def __init__(self, width=8):
        super().__init__()
        sizes = [width, 2 * width, 4 * width, 6 * width]
        self.down = nn.ModuleList(nn.Sequential(conv(a, b), conv(b, b)) for a, b in zip([3, *sizes], sizes))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(sizes, sizes[1:]))
        self.join = nn.ModuleList(conv(2 * a, a) for a in sizes[:-1])
        self.head = nn.Conv2d(width, 1, 1)

    def logits(self, x):
        seen = []
        for part in self.down:
            x = part(F.max_pool2d(x, 2) if seen else x)
            seen.append(x)
        for at in (2, 1, 0):
            x = self.join[at](torch.cat([seen[at], self.up[at](x)], 1))
        return self.head(x)

    def forward(self, x):
        return self.logits(x).sigmoid()


class Objects(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = [(16, 24, 2), (24, 24, 1), (24, 48, 2), (48, 48, 1), (48, 80, 2), (80, 80, 1)]
        parts = [conv(3, 16, 3, 2, act=nn.SiLU), *[Silu(*one) for one in sizes], conv(80, 256, 1, act=nn.SiLU)]
        self.body = nn.Sequential(*parts)
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(256, len(SHAPES)))

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def maps(labels, size):
    points, at = torch.tensor(labels) * size / SIDE, torch.arange(size) + 0.5
    x, y = (torch.exp(-((at - points[..., axis : axis + 1]) ** 2) / 3) for axis in (0, 1))
    return y[..., :, None] * x[..., None, :]


def joints_loss(model, images, labels):
    found = model(images)
    wanted = maps(labels, found.shape[-1])
    return 10 * ((found - wanted) ** 2 * (1 + 10 * wanted)).mean()


def dots_loss(model, images, labels):
    found = model(images)
    wanted = maps(labels, found.shape[-1])
    return 100 * F.binary_cross_entropy_with_logits(found, wanted, 1 + 10 * wanted)


def axes_loss(model, images, labels):
    points, at, cost = torch.tensor(labels), (torch.arange(BINS) + 0.5) * SIDE / BINS, 0
    for axis, found in enumerate(model(images)):
        wanted = torch.exp(-((at - points[..., axis : axis + 1]) ** 2) / 4)
        cost = cost - (wanted / wanted.sum(-1, keepdim=True) * found.log_softmax(-1)).sum(-1).mean()
    return cost


def places_loss(model, images, labels):
    return 50 * (model(images) - torch.tensor(labels).flatten(1) / SIDE).abs().mean()


def masks_loss(model, images, labels):
    found, wanted = model(images)[:, 0].clamp(1e-6, 1 - 1e-6), torch.tensor(labels).float()
    return F.binary_cross_entropy(found, wanted)


KINDS = {
    "joints": (draw_joints, Joints, joints_loss, 900, 32, 1000),
    "dots": (draw_joints, Joints, dots_loss, 700, 32, 1000),
    "axes": (draw_joints, Axes, axes_loss, 900, 32, 1000),
    "places": (draw_joints, Places, places_loss, 900, 32, 1000),
    "boxes": (draw_boxes, Boxes, boxes_loss, 900, 32, 1000),
    "lines": (draw_texts, Lines, lines_loss, 900, 32, 1000),
    "masks": (draw_masks, Masks, masks_loss, 500, 12, 500),
    "objects": (draw_classes, Objects, classes_loss, 1200, 64, 2000),
}


def make_faces(folder, people=120, views=30):
    random = np.random.default_rng(1)
    data = [(draw_person(random, person), person) for person in range(people) for _ in range(views)]
    write(folder, "calib", [draw_person(np.random.default_rng(7 + at), 500 + at) for at in range(80)])
    labels = [person for person in range(150) for _ in range(4)]
    images = [draw_person(np.random.default_rng(90_000 + at), 1000 + person) for at, person in enumerate(labels)]
    both = nn.ModuleList([Faces(), nn.Linear(96, people, bias=False)])
    return train(both, data, 400, 32, persons_loss)[0], images, labels


def export(model, image, path):
    names = {"input_names": ["images"], "opset_version": 17, "dynamo": False}
    torch.onnx.export(model, (tensor([image]),), path, **names)


def make(kind, folder):
    torch.manual_seed(0)
    if kind == "faces":
        model, images, labels = make_faces(folder)
    else:
        draw, network, loss, steps, batch, count = KINDS[kind]
        write(folder, "calib", [image for image, _ in drawn(draw, 80, 2)])
        images, labels = zip(*drawn(draw, count, 3))
        model = train(network(), drawn(draw, 6000, 1), steps, batch, loss)
    for one in [kind, "found"] if kind == "boxes" else [kind]:
        (folder.parent / one).mkdir(exist_ok=True)
        write(folder.parent / one, "val", images)
        (folder.parent / one / "labels.json").write_text(json.dumps(labels))
        export(Found(model).eval() if one == "found" else model, images[0], f"{folder.parent / one}.onnx")
    if kind == "boxes":
        write(folder.parent / "found", "calib", [image for image, _ in drawn(draw_boxes, 80, 2)])


def main():
    torch.set_num_threads(1)
    for kind in sys.argv[2:] or [*KINDS, "faces"]:
        make(kind, pathlib.Path(sys.argv[1]) / kind)


if __name__ == "__main__":
    main()
