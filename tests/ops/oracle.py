#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the cases of tests/ops by ONNX Runtime and compares with what Tenon's reference kernels gave.

Usage: oracle.py FOLDER     FOLDER holds NUMBER.json and NUMBER.{in,out}K.npy, written by ops_dump
"""
import json
import pathlib
import sys

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

ATTRIBUTES_OF_TENON = {"layout", "input_layout", "activation", "residual"}


def session(node, names, arrays):
    """One node as a model; the same name for all absent operands."""
    attributes = dict(node["attributes"])
    made = helper.make_node(node["op"], [name if array is not None else "" for name, array in zip(names, arrays)],
                            [f"out{k}" for k in range(node["outputs"])], **attributes)
    graph = helper.make_graph(
        [made], "case",
        [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
         for name, array in zip(names, arrays) if array is not None],
        [helper.make_empty_tensor_value_info(f"out{k}") for k in range(node["outputs"])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def pooled(x, node):
    kernel, pads = node["attributes"]["kernel_shape"], node["attributes"]["pads"]
    padded = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])), constant_values=-np.inf)
    return np.lib.stride_tricks.sliding_window_view(padded, kernel, (2, 3)).max((-1, -2))


def axes(arrays):
    return tuple(arrays[1]) if len(arrays) > 1 else None


def hardmax(x, node):
    axis = node["attributes"].get("axis", -1)
    return (np.arange(x.shape[axis]) == x.argmax(axis)[..., None]).astype(x.dtype)


def lrn(x, node):
    size = node["attributes"]["size"]
    before, behind = (size - 1) // 2, size // 2
    padded = np.pad(x.astype(np.float64) ** 2, ((0, 0), (before, behind), (0, 0), (0, 0)))
    sums = sum(padded[:, k:k + x.shape[1]] for k in range(size))
    return (x / (1 + 1e-4 / size * sums) ** 0.75).astype(x.dtype)


def quantised(arrays):
    x, scale, zero = arrays
    range_ = np.iinfo(zero.dtype)
    number = np.clip(np.rint(x.astype(np.float64) / scale) + float(zero), range_.min, range_.max)
    return np.where(np.isnan(x), float(zero), number).astype(zero.dtype)


# ONNX Runtime drops NaN from maxima, and hands it on to windows that do not see it; NumPy hands it on. The byte of what
# is no number is that of 0.
WITH_NAN = {
    "ReduceMax": lambda arrays, node: arrays[0].max(axes(arrays), keepdims=True),
    "ReduceMin": lambda arrays, node: arrays[0].min(axes(arrays), keepdims=True),
    "ArgMax": lambda arrays, node: arrays[0].argmax(node["attributes"].get("axis", 0), keepdims=True),
    "ArgMin": lambda arrays, node: arrays[0].argmin(node["attributes"].get("axis", 0), keepdims=True),
    "Hardmax": lambda arrays, node: hardmax(arrays[0], node),
    "LRN": lambda arrays, node: lrn(arrays[0], node),
    "QuantizeLinear": lambda arrays, node: quantised(arrays),
    "GlobalMaxPool": lambda arrays, node: arrays[0].max((2, 3), keepdims=True),
    "MaxPool": lambda arrays, node: pooled(arrays[0], node),
}
# What ONNX Runtime sorts has no NaN, and where it samples is near the image.
WITHOUT_NAN = {"TopK", "NonMaxSuppression"}
FINITE = {"GridSample"}


def has_nan(arrays):
    return any(array is not None and array.dtype.kind == "f" and np.isnan(array).any() for array in arrays)


def has_odd(arrays):
    return any(array is not None and not (np.abs(array) < 1e30).all() for array in arrays)


def main(folder):
    compared = failed = 0
    left = []
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        node = json.loads(path.read_text())
        if ATTRIBUTES_OF_TENON & node["attributes"].keys():
            continue
        if "nan" in node["text"] and node["op"] not in WITH_NAN:
            continue
        stem = str(path)[:-len(".json")]
        names = [f"in{k}" for k in range(node["inputs"])]
        paths = [pathlib.Path(f"{stem}.{name}.npy") for name in names]
        arrays = [np.load(path) if path.exists() else None for path in paths]
        if node["op"] in WITHOUT_NAN and has_nan(arrays) or node["op"] in FINITE and has_odd(arrays):
            continue
        try:
            if node["op"] in WITH_NAN and has_nan(arrays):
                results = [WITH_NAN[node["op"]](arrays, node)]
            else:
                run = session(node, names, arrays)
                results = run.run(None, {name: array for name, array in zip(names, arrays) if array is not None})
        except Exception as error:  # an op or type that ONNX Runtime has no kernel for
            left.append(f"{node['text']}: {str(error).splitlines()[0][:120]}")
            continue
        compared += 1
        for k, expected in enumerate(results):
            got = np.load(f"{stem}.out{k}.npy").reshape(expected.shape)
            exact = got.dtype.kind in "iub"
            # Values halfway between two whole numbers round either way.
            if exact:
                steps = np.abs(got.astype(np.int64) - expected.astype(np.int64))
                same = (steps <= (1 if "Quantize" in node["op"] else 0)).all()
            else:
                same = np.allclose(got.astype(np.float64), expected.astype(np.float64), rtol=2e-4, atol=2e-5,
                                   equal_nan=True)
            if got.dtype != expected.dtype or not same:
                failed += 1
                print(f"differs: {node['text']}, output {k}")
    for line in left:
        print(f"not run: {line}")
    print(f"{compared} cases compared, {failed} differ, {len(left)} not run by ONNX Runtime")
    return 1 if failed or compared == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
