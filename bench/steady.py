#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How steady runs are on cores that others use, too: Tenon beside ONNX Runtime, in the same minutes.

Five small and middle networks with random weights run one after the other: alone, beside two busy processes, beside a
second session of the same runtime on the same network, and in a control group with a CPU quota of half a core less than
threads, where groups can be made here. Prints a Markdown table: median in ms, the 99th percentile over it, and the
longest run over it. "loop" is a plain loop of the length of Tenon's median alone, on one thread: what the system alone
does to a run.

  pip install numpy onnx onnxruntime
  bench/steady.py build/release/bin/tenon [--other BEFORE] [--seconds 15] [--threads 2]
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BUSY = "import time\nwhile True: pass"


class Net:
    """A graph that grows by a node at a time, its weights random."""

    def __init__(self, *inputs):
        self.nodes, self.weights, self.count = [], [], 0
        self.inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs]
        self.random = np.random.default_rng(0)

    def weight(self, *shape):
        name = f"w{len(self.weights)}"
        fan = max(1, int(np.prod(shape[1:])))
        values = self.random.standard_normal(shape).astype(np.float32) / np.float32(np.sqrt(fan))
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def constant(self, values):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def add(self, op, *inputs, outputs=1, **attributes):
        self.count += 1
        names = [f"v{self.count}_{at}" for at in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def save(self, path, *outputs):
        infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "net", self.inputs, infos, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(onnx.shape_inference.infer_shapes(model), path)


def recurrent(op, gates, path, steps=50, width=64, hidden=128):
    net = Net(("x", [steps, 1, width]))
    weights = net.weight(1, gates * hidden, width), net.weight(1, gates * hidden, hidden)
    y, _ = net.add(op, "x", *weights, outputs=3 if op == "LSTM" else 2, hidden_size=hidden)[:2]
    net.save(path, y)


def decoder(path, layers=4, width=256, heads=4, tokens=16, seen=32):
    """Blocks of self-attention, attention to an encoder's states, and two products, as T5's decoder has them."""
    net = Net(("x", [1, tokens, width]), ("states", [1, seen, width]))

    def norm(x):
        square = net.add("Mul", x, x)
        mean = net.add("ReduceMean", square, axes=[-1], keepdims=1)
        root = net.add("Sqrt", net.add("Add", mean, net.constant(np.float32(1e-6))))
        return net.add("Mul", net.add("Div", x, root), net.weight(width))

    def split(x, length):
        shape = net.constant(np.array([1, length, heads, width // heads], np.int64))
        return net.add("Transpose", net.add("Reshape", x, shape), perm=[0, 2, 1, 3])

    def attend(x, y, length):
        q, k, v = (split(net.add("MatMul", a, net.weight(width, width)), n)
                   for a, n in ((x, tokens), (y, length), (y, length)))
        scores = net.add("MatMul", q, net.add("Transpose", k, perm=[0, 1, 3, 2]))
        mixed = net.add("MatMul", net.add("Softmax", scores, axis=-1), v)
        flat = net.add("Reshape", net.add("Transpose", mixed, perm=[0, 2, 1, 3]),
                       net.constant(np.array([1, tokens, width], np.int64)))
        return net.add("MatMul", flat, net.weight(width, width))

    x = "x"
    for _ in range(layers):
        normed = norm(x)
        x = net.add("Add", x, attend(normed, normed, tokens))
        x = net.add("Add", x, attend(norm(x), "states", seen))
        wide = net.add("Relu", net.add("MatMul", norm(x), net.weight(width, 4 * width)))
        x = net.add("Add", x, net.add("MatMul", wide, net.weight(4 * width, width)))
    net.save(path, norm(x))


def convolve(net, x, source, to, kernel, stride=1, groups=1, clip=None):
    pad = kernel // 2
    y = net.add("Conv", x, net.weight(to, source // groups, kernel, kernel), net.weight(to), pads=[pad] * 4,
                strides=[stride] * 2, group=groups)
    if clip == "relu":
        return net.add("Relu", y)
    return net.add("Clip", y, net.constant(np.float32(0)), net.constant(np.float32(6))) if clip else y


def classify(net, x, channels, path):
    pooled = net.add("Flatten", net.add("GlobalAveragePool", x))
    net.save(path, net.add("Gemm", pooled, net.weight(1000, channels), net.weight(1000), transB=1))


def mobilenet_v2(path):
    net = Net(("x", [1, 3, 224, 224]))
    x, channels = convolve(net, "x", 3, 32, 3, 2, clip="6"), 32
    for expand, to, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                      (6, 160, 3, 2), (6, 320, 1, 1)):
        for at in range(count):
            y, wide = x, channels * expand
            if expand > 1:
                y = convolve(net, y, channels, wide, 1, clip="6")
            y = convolve(net, y, wide, wide, 3, stride if at == 0 else 1, wide, "6")
            y = convolve(net, y, wide, to, 1)
            x = net.add("Add", x, y) if at > 0 else y
            channels = to
    classify(net, convolve(net, x, channels, 1280, 1, clip="6"), 1280, path)


def resnet50(path):
    net = Net(("x", [1, 3, 224, 224]))
    x = net.add("MaxPool", convolve(net, "x", 3, 64, 7, 2, clip="relu"), kernel_shape=[3, 3], strides=[2, 2],
                pads=[1] * 4)
    channels = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for at in range(count):
            step = stride if at == 0 else 1
            y = convolve(net, x, channels, width, 1, clip="relu")
            y = convolve(net, y, width, width, 3, step, clip="relu")
            y = convolve(net, y, width, 4 * width, 1)
            beside = x if at > 0 else convolve(net, x, channels, 4 * width, 1, step)
            x = net.add("Relu", net.add("Add", y, beside))
            channels = 4 * width
    classify(net, x, channels, path)


NETS = {
    "GRU": lambda path: recurrent("GRU", 3, path),
    "LSTM": lambda path: recurrent("LSTM", 4, path),
    "T5 decoder": decoder,
    "MobileNetV2": mobilenet_v2,
    "ResNet-50": resnet50,
}


def summary(times):
    times = np.asarray(times) * 1e3
    middle = float(np.median(times))
    return {"median": middle, "p99": float(np.percentile(times, 99)), "max": float(times.max()), "runs": len(times)}


def time_calls(call, seconds):
    for _ in range(10):
        call()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return summary(times)


def run_onnxruntime(path, threads, seconds):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(1)
    arrays = {value.name: random.random(value.shape).astype(np.float32) for value in session.get_inputs()}
    return time_calls(lambda: session.run(None, arrays), seconds)


def run_loop(length, seconds):
    steps = 1000
    begin = time.process_time()
    for _ in range(2000):
        for _ in range(steps):
            pass
    steps = max(1, int(steps * length / ((time.process_time() - begin) / 2000)))

    def call():
        for _ in range(steps):
            pass

    return time_calls(call, seconds)


def own(*words):
    return [sys.executable, __file__, "--worker", *map(str, words)]


class Quota:
    """A control group with a CPU quota; `enter` is for the child that shall be in it."""

    def __init__(self, cores):
        self.folder = None
        for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            old = "cpu" in controllers.split(",")
            if controllers and not old:
                continue
            folder = pathlib.Path("/sys/fs/cgroup" + ("/cpu" if old else "") + path) / f"steady.{os.getpid()}"
            try:
                folder.mkdir()
                if not (folder / "cgroup.procs").exists():
                    raise FileNotFoundError(folder)
                if old:
                    (folder / "cpu.cfs_period_us").write_text("100000")
                    (folder / "cpu.cfs_quota_us").write_text(str(int(cores * 1e5)))
                else:
                    (folder / "cpu.max").write_text(f"{int(cores * 1e5)} 100000")
                self.folder = folder
                return
            except OSError:
                if folder.exists():
                    folder.rmdir()

    def enter(self):
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def close(self):
        if self.folder:
            self.folder.rmdir()


class Bench:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.commands = {"Tenon": arguments.tenon}
        if arguments.other:
            self.commands["before"] = arguments.other
        self.runtimes = list(self.commands)
        try:
            import onnxruntime

            self.peer = f"ONNX Runtime {onnxruntime.__version__}"
            self.runtimes.append(self.peer)
        except ImportError:
            self.peer = None
        self.alone = {}

    def engine(self, runtime, net):
        path = self.folder / f"{net}.{runtime}.tenon"
        if not path.exists():
            words = [self.commands[runtime], "build", self.folder / f"{net}.onnx", "-o", path, "--threads",
                     str(self.arguments.threads), "--quiet"]
            subprocess.run(words, check=True, capture_output=True)
        return path

    def command(self, runtime, net):
        seconds, threads = str(self.arguments.seconds), str(self.arguments.threads)
        if runtime in self.commands:
            return [self.commands[runtime], "bench", self.engine(runtime, net), "--threads", threads, "--seconds",
                    seconds, "--json", "-"]
        if runtime == "loop":
            return own("loop", self.alone[net] / 1e3, seconds)
        return own("onnxruntime", self.folder / f"{net}.onnx", threads, seconds)

    def run(self, runtime, net, condition):
        command = self.command(runtime, net)
        busy, quota, enter = [], None, None
        if condition == "two busy processes":
            busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(2)]
        elif condition == "a second session":
            busy = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)]
        elif condition.startswith("a quota"):
            quota = Quota(self.arguments.threads - 0.5)
            enter = quota.enter
        try:
            text = subprocess.run(command, check=True, capture_output=True, text=True, preexec_fn=enter).stdout
        finally:
            for process in busy:
                process.terminate()
                process.wait()
            if quota:
                quota.close()
        found = json.loads(text)
        return {**found.get("latency_ms", found), "runs": found["runs"]}

    def conditions(self):
        conditions = ["alone", "two busy processes", "a second session"]
        probe = Quota(self.arguments.threads - 0.5)
        if probe.folder:
            conditions.append(f"a quota of {self.arguments.threads - 0.5} cores")
        else:
            print("no control group can be made here: no row with a quota", file=sys.stderr)
        probe.close()
        return conditions

    def rows(self):
        print("| network | condition | runtime | median ms | p99 / median | longest / median | runs |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for net, make in NETS.items():
            if self.arguments.nets and net not in self.arguments.nets:
                continue
            make(str(self.folder / f"{net}.onnx"))
            for condition in self.conditions():
                for runtime in self.runtimes + (["loop"] if condition != "alone" else []):
                    found = self.run(runtime, net, condition)
                    middle = found["median"]
                    if condition == "alone" and runtime == "Tenon":
                        self.alone[net] = middle
                    print(f"| {net} | {condition} | {runtime} | {middle:.3g} | {found['p99'] / middle:.2f} | "
                          f"{found['max'] / middle:.1f} | {found['runs']} |", flush=True)


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--worker":
        kind, *words = sys.argv[2:]
        found = (run_loop(float(words[0]), float(words[1])) if kind == "loop" else
                 run_onnxruntime(words[0], int(words[1]), float(words[2])))
        print(json.dumps(found))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tenon")
    parser.add_argument("--other", help="another build of the command")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--nets", nargs="*", choices=list(NETS))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Bench(arguments, pathlib.Path(folder)).rows()


if __name__ == "__main__":
    main()
