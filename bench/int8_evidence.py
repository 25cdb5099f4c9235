#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a model in INT8 loses by labels, beside what the build sees without them, recipe by recipe.

Every layer that may be is put into INT8, by good recipes and by bad ones, and judged on the same images twice: by their
labels, and by the floating point engine's own answers. Prints a Markdown table and the rank correlation of the two
drops (Spearman). A recipe is "taken" where the build's own limit, without labels, would let it pass.

  bench/int8_evidence.py build/release/bin/tenon --data CALIBRATION/ --eval LABELS --images IMAGES/ \\
      --preprocess yolo MODEL.onnx ...
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

RECIPES = {
    "auto": [],
    "minmax": ["--calibrator", "minmax"],
    "mse": ["--calibrator", "mse"],
    "p99.9": ["--calibrator", "percentile", "--percentile", "99.9"],
    "p99.97": ["--calibrator", "percentile", "--percentile", "99.97"],
    "p99": ["--calibrator", "percentile", "--percentile", "99"],
    "entropy": ["--calibrator", "entropy"],
    "one image": ["--calibrator", "minmax", "--calib-count", "1"],
    "two images": ["--calib-count", "2"],
}


def judged(arguments, model, recipe, more, folder):
    """The search's record of an engine with every layer in INT8 that may be."""
    points = folder / "points.json"
    words = [arguments.tenon, "build", model, "-o", str(folder / "x.tenon"), "-q", "--precision", "int8"]
    words += ["--objective", "size", "--budget", "0", "--timing-cache", "-", "--threads", str(arguments.threads)]
    words += ["--preprocess", arguments.preprocess, "--max-error", "1e9", "--pareto", str(points)]
    words += ["--calib-cache", str(folder / f"{pathlib.Path(model).stem}.{recipe.replace(' ', '_')}.json")]
    for path in arguments.data:
        words += ["--data", path]
    subprocess.run([*words, *RECIPES[recipe], *more], check=True, capture_output=True, text=True)
    return json.loads(points.read_text())


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    for rank, at in enumerate(order):
        found[at] = rank
    return found


def correlation(a, b):
    """Pearson's, of ranks: Spearman's."""
    a, b = ranks(a), ranks(b)
    mean = (len(a) - 1) / 2
    return sum((x - mean) * (y - mean) for x, y in zip(a, b)) / sum((x - mean) ** 2 for x in a)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tenon", help="the command, such as build/release/bin/tenon")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--data", action="append", required=True, help="what calibration sees")
    parser.add_argument("--eval", required=True, help="labels, as tenon build --eval takes them")
    parser.add_argument("--images", required=True, help="the folder of the labelled images")
    parser.add_argument("--preprocess", required=True)
    parser.add_argument("--recipes", default=",".join(RECIPES))
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()

    print("| model | recipe | drop by labels | drop without | limit | objection | taken |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    true, seen = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for model in arguments.models:
            for recipe in arguments.recipes.split(","):
                # Without labels first: its cache of scales serves both, and `auto` chooses them by what it is given.
                free = judged(arguments, model, recipe, ["--eval", arguments.images], folder)
                labelled = judged(arguments, model, recipe, ["--eval", arguments.eval, "--max-drop", "100"], folder)
                one, other = labelled["points"][1], free["points"][1]
                taken = other["drop"] <= free["max_drop"] and not other["objection"]
                true.append(one["drop"])
                seen.append(other["drop"])
                stem = pathlib.Path(model).stem
                print(
                    f"| {stem} | {recipe} | {one['drop']:.2f} | {other['drop']:.2f} | {free['max_drop']:.2f} "
                    f"| {other['objection']} | {'yes' if taken else 'no'} |",
                    flush=True,
                )
    if len(true) > 1:
        print(f"\nRank correlation over {len(true)} recipes: {correlation(true, seen):.2f}")


if __name__ == "__main__":
    main()
