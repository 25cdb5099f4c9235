#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peak memory of Tenon's builds and runs beside the bytes of the weights, and beside ONNX Runtime's runs.

Each figure is the peak resident set of a process of its own (the kernel's maximum, getrusage), which runs the model
once: `tenon build`, `tenon run` of the engine, and Python with ONNX Runtime. Prints a Markdown table in MB.

  pip install numpy onnx onnxruntime
  bench/memory.py build/release/bin/tenon MODEL.onnx ...
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from peers import random_inputs

MB = 1e6
ONNX_RUNTIME = """
import sys, numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(sys.argv[2])
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
session.run(None, dict(numpy.load(sys.argv[3])))
"""


# A child's peak is never below what its parent held when it was started: a small process starts it.
LAUNCHER = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
print(0 if code else resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def peak(command):
    """Bytes of the process at its peak; None where it fails."""
    launcher = [sys.executable, "-S", "-c", LAUNCHER, *map(str, command)]
    return int(subprocess.run(launcher, stdout=subprocess.PIPE, check=True).stdout) * 1024 or None


def weight_bytes(path):
    """Of the initializers as the file holds them."""
    model = onnx.load(path, load_external_data=False)
    total = 0
    for tensor in model.graph.initializer:
        element = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
        bits = 4 if tensor.data_type in (21, 22) else 8 * element.itemsize
        total += int(np.prod(tensor.dims, dtype=np.int64)) * bits // 8
    return total


def measure(tenon, path, threads, folder):
    """Weights, engine, build, run and ONNX Runtime's run, in bytes."""
    arrays = random_inputs(onnx.load(path, load_external_data=False))
    inputs = folder / "inputs.npz"
    np.savez(inputs, **arrays)
    engine = folder / "model.tenon"
    given = [part for name in arrays for part in ("-i", f"{name}={inputs}:{name}")]
    shapes = ",".join(f"{name}:{'x'.join(map(str, array.shape))}" for name, array in arrays.items())
    limits = ["--threads", str(threads)]
    build = peak([tenon, "build", path, "-o", engine, "--shapes", shapes, "--timing-cache", "-", *limits])
    run = peak([tenon, "run", engine, *given, "-o", folder / "out", *limits])
    other = peak([sys.executable, "-c", ONNX_RUNTIME, path, str(threads), inputs])
    return weight_bytes(path), engine.stat().st_size, build, run, other


def row(name, weights, engine, build, run, other):
    """A line of the table."""

    def cell(figure):
        return f"{figure / MB:.0f} ({figure / weights:.2f})" if figure else "-"

    against = f"{other / run:.2f}" if run and other else "-"
    return f"| {name} | {weights / MB:.0f} | {cell(engine)} | {cell(build)} | {cell(run)} | {cell(other)} | {against} |"


def main():
    """Reads the command line and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tenon")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    print("| model | weights, MB | engine (of the weights) | build | run | ONNX Runtime | ONNX Runtime / run |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for path in options.models:
        with tempfile.TemporaryDirectory() as folder:
            figures = measure(options.tenon, path, options.threads, pathlib.Path(folder))
        print(row(pathlib.Path(path).stem, *figures), flush=True)


if __name__ == "__main__":
    main()
