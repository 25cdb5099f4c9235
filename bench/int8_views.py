#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a classifier in INT8 loses by labels over several views of each image, beside what the build sees without.

Few labelled images tell top-1 to a point or two. Each is prepared in seven ways here, and the drop has a standard error
over images. Every layer that may be is put into INT8, recipe by recipe, calibrated and judged on images without labels.
Prints a Markdown table; "taken" is what the build's own limit would let pass.

  bench/int8_views.py build/release/bin/tenon --data CALIBRATION/ --labels LABELS.csv --images IMAGES/ \\
      --preprocess imagenet MODEL.onnx ...
"""

import argparse
import csv
import json
import math
import pathlib
import subprocess
import tempfile

from int8_evidence import RECIPES

VIEWS = [f"center_crop=224x224,short={side}" for side in (232, 256, 288, 320)] + [
    "center_crop=224x224,short=256,interpolation=cv_linear",
    "resize=224x224",
    "letterbox=224x224",
]


def run(*words):
    subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True)


def classes(arguments, engine, view, folder):
    """The class of each image, by its name."""
    found = folder / "found.json"
    how = f"{arguments.preprocess},{view}"
    run(arguments.tenon, "classify", engine, "-q", "--source", arguments.images, "--preprocess", how, "--json", found)
    entries = json.loads(found.read_text())["classifications"]
    return {pathlib.Path(entry["image"]).name: entry["top"][0]["class"] for entry in entries}


def build(arguments, model, recipe, folder):
    """The engine, and the search's record where it was judged without labels."""
    engine, points = folder / "int8.tenon", folder / "points.json"
    words = [arguments.tenon, "build", model, "-o", engine, "-q", "--precision", "int8", "--objective", "size"]
    words += ["--budget", "0", "--max-error", "1e9", "--timing-cache", "-", "--preprocess", arguments.preprocess]
    words += ["--calib-cache", folder / f"{pathlib.Path(model).stem}.{recipe}.json", *RECIPES[recipe]]
    for path in arguments.data:
        words += ["--data", path]
    run(*words, "--pareto", points, "--eval", arguments.data[0])
    run(*words)  # not judged: with INT8 as it is
    return engine, json.loads(points.read_text())


def lost(labels, before, after):
    """The mean over images and its standard error, in points."""
    drops = []
    for image, wanted in labels.items():
        views = [(one[image] == wanted) - (other[image] == wanted) for one, other in zip(before, after)]
        drops.append(100 * sum(views) / len(views))
    mean = sum(drops) / len(drops)
    variance = sum((drop - mean) ** 2 for drop in drops) / (len(drops) - 1)
    return mean, math.sqrt(variance / len(drops))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tenon", help="the command, such as build/release/bin/tenon")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--data", action="append", required=True, help="what calibration sees, without labels")
    parser.add_argument("--labels", required=True, help="CSV of file and class")
    parser.add_argument("--images", required=True, help="the folder of the labelled images")
    parser.add_argument("--preprocess", required=True)
    parser.add_argument("--recipes", default=",".join(RECIPES))
    arguments = parser.parse_args()
    with open(arguments.labels, newline="") as file:
        labels = {row["file"]: int(row["class"]) for row in csv.DictReader(file)}

    print("| model | recipe | by labels | without | limit | objection | taken |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for model in arguments.models:
            run(arguments.tenon, "build", model, "-o", folder / "fp32.tenon", "-q")
            before = [classes(arguments, folder / "fp32.tenon", view, folder) for view in VIEWS]
            for recipe in arguments.recipes.split(","):
                engine, search = build(arguments, model, recipe, folder)
                after = [classes(arguments, engine, view, folder) for view in VIEWS]
                mean, error = lost(labels, before, after)
                point = search["points"][1]
                taken = point["drop"] <= search["max_drop"] and not point["objection"]
                print(
                    f"| {pathlib.Path(model).stem} | {recipe} | {mean:.2f} ± {error:.2f} | {point['drop']:.2f} "
                    f"| {search['max_drop']:.2f} | {point['objection']} | {'yes' if taken else 'no'} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
