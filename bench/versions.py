#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Races two builds of Tenon against each other on this machine: is the new one slower anywhere?

Each tunes its own engine of every model with a timing cache of its own, then both are timed in turn, so that a slow
moment of the machine hits both. Prints a Markdown table: medians of the rounds' medians in ms, the least and the most,
and old / new (above 1: the new one is faster). INT8 is calibrated on random data, for speed only.

  bench/versions.py OLD NEW [--precision fp32,bf16,int8] MODEL.onnx ...
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile


def call(program, words, folder):
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder)}
    done = subprocess.run([program, *words], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(f"{program} {' '.join(words)}: {done.stderr.strip().splitlines()[-3:]}")
    return done.stdout


def subject(program, model, precision, threads, folder):
    """The words that name what is timed: a tuned engine, or for INT8 the model, which bench calibrates by itself."""
    if precision == "int8":
        words = [model, "--precision", "int8"]
        call(program, ["bench", *words, "--threads", str(threads), "--seconds", "0.1"], folder)
        return words
    path = folder / f"{pathlib.Path(model).stem}.{precision}.tenon"
    call(program, ["build", model, "-o", str(path), "--precision", precision, "--threads", str(threads)], folder)
    return [str(path)]


def median_ms(program, words, threads, seconds, folder):
    words = ["bench", *words, "--threads", str(threads), "--seconds", str(seconds), "--json", "-"]
    return json.loads(call(program, words, folder))["latency_ms"]["median"]


def race(arguments, model, precision, folders):
    programs = [arguments.old, arguments.new]
    subjects = [
        subject(program, model, precision, arguments.threads, folder) for program, folder in zip(programs, folders)
    ]
    times = [[], []]
    for turn in range(arguments.rounds):
        for at in (0, 1) if turn % 2 == 0 else (1, 0):
            times[at].append(median_ms(programs[at], subjects[at], arguments.threads, arguments.seconds, folders[at]))
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="the command of one build, such as ../before/build/release/bin/tenon")
    parser.add_argument("new", help="the command of the other build")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--precision", default="fp32", help="some of fp32,bf16,int8 (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1, help="of each build in each round")
    arguments = parser.parse_args()

    print("| model | precision | old ms | new ms | old / new |\n| --- | --- | --- | --- | --- |")
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        folders = [pathlib.Path(folder, name) for name in ("old", "new")]
        for made in folders:
            made.mkdir(mode=0o700)
        for model in arguments.models:
            for precision in arguments.precision.split(","):
                try:
                    times = race(arguments, model, precision, folders)
                except RuntimeError as error:  # a build that cannot run a model leaves no row
                    print(f"{model}: {error}", file=sys.stderr)
                    continue
                medians = [statistics.median(found) for found in times]
                cells = [f"{mid:.4g} ({min(t):.4g} to {max(t):.4g})" for mid, t in zip(medians, times)]
                ratios.append(medians[0] / medians[1])
                name = pathlib.Path(model).stem
                print(f"| {name} | {precision} | {cells[0]} | {cells[1]} | {ratios[-1]:.3f} |", flush=True)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"\nGeometric mean of old / new over {len(ratios)} rows: {mean:.3f}, the least {min(ratios):.3f}")


if __name__ == "__main__":
    main()
