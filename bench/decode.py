#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times one step of decoding, batch 1, of a decoder shaped as GPT-2 (124M) with weights in FP32, INT8 and INT4.

The models are made here, of random weights: products by INT8 and INT4 weights are com.microsoft's MatMulNBits, blocks
of 32 with one scale, a number of f16, and no zero points. Tenon and ONNX Runtime run the same files in turn, ONNX
Runtime also with activations in INT8 (accuracy_level 4). The floor is the time that reading the weights takes by the
bandwidth measured here, on a buffer of their size. All times are the least of many, so that others on the machine do
not count. Prints a Markdown table, and by how much results differ.

With --device cuda it is Tenon alone, in --precision, by the time on the device of one recorded graph; the floor is by
--bandwidth, and ONNX Runtime on the CPU says what the results should be. --tokens 512 is a prefill.

  pip install numpy onnx onnxruntime
  bench/decode.py build/release/bin/tenon [--layers 12]
  bench/decode.py build/release/bin/tenon --device cuda --layers 20 --width 2048 --heads 16 --words 32000   # 1B
"""

import argparse
import concurrent.futures
import json
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BLOCK = 32


def blocks_of(random, k, n, bits):
    """MatMulNBits's integers [n][blocks][bytes] and scales [n][blocks], numbers of f16, of weights around k^-0.5."""
    integers = random.integers(1, 1 << bits, (n, k // BLOCK, BLOCK), np.uint8)  # around their middle
    if bits == 4:
        integers = integers[..., 0::2] | integers[..., 1::2] << 4
    deviation = (1 << bits) / 12**0.5
    scales = random.uniform(0.75, 1.25, (n, k // BLOCK)) * k**-0.5 / deviation
    return integers, scales.astype(np.float16).astype(np.float32)


class Decoder:
    """The graph of one step: a token behind `past` others."""

    def __init__(self, arguments, bits, accuracy):
        self.sizes, self.bits, self.accuracy = arguments, bits, accuracy
        self.random = np.random.default_rng(0)
        self.nodes, self.weights, self.bytes = [], [], 0

    def constant(self, array, name):
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op, inputs, name, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def product(self, x, k, n, name):
        bias = self.constant(np.zeros(n, np.float32), name + ".bias")
        if self.bits == 32:
            weights = self.random.standard_normal((k, n), np.float32) * np.float32(k**-0.5)
            self.bytes += weights.size * self.sizes.float_bytes
            made = self.node("MatMul", [x, self.constant(weights, name + ".w")], name + ".product")
        else:
            integers, scales = blocks_of(self.random, k, n, self.bits)
            self.bytes += integers.nbytes + 2 * scales.size
            inputs = [x, self.constant(integers, name + ".w"), self.constant(scales, name + ".s")]
            sizes = {"K": k, "N": n, "bits": self.bits, "block_size": BLOCK, "accuracy_level": self.accuracy}
            made = self.node("MatMulNBits", inputs, name + ".product", domain="com.microsoft", **sizes)
        return self.node("Add", [made, bias], name)

    def norm(self, x, name):
        width = self.sizes.width
        ones, zeros = np.ones(width, np.float32), np.zeros(width, np.float32)
        inputs = [x, self.constant(ones, name + ".g"), self.constant(zeros, name + ".b")]
        return self.node("LayerNormalization", inputs, name, axis=-1)

    def attention(self, x, layer):
        width, heads = self.sizes.width, self.sizes.heads
        name, head = f"layer{layer}.attention", width // heads
        shape = self.constant(np.array([1, self.sizes.tokens, heads, head], np.int64), name + ".shape")
        joined = self.product(self.norm(x, name + ".norm"), width, 3 * width, name + ".qkv")
        parts = [f"{name}.{part}" for part in "qkv"]
        self.nodes.append(helper.make_node("Split", [joined], parts, axis=-1, num_outputs=3))
        parts = [self.node("Reshape", [part, shape], part + ".split") for part in parts]
        query, key, value = [self.node("Transpose", [part], part + ".heads", perm=[0, 2, 1, 3]) for part in parts]
        keys = self.node("Concat", [f"past_key{layer}", key], f"key{layer}", axis=2)
        values = self.node("Concat", [f"past_value{layer}", value], f"value{layer}", axis=2)
        turned = self.node("Transpose", [keys], name + ".keys", perm=[0, 1, 3, 2])
        scores = self.node("MatMul", [query, turned], name + ".scores")
        by = self.constant(np.array(head**-0.5, np.float32), name + ".scale")
        shares = self.node("Softmax", [self.node("Mul", [scores, by], name + ".scaled")], name + ".shares", axis=-1)
        mixed = self.node("MatMul", [shares, values], name + ".mixed")
        back = self.node("Transpose", [mixed], name + ".back", perm=[0, 2, 1, 3])
        flat = self.constant(np.array([1, self.sizes.tokens, width], np.int64), name + ".flat")
        rows = self.node("Reshape", [back, flat], name + ".rows")
        return self.node("Add", [x, self.product(rows, width, width, name + ".out")], name + ".sum")

    def model(self):
        sizes = self.sizes
        table = self.random.standard_normal((sizes.words, sizes.width), np.float32)
        x = self.node("Gather", [self.constant(table, "table"), "token"], "embedded")
        past = [1, sizes.heads, sizes.past, sizes.width // sizes.heads]
        inputs = [helper.make_tensor_value_info("token", TensorProto.INT64, [1, sizes.tokens])]
        for layer in range(sizes.layers):
            for what in ("key", "value"):
                inputs.append(helper.make_tensor_value_info(f"past_{what}{layer}", TensorProto.FLOAT, past))
            x = self.attention(x, layer)
            name = f"layer{layer}.mlp"
            inner = self.product(self.norm(x, name + ".norm"), sizes.width, 4 * sizes.width, name + ".in")
            inner = self.node("Gelu", [inner], name + ".gelu")
            x = self.node("Add", [x, self.product(inner, 4 * sizes.width, sizes.width, name + ".out")], name + ".sum")
        words = -(-sizes.words // 64) * 64
        logits = self.product(self.norm(x, "last.norm"), sizes.width, words, "logits")
        outputs = [helper.make_tensor_value_info(logits, TensorProto.FLOAT, [1, sizes.tokens, words])]
        graph = helper.make_graph(self.nodes, "decoder", inputs, outputs, self.weights)
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def bandwidth(size, threads):
    """Bytes a second that so many threads read of one buffer of that size, again and again."""
    parts = [np.ones(max(1, int(size) // 4 // threads), np.float32) for _ in range(threads)]
    repeats = max(3, int(2e9 / size))

    def read(part):
        for _ in range(repeats):
            np.dot(part, part)

    best = 0
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        for _ in range(5):
            begin = time.perf_counter()
            list(pool.map(read, parts))
            best = max(best, repeats * size / (time.perf_counter() - begin))
    return best


def onnx_runtime(path, arrays, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, arrays)


def least_ms(run, seconds):
    """The least time of one call, called for that long."""
    run()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        run()
        times.append((time.perf_counter() - begin) * 1e3)
    return min(times)


def measured(arguments, engine):
    words = [arguments.tenon, "bench", engine, "--threads", arguments.threads, "--seconds", arguments.seconds]
    printed = subprocess.run(list(map(str, [*words, "--json", "-"])), check=True, capture_output=True, text=True)
    return json.loads(printed.stdout)


def tenon_ms(arguments, engine):
    return measured(arguments, engine)["latency_ms"]["min"]


def save(model, path):
    onnx.save(model, path, save_as_external_data=True, location=path.name + ".data")


def difference(arguments, engine, arrays, expected):
    """The root mean square of what Tenon's logits are off, over that of the logits."""
    folder = engine.parent
    np.savez(folder / "inputs.npz", **arrays)
    given = [part for name in arrays for part in ("-i", f"{name}={folder}/inputs.npz:{name}")]
    subprocess.run([arguments.tenon, "run", engine, *given, "-o", folder / "out"], check=True,
                   stdout=subprocess.DEVNULL)
    ours = np.load(folder / "out" / "logits.npy").ravel().astype(np.float32)
    return np.sqrt(np.mean((ours - expected) ** 2) / np.mean(expected**2))


def device_row(arguments, folder, bits, arrays):
    """One line of the table of a device, and the layers that take longest."""
    path, engine = folder / f"decoder{bits}.onnx", folder / f"decoder{bits}.tenon"
    decoder = Decoder(arguments, bits, 0)
    save(decoder.model(), path)
    expected = onnx_runtime(path, arrays, 0)()[0].ravel()
    begin = time.perf_counter()
    how = ["--device", arguments.device, "--precision", arguments.precision]
    subprocess.run([arguments.tenon, "build", path, "-o", engine, *how], check=True, stdout=subprocess.DEVNULL)
    build = time.perf_counter() - begin
    found = [measured(arguments, engine) for _ in range(arguments.rounds)]
    times = [one["device_latency_ms"]["median"] for one in found]
    ms, floor = statistics.median(times), decoder.bytes / arguments.bandwidth / 1e9
    layers = found[-1]["layers"]
    kernels = re.compile("rows .* by |expanded, ")
    products = [layer["us"] for layer in layers if kernels.match(layer["tactic"])]
    error = difference(arguments, engine, arrays, expected)
    kind = {32: arguments.precision.upper(), 8: "INT8", 4: "INT4"}[bits]
    print(f"| {kind} | {decoder.bytes / 1e6:.0f} | {build:.0f} | {ms:.4f} | {min(times):.4f}-{max(times):.4f} "
          f"| {decoder.bytes / ms / 1e6:.0f} | {floor:.4f} | {ms / floor:.2f} | {len(layers)} | {sum(products):.0f} "
          f"| {error:.1e} |", flush=True)
    if arguments.layers_of:
        for layer in sorted(layers, key=lambda one: -one["us"])[: arguments.layers_of]:
            print(f"  {layer['us']:9.2f} us  {layer['tactic']:36} {layer['name']}")


def row(arguments, folder, bits, arrays):
    """One line of the table; ONNX Runtime's and Tenon's results must agree."""
    path, engine = folder / f"decoder{bits}.onnx", folder / f"decoder{bits}.tenon"
    decoder = Decoder(arguments, bits, 0)
    save(decoder.model(), path)
    subprocess.run([arguments.tenon, "build", path, "-o", engine, "--threads", str(arguments.threads)], check=True,
                   stdout=subprocess.DEVNULL)
    peers = {"": onnx_runtime(path, arrays, arguments.threads)}
    if bits != 32:
        level4 = folder / f"level4_{bits}.onnx"
        save(Decoder(arguments, bits, 4).model(), level4)
        peers["INT8 activations"] = onnx_runtime(level4, arrays, arguments.threads)
    times = {name: [] for name in [*peers, "Tenon"]}
    for _ in range(arguments.rounds):
        for name, run in peers.items():
            times[name].append(least_ms(run, arguments.seconds))
        times["Tenon"].append(tenon_ms(arguments, engine))
    error = difference(arguments, engine, arrays, peers[""]()[0].ravel())
    speed = bandwidth(decoder.bytes, arguments.threads)
    floor = decoder.bytes / speed * 1e3
    least = {name: min(found) for name, found in times.items()}
    level4 = f"{least['INT8 activations']:.2f}" if len(peers) > 1 else "-"
    kind = {32: "FP32", 8: "INT8", 4: "INT4"}[bits]
    print(
        f"| {kind} | {decoder.bytes / 1e6:.0f} | {engine.stat().st_size / 1e6:.0f} | {speed / 1e9:.1f} | {floor:.2f} "
        f"| {least['Tenon']:.2f} | {least['Tenon'] / floor:.2f} | {least['']:.2f} | {level4} | {error:.1e} |",
        flush=True,
    )


def main():
    """Reads the command line and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tenon")
    sizes = (("layers", 12), ("width", 768), ("heads", 12), ("words", 50257), ("past", 128), ("tokens", 1))
    for name, value in sizes:
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="fp16", help="on a device other than the CPU")
    parser.add_argument("--bandwidth", type=float, default=4.0, help="of such a device, in TB/s")
    parser.add_argument("--layers-of", type=int, default=0, metavar="N", help="on such a device: the N slowest layers")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2, help="of each runtime in each round")
    parser.add_argument("--bits", type=int, nargs="+", choices=[32, 8, 4], default=[32, 8, 4])
    arguments = parser.parse_args()
    random = np.random.default_rng(1)
    past = (1, arguments.heads, arguments.past, arguments.width // arguments.heads)
    arrays = {"token": np.full((1, arguments.tokens), 7, np.int64)}
    arguments.float_bytes = 2 if arguments.device != "cpu" and arguments.precision in ("fp16", "bf16") else 4
    for layer in range(arguments.layers):
        for what in ("key", "value"):
            arrays[f"past_{what}{layer}"] = random.standard_normal(past, np.float32)
    if arguments.device == "cpu":
        heads = ["weights", "MB read", "engine, MB", "GB/s", "floor, ms", "Tenon, ms", "Tenon / floor",
                 "ONNX Runtime, ms", "with INT8 activations, ms", "difference"]
    else:
        heads = ["weights", "MB read", "build, s", "ms", "range", "GB/s", "floor, ms", "ms / floor", "steps",
                 "products one by one, us", "difference"]
    print("| " + " | ".join(heads) + " |\n" + "| --- " * len(heads) + "|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for bits in arguments.bits:
            (row if arguments.device == "cpu" else device_row)(arguments, pathlib.Path(folder), bits, arrays)


if __name__ == "__main__":
    main()
