#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What networks of several kinds lose in INT8 by labels, beside what the build sees without them, recipe by recipe.

The networks and images are those of int8_nets.py. Every layer that may be is put into INT8, calibrated and judged
without labels on 80 images; the labels are of others. Prints a Markdown table; "taken" is what the build's own limit
lets pass. Needs the Python package.

  bench/int8_kinds.py build/release/bin/tenon FOLDER [classes] [segments] [texts] [persons]
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


KINDS = {"classes": top1, "segments": mean_iou, "texts": characters, "persons": retrieval}


def run(engine, images):
    session = engine.session(threads=1)
    return [next(iter(session.run({"images": image}).values())) for image in images]


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
        for kind in sys.argv[3:] or KINDS:
            folder = root / kind
            labels = json.loads((folder / "labels.json").read_text())
            opened = [Image.open(path).convert("RGB") for path in sorted((folder / "val").glob("*.png"))]
            images = [np.asarray(one, np.float32).transpose(2, 0, 1)[None] / 255 for one in opened]
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
