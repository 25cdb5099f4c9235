#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small networks of several kinds, trained in FP32 on drawn images, for what INT8 loses by labels (int8_kinds.py).

Writes KIND.onnx and, in KIND/, 80 images to calibrate on (calib), others to judge by (val) and labels.json. Needs
PyTorch; a kind takes some minutes on one core.

  bench/int8_nets.py FOLDER [classes] [segments] [texts] [persons]
"""

import json
import math
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFont
from torch import nn

SHAPES = ["triangle", "square", "pentagon", "hexagon", "star", "cross", "arrow", "moon", "disc", "bar"]
CORNERS = {"triangle": 3, "square": 4, "pentagon": 5, "hexagon": 6, "disc": 24}
OUTLINES = {
    "cross": [(-0.3, -1), (0.3, -1), (0.3, -0.3), (1, -0.3), (1, 0.3), (0.3, 0.3)]
    + [(0.3, 1), (-0.3, 1), (-0.3, 0.3), (-1, 0.3), (-1, -0.3), (-0.3, -0.3)],
    "arrow": [(-1, -0.3), (0.1, -0.3), (0.1, -0.8), (1, 0), (0.1, 0.8), (0.1, 0.3), (-1, 0.3)],
    "bar": [(-1, -0.25), (1, -0.25), (1, 0.25), (-1, 0.25)],
    "moon": [(math.cos(t), math.sin(t)) for t in np.linspace(0.6, 5.7, 20)]
    + [(0.5 + 0.8 * math.cos(t), 0.8 * math.sin(t)) for t in np.linspace(5.3, 0.98, 16)],
    "star": [((1, 0.42)[i % 2] * math.cos(math.pi * i / 5), (1, 0.42)[i % 2] * math.sin(math.pi * i / 5))
             for i in range(10)],
}  # fmt: skip


def outline(shape, x, y, size, angle):
    count = CORNERS.get(shape, 0)
    points = OUTLINES.get(shape) or [
        (math.cos(2 * math.pi * i / count), math.sin(2 * math.pi * i / count)) for i in range(count)
    ]
    c, s = math.cos(angle), math.sin(angle)
    return [(x + size * (u * c - v * s), y + size * (u * s + v * c)) for u, v in points]


def colour(random):
    return tuple(int(v) for v in random.integers(0, 256, 3))


def background(width, height, random):
    """A slope between two colours, with blotches."""
    one, other = random.integers(0, 256, 3), random.integers(0, 256, 3)
    angle = random.random() * 2 * math.pi
    rows, columns = np.mgrid[0:height, 0:width]
    slope = np.cos(angle) * columns / width + np.sin(angle) * rows / height
    slope = ((slope - slope.min()) / (np.ptp(slope) + 1e-6))[..., None]
    cell = random.integers(2, 10)
    blotches = random.normal(128, 54, (max(height // cell, 2), max(width // cell, 2), 3)).clip(0, 255)
    blotches = np.asarray(Image.fromarray(blotches.astype(np.uint8)).resize((width, height)), float) / 3 - 43
    return Image.fromarray((one * (1 - slope) + other * slope + blotches).clip(0, 255).astype(np.uint8))


def noisy(image, random, level):
    pixels = np.asarray(image, float)
    return (pixels + random.normal(0, level, pixels.shape)).clip(0, 255).astype(np.uint8)


def draw_classes(random):
    image = background(64, 64, random)
    pen = ImageDraw.Draw(image)
    for _ in range(random.integers(0, 4)):
        x, y, dx, dy = (int(v) for v in [*random.integers(0, 64, 2), *random.integers(-20, 20, 2)])
        pen.line((x, y, x + dx, y + dy), fill=colour(random), width=int(random.integers(1, 3)))
    shape = int(random.integers(0, len(SHAPES)))
    place = (32 + random.uniform(-10, 10), 32 + random.uniform(-10, 10), random.uniform(8, 26), random.uniform(0, 6.28))
    pen.polygon(outline(SHAPES[shape], *place), fill=colour(random))
    return noisy(image, random, 14), shape


def draw_segments(random):
    image, mask = background(96, 96, random), Image.new("L", (96, 96), 0)
    for _ in range(random.integers(1, 6)):
        shape = int(random.integers(0, 4))
        place = (random.uniform(5, 91), random.uniform(5, 91), random.uniform(8, 26), random.uniform(0, 6.28))
        points = outline(["triangle", "star", "disc", "bar"][shape], *place)
        ImageDraw.Draw(image).polygon(points, fill=colour(random))
        ImageDraw.Draw(mask).polygon(points, fill=shape + 1)
    return noisy(image, random, 10), np.asarray(mask, np.int64).tolist()


def draw_texts(random):
    image = background(128, 32, random)
    mean, ink = np.asarray(image, float).mean(), colour(random)
    while abs(sum(ink) / 3 - mean) < 50:
        ink = colour(random)
    text = "".join(str(digit) for digit in random.integers(0, 10, random.integers(3, 8)))
    x = random.uniform(3, 12)
    for digit in text:
        font = ImageFont.load_default(size=int(random.integers(15, 23)))
        ImageDraw.Draw(image).text((x, random.uniform(1, 8)), digit, font=font, fill=ink)
        x += random.uniform(11, 15)
    return noisy(image, random, 12), text


def draw_person(random, person):
    """Clothes are the person's; place, light and background vary."""
    own = np.random.default_rng(person + 10_000)
    image = background(64, 128, random)
    pen = ImageDraw.Draw(image)
    top, trousers, shoes, hair, mark = (own.integers(0, 256, 3) for _ in range(5))
    pattern, width, light = int(own.integers(0, 3)), own.uniform(9, 15), random.uniform(0.75, 1.25)

    def lit(paint):
        return tuple(int(v) for v in (paint * light + random.normal(0, 10, 3)).clip(0, 255))

    x, y, size = 32 + random.uniform(-6, 6), random.uniform(-4, 6), random.uniform(0.85, 1.1)
    head, chest, hips, feet = y + 10, y + 10 + 16 * size, y + 10 + 55 * size, y + 10 + 98 * size
    width *= size
    pen.ellipse((x - 7 * size, head, x + 7 * size, chest), fill=lit(np.array([200, 160, 130])))
    pen.pieslice((x - 7 * size, head - 1, x + 7 * size, chest - 1), 180, 360, fill=lit(hair))
    pen.rectangle((x - width, chest, x + width, hips), fill=lit(top))
    if pattern == 1:
        for row in np.arange(chest + 3, hips - 3, 8 * size):
            pen.rectangle((x - width, row, x + width, row + 3), fill=lit(mark))
    if pattern == 2:
        pen.rectangle((x - 4 * size, chest + 6, x + 4 * size, chest + 18), fill=lit(mark))
    pen.rectangle((x - width * 0.8, hips, x - 1, feet), fill=lit(trousers))
    pen.rectangle((x + 1, hips, x + width * 0.8, feet), fill=lit(trousers))
    pen.rectangle((x - width, feet, x + width, feet + 5), fill=lit(shoes))
    return noisy(image, random, 10)


def conv(inputs, outputs, size=3, stride=1, groups=1, act=nn.ReLU):
    layer = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), *([act()] if act else []))


class Gate(nn.Module):
    def __init__(self, channels):
        super().__init__()
        few = max(channels // 4, 8)
        ends = nn.Conv2d(channels, few, 1), nn.Conv2d(few, channels, 1)
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), ends[0], nn.ReLU(), ends[1], nn.Hardsigmoid())

    def forward(self, x):
        return x * self.gate(x)


class Block(nn.Module):
    """Expand, depthwise, project, as MobileNet's."""

    def __init__(self, inputs, outputs, stride=1, act=nn.Hardswish, gated=True):
        super().__init__()
        wide = inputs * 4
        self.adds = stride == 1 and inputs == outputs
        parts = [conv(inputs, wide, 1, act=act), conv(wide, wide, 3, stride, wide, act)]
        self.body = nn.Sequential(*parts, *([Gate(wide)] if gated else []), conv(wide, outputs, 1, act=None))

    def forward(self, x):
        return x + self.body(x) if self.adds else self.body(x)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = [(16, 24, 2), (24, 24, 1), (24, 48, 2), (48, 48, 1), (48, 96, 2), (96, 96, 1)]
        blocks = [Block(*one) for one in sizes]
        act = nn.Hardswish
        self.body = nn.Sequential(conv(3, 16, 3, 2, act=act), *blocks, conv(96, 256, 1, act=act))
        self.head = nn.Linear(256, len(SHAPES))

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class Segmenter(nn.Module):
    """A U of three halvings."""

    def __init__(self, classes=5, width=8):
        super().__init__()
        sizes = [width, 2 * width, 4 * width, 6 * width]
        self.down = nn.ModuleList()
        for at, size in enumerate(sizes):
            first = conv(sizes[at - 1], size, 3, 2) if at else conv(3, size)
            self.down.append(nn.Sequential(first, conv(size, size)))
        self.up = nn.ModuleList([conv(sizes[at] + sizes[at + 1], sizes[at]) for at in (2, 1, 0)])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        seen = []
        for part in self.down:
            x = part(x)
            seen.append(x)
        for part, skipped in zip(self.up, seen[-2::-1]):
            x = part(torch.cat([F.interpolate(x, scale_factor=2.0, mode="nearest"), skipped], 1))
        return self.head(x)


class Reader(nn.Module):
    """Digits along a line, as CTC reads them: 32 steps of a blank and ten digits."""

    def __init__(self):
        super().__init__()
        pools = [nn.MaxPool2d(2), nn.MaxPool2d(2), nn.MaxPool2d((2, 1)), nn.MaxPool2d((2, 1))]
        self.body = nn.Sequential(
            *[conv(3, 24), pools[0], conv(24, 48), pools[1], conv(48, 96), conv(96, 96), pools[2]],
            *[conv(96, 128), pools[3]],
        )
        self.along = nn.Sequential(nn.Conv1d(256, 128, 3, padding=1), nn.ReLU(), nn.Conv1d(128, 128, 5, padding=2))
        self.head = nn.Linear(128, 11)

    def forward(self, x):
        x = self.body(x).flatten(1, 2)
        return self.head(F.relu(self.along(x)).transpose(1, 2))


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = [(24, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 96, 2)]
        blocks = [Block(*one, act=nn.ReLU, gated=False) for one in sizes]
        self.body = nn.Sequential(conv(3, 24, 3, 2), *blocks, conv(96, 192, 1))
        self.head = nn.Sequential(nn.Linear(192, 128), nn.BatchNorm1d(128))

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def tensor(images):
    return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float() / 255


def train(model, data, steps, batch, loss, rate=3e-3):
    random = np.random.default_rng(5)
    optimiser = torch.optim.AdamW(model.parameters(), rate, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps)
    model.train()
    for step in range(steps):
        picked = [data[at] for at in random.integers(0, len(data), batch)]
        cost = loss(model, tensor([image for image, _ in picked]), [label for _, label in picked])
        optimiser.zero_grad()
        cost.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5)
        optimiser.step()
        schedule.step()
        if step % 50 == 0:
            print(f"step {step} of {steps}: {cost.item():.3f}", flush=True)
    return model.eval()


def classes_loss(model, images, labels):
    return F.cross_entropy(model(images), torch.tensor(labels))


def texts_loss(model, images, labels):
    scores = model(images).log_softmax(2).transpose(0, 1)
    wanted = torch.tensor([int(digit) + 1 for text in labels for digit in text])
    steps = torch.full((len(labels),), len(scores))
    return F.ctc_loss(scores, wanted, steps, torch.tensor([len(text) for text in labels]))


def persons_loss(both, images, labels):
    found = F.normalize(both[0](images), dim=1) @ F.normalize(both[1].weight, dim=1).T
    labels = torch.tensor(labels)
    return F.cross_entropy(16 * (found - 0.2 * F.one_hot(labels, found.shape[1])), labels)


KINDS = {
    "classes": (draw_classes, Classifier, classes_loss, 900, 64),
    "segments": (draw_segments, Segmenter, classes_loss, 350, 12),
    "texts": (draw_texts, Reader, texts_loss, 700, 32),
}


def drawn(draw, count, seed):
    random = np.random.default_rng(seed)
    return [draw(random) for _ in range(count)]


def write(folder, part, images):
    (folder / part).mkdir(parents=True, exist_ok=True)
    for at, image in enumerate(images):
        Image.fromarray(image).save(folder / part / f"{at:04d}.png")


def make_persons(folder, people=120, views=30):
    """Others than those trained on are calibrated on, and yet others judged by."""
    random = np.random.default_rng(1)
    data = [(draw_person(random, person), person) for person in range(people) for _ in range(views)]
    write(folder, "calib", [draw_person(np.random.default_rng(7 + at), 500 + at) for at in range(80)])
    labels = [person for person in range(150) for _ in range(4)]
    images = [draw_person(np.random.default_rng(90_000 + at), 1000 + person) for at, person in enumerate(labels)]
    both = nn.ModuleList([Embedder(), nn.Linear(128, people, bias=False)])
    return train(both, data, 300, 32, persons_loss)[0], images, labels


def make(kind, folder):
    torch.manual_seed(0)
    if kind == "persons":
        model, images, labels = make_persons(folder)
    else:
        draw, network, loss, steps, batch = KINDS[kind]
        write(folder, "calib", [image for image, _ in drawn(draw, 80, 2)])
        images, labels = zip(*drawn(draw, 1000, 3))
        model = train(network(), drawn(draw, 6000, 1), steps, batch, loss)
    write(folder, "val", images)
    (folder / "labels.json").write_text(json.dumps(labels))
    example = (tensor(images[:1]),)
    torch.onnx.export(model, example, f"{folder}.onnx", input_names=["images"], opset_version=17, dynamo=False)


def main():
    torch.set_num_threads(1)
    for kind in sys.argv[2:] or [*KINDS, "persons"]:
        make(kind, pathlib.Path(sys.argv[1]) / kind)


if __name__ == "__main__":
    main()
