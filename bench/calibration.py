#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calibration at several batch sizes: time, peak memory, spread of the scales and fidelity of the INT8 engine.

  bench/calibration.py TENON MODEL DATA IMAGES [--preprocess yolo] [--count 32] [--batches 1,4,8,16]

DATA is what --data takes; the engines are compared with the FP32 one on IMAGES by `tenon detect`: a box of one is
matched by a box of the same class of the other at IoU 0.5 and more; F1 counts boxes with a score of 0.3 and more.
Prints Markdown.
"""
import argparse, json, os, subprocess, tempfile, time


def run(command):
    """Seconds and peak resident bytes of a command."""
    begin = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    errors = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)}\n{errors}")
    return time.monotonic() - begin, usage.ru_maxrss * 1024


def iou(a, b):
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    areas = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
    return width * height / (areas - width * height)


def detections(tenon, engine, data, preprocess, out):
    run([tenon, "detect", engine, "--source", data, "--preprocess", preprocess, "--json", out, "--conf", "0.3", "-q"])
    return [frame["detections"] for frame in json.load(open(out))["detections"]]


def f1(reference, other):
    matched = wanted = found = 0
    for truth, boxes in zip(reference, other):
        wanted, found, free = wanted + len(truth), found + len(boxes), list(boxes)
        for box in truth:
            alike = [b for b in free if b["class"] == box["class"]]
            near = max(alike, key=lambda b: iou(b["box"], box["box"]), default=None)
            if near and iou(near["box"], box["box"]) >= 0.5:
                matched += 1
                free.remove(near)
    return 2 * matched / (wanted + found) if wanted + found else 1.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("tenon", "model", "data", "images"):
        parser.add_argument(name)
    parser.add_argument("--preprocess", default="yolo")
    parser.add_argument("--count", default="32")
    parser.add_argument("--batches", default="1,4,8,16")
    parser.add_argument("--calibrator", default="entropy")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        common = [args.tenon, "build", args.model, "-q", "--budget", "0"]
        _, float_bytes = run(common + ["-o", path("fp32.tenon")])
        reference = detections(args.tenon, path("fp32.tenon"), args.images, args.preprocess, path("fp32.json"))
        print("| batch | s | peak MiB | above an FP32 build | scales, largest change | F1 |")
        print("| --- | --- | --- | --- | --- | --- |")
        first = None
        for batch in args.batches.split(","):
            seconds, peak = run(common + ["-o", path("int8.tenon"), "--precision", "int8", "--data", args.data,
                                          "--preprocess", args.preprocess, "--calib-batch", batch, "--calib-count",
                                          args.count, "--calibrator", args.calibrator, "--calib-cache",
                                          path(f"{batch}.cache")])
            scales = {name: entry[0] for name, entry in json.load(open(path(f"{batch}.cache")))["values"].items()}
            first = first or scales
            change = max((abs(scales[name] / first[name] - 1) for name in scales if name in first), default=0)
            found = detections(args.tenon, path("int8.tenon"), args.images, args.preprocess, path("int8.json"))
            more = (peak - float_bytes) / 2**20
            print(f"| {batch} | {seconds:.1f} | {peak / 2**20:.0f} | {more:.0f} | {100 * change:.2f} % | "
                  f"{f1(reference, found):.4f} |", flush=True)


if __name__ == "__main__":
    main()
