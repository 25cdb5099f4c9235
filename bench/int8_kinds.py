#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What networks of several kinds lose in INT8 by labels, beside what the build sees without them, recipe by recipe.

The networks and images are those of int8_nets.py, int8_more_nets.py and int8_other_nets.py. Every layer that may be is
put into INT8, calibrated and judged without labels on 80 images; the labels are of others. Prints a
Markdown table; "taken" is what the build's own limit lets pass. Needs the Python package.

  bench/int8_kinds.py build/release/bin/tenon FOLDER [KIND ...]
"""

import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from int8_evidence import RECIPES
from PIL import Image

import tenon

TRIED = {name: RECIPES[name] for name in ("auto", "minmax", "entropy", "p99.9", "p99", "one image")}


def top1(outputs, labels):
    return 100 * np.mean([output.argmax() == label for output, label in zip(outputs, labels)])


def mean_iou(outputs, labels):
    shares = np.zeros((outputs[0].shape[1], 2))
    for output, label in zip(outputs, labels):
        found, wanted = output[0].argmax(0), np.array(label)
        for at, counts in enumerate(shares):
            one, other = found == at, wanted == at
            counts += (one & other).sum(), (one | other).sum()
    return 100 * np.mean(shares[:, 0] / shares[:, 1])


def edits(one, other):
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        diagonal, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (a != b))
    return row[-1]


def characters(outputs, labels):
    wrong = 0
    for output, label in zip(outputs, labels):
        best = itertools.groupby(output[0].argmax(-1))
        wrong += edits("".join(str(digit - 1) for digit, _ in best if digit), label)
    return 100 - 100 * wrong / sum(map(len, labels))


def retrieval(outputs, labels):
    """Mean average precision of each image's search among all others, by cosine."""
    rows = np.concatenate(outputs)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    alike = rows @ rows.T
    np.fill_diagonal(alike, -9)
    labels, found = np.array(labels), []
    for at, order in enumerate(np.argsort(-alike, 1)[:, :-1]):
        ranks = np.flatnonzero(labels[order] == labels[at]) + 1
        found.append(np.mean(np.arange(1, len(ranks) + 1) / ranks))
    return 100 * np.mean(found)


def line(outputs, labels):
    """Time in front."""
    return characters([output.transpose(1, 0, 2) for output in outputs], labels)


def near(found, labels):
    """Key points within a twentieth of the side."""
    away = np.linalg.norm(np.stack(found) - np.array(labels), axis=-1)
    return 100 * np.mean(away < 0.05 * SIDE)


def peaks(outputs, labels):
    """As usual: a quarter of a place towards the greater neighbour."""
    found = []
    for maps in (output[0] for output in outputs):
        size, points = maps.shape[-1], []
        for plane in np.pad(maps, ((0, 0), (1, 1), (1, 1))):
            y, x = divmod(plane[1:-1, 1:-1].argmax(), size)
            right, down = plane[y + 1, x + 2] - plane[y + 1, x], plane[y + 2, x + 1] - plane[y, x + 1]
            points.append((x + 0.5 + np.sign(right) / 4, y + 0.5 + np.sign(down) / 4))
        found.append(np.array(points) * SIDE / size)
    return near(found, labels)


def axes(outputs, labels):
    return near([(np.stack([one[0].argmax(-1) for one in both], -1) + 0.5) / 2 for both in outputs], labels)


def places(outputs, labels):
    return near([output.reshape(-1, 2) * SIDE for output in outputs], labels)


def mask_iou(outputs, labels):
    both = either = 0
    for output, label in zip(outputs, labels):
        found, wanted = output[0, 0] > 0.5, np.array(label) > 0
        both, either = both + (found & wanted).sum(), either + (found | wanted).sum()
    return 100 * both / either


def overlaps(box, others):
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    both = np.prod((high - low).clip(0), 1)
    area = np.prod(others[:, 2:] - others[:, :2], 1) + np.prod(box[2:] - box[:2])
    return both / (area - both).clip(1e-9)


def average_precision(found, labels, kind, least):
    rows = sorted(((score, at, box) for at, one in enumerate(found) for box, score, k in zip(*one) if k == kind),
                  key=lambda row: -row[0])  # fmt: skip
    truth = [np.array([box for k, box in label if k == kind]).reshape(-1, 4) for label in labels]
    free, hits = [np.ones(len(boxes), bool) for boxes in truth], []
    for _, at, box in rows:
        shared = overlaps(box, truth[at]) * free[at]
        hit = len(shared) > 0 and shared.max() >= least
        hits.append(hit)
        if hit:
            free[at][shared.argmax()] = False
    right = np.cumsum(hits)
    precision = np.maximum.accumulate((right / np.arange(1, len(right) + 1))[::-1])[::-1]
    return precision[np.array(hits, bool)].sum() / max(1, sum(map(len, truth)))


def mean_precision(found, labels):
    kinds, least = range(5), np.arange(0.5, 1, 0.05)
    return 100 * np.mean([average_precision(found, labels, kind, one) for kind in kinds for one in least])


def nms(boxes, scores, kinds):
    order, kept = list(np.argsort(-scores)[:300]), []
    moved = boxes + kinds[:, None] * 200
    while order and len(kept) < 50:
        kept.append(order[0])
        shared = overlaps(moved[order[0]], moved[order])
        order = [at for at, share in zip(order, shared) if share <= 0.5][:]
    return boxes[kept], scores[kept], kinds[kept]


def raw_boxes(outputs, labels):
    """Heads of two strides: scores, and distances to the sides."""
    found = []
    for heads in outputs:
        boxes, scores = [], []
        for stride, score, side in zip((8, 16), heads[:2], heads[2:]):
            y, x = (np.indices(score.shape[-2:]) + 0.5) * stride
            left, up, right, down = np.logaddexp(side[0], 0) * stride
            boxes.append(np.stack([x - left, y - up, x + right, y + down], -1).reshape(-1, 4))
            scores.append(score[0].reshape(score.shape[1], -1).T)
        boxes, scores = np.concatenate(boxes), 1 / (1 + np.exp(-np.concatenate(scores)))
        found.append(nms(boxes, scores.max(1), scores.argmax(1)))
    return mean_precision(found, labels)


def cut_iou(outputs, labels):
    """Of logits."""
    return mask_iou([output + 0.5 for output in outputs], labels)


def depths(outputs, labels):
    """Places whose distance is right within a tenth."""
    return 100 * np.mean([abs(np.log(output[0, 0] / np.array(label))) < np.log(1.1)
                          for output, label in zip(outputs, labels)])  # fmt: skip


def loudness(outputs, labels):
    """Peak signal to noise, in dB."""
    errors = [np.mean((output[0].clip(0, 1).transpose(1, 2, 0) - np.array(label) / 255) ** 2)
              for output, label in zip(outputs, labels)]  # fmt: skip
    return np.mean(-10 * np.log10(errors))


def precision_of(scores, wanted):
    right = wanted[np.argsort(-scores, kind="stable")]
    return (np.cumsum(right) / np.arange(1, len(right) + 1))[right > 0].mean()


def several(outputs, labels):
    """Mean average precision of each label's images."""
    scores, wanted = np.concatenate(outputs), np.array(labels)
    return 100 * np.mean([precision_of(scores[:, at], wanted[:, at]) for at in range(wanted.shape[1])])


def oddness(outputs, labels):
    """The area below the curve of false and true alarms (ROC), by the largest error of 3 x 3 pixels."""
    scores, odd = [], np.array([label for _, label in labels]) > 0
    for output, (image, _) in zip(outputs, labels):
        error = ((output - image)[0] ** 2).sum(0)
        scores.append(np.lib.stride_tricks.sliding_window_view(error, (3, 3)).mean((2, 3)).max())
    scores = np.array(scores)
    return 100 * np.mean(scores[odd][:, None] > scores[~odd][None])


def corners(boxes):
    return np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], 1)


def anchors(outputs, labels):
    sizes = {8: [(14, 14), (22, 12), (12, 22)], 16: [(32, 32), (44, 24), (24, 44)]}
    table = np.array([(x * stride + stride / 2, y * stride + stride / 2, *size) for stride, all_sizes in sizes.items()
                      for y in range(SIDE // stride) for x in range(SIDE // stride) for size in all_sizes])  # fmt: skip
    found = []
    for scores, offsets in outputs:
        centre = table[:, :2] + offsets[0, :, :2] * table[:, 2:]
        boxes = corners(np.concatenate([centre, table[:, 2:] * np.exp(offsets[0, :, 2:].clip(max=3))], 1))
        shares = 1 / (1 + np.exp(-scores[0]))
        found.append(nms(boxes, shares.max(1), shares.argmax(1)))
    return mean_precision(found, labels)


SIDE = 96  # of most images of int8_more_nets.py
def centres(outputs, labels):
    """Boxes of the points that are the highest of their neighbours."""
    found = []
    for scores, sides, places in outputs:
        padded = np.pad(scores[0], ((0, 0), (1, 1), (1, 1)))
        high, wide = scores.shape[2:]
        near = np.max([padded[:, y : y + high, x : x + wide] for y in range(3) for x in range(3)], 0)
        kinds, y, x = np.nonzero((scores[0] == near) & (scores[0] > 1e-3))
        centre = 4 * np.stack([x + places[0, 0, y, x], y + places[0, 1, y, x]], 1)
        size = 4 * np.exp(sides[0][:, y, x].T.clip(max=4))
        found.append(nms(corners(np.concatenate([centre, size], 1)), scores[0][kinds, y, x], kinds))
    return mean_precision(found, labels)


KINDS = {
    "classes": top1,
    "segments": mean_iou,
    "texts": characters,
    "persons": retrieval,
    "joints": peaks,
    "dots": peaks,
    "axes": axes,
    "places": places,
    "boxes": raw_boxes,
    "found": mean_precision,
    "faces": retrieval,
    "lines": line,
    "masks": mask_iou,
    "objects": top1,
    "cuts": cut_iou,
    "depths": depths,
    "larger": loudness,
    "labels": several,
    "tags": several,
    "odd": oddness,
    "anchors": anchors,
    "centres": centres,
}


def run(engine, images):
    """Each image's output, or all where there are several."""
    session = engine.session(threads=1)
    all_outputs = [list(session.run({"images": image}).values()) for image in images]
    return [outputs[0] if len(outputs) == 1 else outputs for outputs in all_outputs]


def judged(command, folder, recipe, size, scratch):
    """The search's record of everything in INT8, and the engine."""
    engine, points = scratch / "x.tenon", scratch / "points.json"
    words = [command, "build", f"{folder}.onnx", "-o", engine, "-q", "--precision", "int8", "--objective", "size"]
    words += ["--budget", "0", "--max-error", "1e9", "--timing-cache", "-", "--data", folder / "calib"]
    words += ["--preprocess", f"resize={size},scale=1/255", "--calib-cache", scratch / f"{folder.name}.{recipe}.json"]
    words += TRIED[recipe]
    for more in (["--pareto", points, "--eval", folder / "calib"], []):
        subprocess.run([str(word) for word in words + more], check=True, capture_output=True)
    return json.loads(points.read_text()), tenon.load(str(engine))


def main():
    command, root = sys.argv[1], pathlib.Path(sys.argv[2])
    print("| model | recipe | by labels | without | limit | objection | taken |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        for kind in sys.argv[3:] or [one for one in KINDS if (root / one).is_dir()]:
            folder = root / kind
            labels = json.loads((folder / "labels.json").read_text())
            opened = [Image.open(path).convert("RGB") for path in sorted((folder / "val").glob("*.png"))]
            images = [np.asarray(one, np.float32).transpose(2, 0, 1)[None] / 255 for one in opened]
            if kind == "odd":
                labels = list(zip(images, labels))
            size = "{}x{}".format(*opened[0].size)
            before = KINDS[kind](run(tenon.build(f"{folder}.onnx", precision="fp32", budget=0), images), labels)
            for recipe in TRIED:
                seen, engine = judged(command, folder, recipe, size, pathlib.Path(name))
                point, drop = seen["points"][1], before - KINDS[kind](run(engine, images), labels)
                taken = "no" if point["objection"] or point["drop"] > seen["max_drop"] else "yes"
                figures = f"{drop:.2f} of {before:.1f} | {point['drop']:.2f} | {seen['max_drop']:.2f}"
                print(f"| {kind} | {recipe} | {figures} | {point['objection']} | {taken} |", flush=True)


if __name__ == "__main__":
    main()
