#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Races Tenon against ONNX Runtime, OpenVINO and MNN on this machine's CPU, in FP32 or INT8.

Every model is timed by each runtime in turn, several rounds, so that a slow moment of the machine hits all of them.
Prints a Markdown table: each runtime's median of its rounds' medians in ms, and the best peer's time over Tenon's.

INT8 is for speed only, as all are calibrated on random data: Tenon by itself, ONNX Runtime by quantize_static (Q/DQ, by
channel, seven bits of weights where the CPU has no VNNI, as its manual asks for), OpenVINO by NNCF; MNN is left out.

  pip install numpy onnx onnxruntime openvino MNN nncf
  bench/peers.py build/release/bin/tenon [--precision int8] MODEL.onnx ...
"""

import argparse
import json
import math
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx


def random_inputs(model):
    """One array for each input, dynamic sizes as 1."""
    known = {tensor.name for tensor in model.graph.initializer}
    generator = np.random.default_rng(0)
    arrays = {}
    for value in model.graph.input:
        if value.name in known:
            continue
        kind = value.type.tensor_type
        shape = [dim.dim_value if dim.dim_value > 0 else 1 for dim in kind.shape.dim]
        arrays[value.name] = generator.random(shape).astype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
    return arrays


def quantised_by_onnx_runtime(path, arrays):
    """The file of the model that quantize_static makes."""
    from onnxruntime import quantization

    class Reader(quantization.CalibrationDataReader):
        left = 2

        def get_next(self):
            self.left -= 1
            return arrays if self.left >= 0 else None

    has_vnni = any(flag in pathlib.Path("/proc/cpuinfo").read_text() for flag in ("avx512_vnni", "avx_vnni"))
    out = tempfile.NamedTemporaryFile(suffix=".onnx").name
    quantization.quantize_static(
        path,
        out,
        Reader(),
        quant_format=quantization.QuantFormat.QDQ,
        per_channel=True,
        reduce_range=not has_vnni,
        weight_type=quantization.QuantType.QInt8,
    )
    return out


def onnx_runtime(path, arrays, threads, precision):
    import onnxruntime

    if precision == "int8":
        path = quantised_by_onnx_runtime(path, arrays)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, arrays)


def openvino(path, arrays, threads, precision):
    import openvino as ov

    core = ov.Core()
    model = core.read_model(path)
    model.reshape({name: list(array.shape) for name, array in arrays.items()})
    if precision == "int8":
        import nncf

        model = nncf.quantize(model, nncf.Dataset([arrays] * 4), subset_size=4)
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = core.compile_model(model, "CPU", settings).create_infer_request()
    for name, array in arrays.items():
        request.set_tensor(name, ov.Tensor(array))
    return request.infer


def mnn(path, arrays, threads, precision):
    if precision != "fp32":
        raise ValueError("left out in INT8")
    import MNN
    import MNN.expr as expr

    converted = tempfile.NamedTemporaryFile(suffix=".mnn").name
    command = [sys.executable, "-m", "MNN.tools.mnnconvert", "-f", "ONNX", "--modelFile", path]
    command += ["--MNNModel", converted, "--bizCode", "bench"]
    subprocess.run(command, check=True, capture_output=True)
    outputs = [value.name for value in onnx.load(path).graph.output]
    runtime = MNN.nn.create_runtime_manager(({"precision": "high", "backend": "CPU", "numThread": threads},))
    net = MNN.nn.load_module_from_file(converted, list(arrays), outputs, runtime_manager=runtime)

    def run():
        values = [expr.const(array, list(array.shape), expr.NCHW) for array in arrays.values()]
        results = net.forward([expr.convert(v, expr.NC4HW4) if len(v.shape) == 4 else v for v in values])
        return [result.read() for result in (results if isinstance(results, list) else [results])]

    return run


PEERS = {"ONNX Runtime": onnx_runtime, "OpenVINO": openvino, "MNN": mnn}


def median_ms(run, seconds):
    """The median time of one call, called for that long."""
    run()
    times = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        run()
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)


def tenon_ms(command, path, arrays, threads, seconds, precision):
    shapes = ",".join(f"{name}:{'x'.join(map(str, array.shape))}" for name, array in arrays.items())
    words = [command, "bench", path, "--threads", str(threads), "--seconds", str(seconds), "--shapes", shapes]
    words += ["--precision", precision, "--json", "-"]
    printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return json.loads(printed)["latency_ms"]["median"]


def race(arguments, path):
    """Median and spread of each runtime, in ms."""
    arrays = random_inputs(onnx.load(path))
    runs = {}
    for name, make in PEERS.items():
        try:
            runs[name] = make(path, arrays, arguments.threads, arguments.precision)
            runs[name]()
        except Exception as error:  # a peer that cannot run a model leaves its column empty
            print(f"{name} does not run {path}: {str(error).splitlines()[:1]}", file=sys.stderr)
            runs.pop(name, None)
    times = {name: [] for name in [*runs, "Tenon"]}
    for _ in range(arguments.rounds):
        for name, run in runs.items():
            times[name].append(median_ms(run, arguments.seconds))
        times["Tenon"].append(
            tenon_ms(arguments.tenon, path, arrays, arguments.threads, arguments.seconds, arguments.precision)
        )
    return {name: (statistics.median(found), min(found), max(found)) for name, found in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tenon", help="the command, such as build/release/bin/tenon")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--precision", choices=["fp32", "int8"], default="fp32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2, help="of each runtime in each round")
    arguments = parser.parse_args()

    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if "model name" in line), "")
    how = f"{arguments.precision}, {arguments.threads} threads, {arguments.rounds} rounds"
    print(f"{cpu}, {platform.machine()}, {how}; ms (least to most)\n")
    columns = ["Tenon", *PEERS]
    print("| model | " + " | ".join(columns) + " | best peer / Tenon |")
    print("| --- |" + " --- |" * (len(columns) + 1))
    ratios = []
    for path in arguments.models:
        found = race(arguments, path)
        cells = [f"{found[c][0]:.3g} ({found[c][1]:.3g} to {found[c][2]:.3g})" if c in found else "-" for c in columns]
        candidates = [found[name][0] for name in PEERS if name in found]
        ratio = min(candidates) / found["Tenon"][0] if candidates else math.nan
        ratios.append(ratio)
        print(f"| {pathlib.Path(path).stem} | " + " | ".join(cells) + f" | {ratio:.2f} |", flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"\nGeometric mean of the last column: {mean:.2f}")


if __name__ == "__main__":
    main()
