#!/usr/bin/env python3
"""Races Tenon against PyTorch on an NVIDIA GPU: device time of one captured run, inputs and outputs on the device.

Both run the same ONNX file: PyTorch by its own functions, node by node, in channels_last, eagerly and as a CUDA graph,
fp32 with TF32 allowed, fp16 and bf16. Of a name that networks.py knows (vit_b_16, bert, …), PyTorch runs the module
that the file was exported from, in the better of both orders. Tenon also runs in int8, calibrated on random pictures in
eight bits wherever they are faster; it is shown beside PyTorch's fp16. Prints a Markdown table of medians in ms, and
with --slowest N the slowest layers of each largest batch beside the least time that their bytes or products could take.

  pip install torch numpy onnx
  bench/gpu/race.py build/release/bin/tenon resnet50.onnx:1,8,128 yolov8n.onnx:1,8,32:fp16,int8 vit_b_16:1,8:fp16
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.numpy_helper
import torch
import torch.nn.functional as F

import networks


def with_batch(path, batch, folder):
    """The model with a fixed batch: the input's first size, and the first size that reshapes ask for."""
    model = onnx.load(path)
    known = {tensor.name: tensor for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.name not in known:
            value.type.tensor_type.shape.dim[0].ClearField('dim_param')
            value.type.tensor_type.shape.dim[0].dim_value = batch
    for value in list(model.graph.output) + list(model.graph.value_info):
        value.type.tensor_type.ClearField('shape')
    for node in model.graph.node:
        target = known.get(node.input[1]) if node.op_type == 'Reshape' else None
        if target is not None:
            sizes = onnx.numpy_helper.to_array(target).copy()
            if sizes.size and sizes[0] == 1:
                sizes[0] = batch
                target.CopyFrom(onnx.numpy_helper.from_array(sizes, target.name))
    out = str(pathlib.Path(folder) / ('%s_%d.onnx' % (pathlib.Path(path).stem, batch)))
    onnx.save(model, out)
    return out


class Network(torch.nn.Module):
    """The nodes of an ONNX graph, run in order."""

    def __init__(self, path):
        super().__init__()
        graph = onnx.load(path).graph
        self.arrays = {}
        self.plain = {name for node in graph.node if node.op_type in ('Resize', 'Clip') for name in node.input[1:]}
        for tensor in graph.initializer:
            self.add(tensor.name, onnx.numpy_helper.to_array(tensor))
        self.nodes = []
        for node in graph.node:
            words = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            if node.op_type == 'Constant':
                self.add(node.output[0], onnx.numpy_helper.to_array(words['value']))
            else:
                self.nodes.append((node.op_type, list(node.input), list(node.output), words))
        self.input = [v.name for v in graph.input if v.name not in self.arrays][0]
        self.outputs = [v.name for v in graph.output]
        self.shape = [d.dim_value for v in graph.input if v.name == self.input
                      for d in v.type.tensor_type.shape.dim]

    def add(self, name, array):
        self.arrays[name] = array
        if array.dtype == np.float32 and name not in self.plain:
            self.register_buffer('t%d' % len(self.arrays), torch.from_numpy(array.copy()))
            self.arrays[name] = 't%d' % len(self.arrays)

    def forward(self, x):
        values = {self.input: x}

        def get(name):
            if name in values:
                return values[name]
            stored = self.arrays[name]
            return getattr(self, stored) if isinstance(stored, str) else stored

        for op, inputs, outputs, words in self.nodes:
            results = run(op, [get(name) if name else None for name in inputs], words)
            values.update(zip(outputs, results if isinstance(results, (list, tuple)) else [results]))
        return [values[name] for name in self.outputs]


def numbers(value):
    return [int(v) for v in np.asarray(value).reshape(-1)]


def run(op, x, words):
    if op == 'Conv':
        pads = words.get('pads', [0, 0, 0, 0])
        if pads[:2] != pads[2:]:
            x[0], pads = F.pad(x[0], (pads[1], pads[3], pads[0], pads[2])), [0, 0]
        return F.conv2d(x[0], x[1], x[2] if len(x) > 2 else None, words.get('strides', [1, 1]), pads[:2],
                        words.get('dilations', [1, 1]), words.get('group', 1))
    if op == 'BatchNormalization':
        return F.batch_norm(x[0], x[3], x[4], x[1], x[2], eps=words.get('epsilon', 1e-5))
    if op == 'Gemm':
        return F.linear(x[0], x[1] if words.get('transB') else x[1].t(), x[2])
    if op == 'MaxPool':
        pads = words.get('pads', [0, 0, 0, 0])
        if pads[:2] != pads[2:]:
            x[0], pads = F.pad(x[0], (pads[1], pads[3], pads[0], pads[2]), value=float('-inf')), [0, 0]
        return F.max_pool2d(x[0], words['kernel_shape'], words.get('strides', [1, 1]), pads[:2],
                            ceil_mode=bool(words.get('ceil_mode', 0)))
    if op == 'Clip':
        low, high = (float(x[1]), float(x[2])) if len(x) > 2 else (words['min'], words['max'])
        return torch.clamp(x[0], low, high)
    if op == 'Resize':
        factors = x[2].tolist()[2:] if x[2] is not None and len(x[2]) else None
        return F.interpolate(x[0], scale_factor=factors, mode='nearest')
    if op == 'Reshape':
        sizes = numbers(x[1])
        return x[0].reshape([x[0].shape[i] if s == 0 else s for i, s in enumerate(sizes)])
    if op == 'Slice':
        starts, ends = numbers(x[1]), numbers(x[2])
        axes = numbers(x[3]) if len(x) > 3 else list(range(len(starts)))
        for start, end, axis in zip(starts, ends, axes):
            place = [slice(None)] * x[0].dim()
            place[axis] = slice(start, end)
            x[0] = x[0][tuple(place)]
        return x[0]
    if op == 'Split':
        return torch.split(x[0], numbers(x[1] if len(x) > 1 else words['split']), words.get('axis', 0))
    simple = {'Relu': torch.relu, 'Sigmoid': torch.sigmoid, 'Add': torch.add, 'Sub': torch.sub, 'Mul': torch.mul,
              'Div': torch.div, 'MatMul': torch.matmul, 'Identity': lambda a: a}
    if op in simple:
        return simple[op](*x)
    if op == 'Concat':
        return torch.cat(x, words['axis'])
    if op == 'Transpose':
        return x[0].permute(words['perm'])
    if op == 'Softmax':
        return torch.softmax(x[0], words.get('axis', -1))
    if op == 'GlobalAveragePool':
        return x[0].mean((2, 3), keepdim=True)
    if op == 'ReduceMean':
        return x[0].mean([int(a) for a in words['axes']], keepdim=bool(words.get('keepdims', 1)))
    if op == 'Flatten':
        return x[0].flatten(words.get('axis', 1))
    raise NotImplementedError(op)


# What one H200 does: bytes a second from memory, and from its cache where a layer fits; products a second.
MEMORY, CACHE, CACHED = 4.28e12, 9.0e12, 40e6
PRODUCTS = {'tf32': 190e12, 'fp16': 379e12, 'bf16': 379e12, 'int8': 795e12}
BYTES = {'tf32': 4, 'fp16': 2, 'bf16': 2, 'int8': 1}


class Floors:
    """The least microseconds of layers: of what a group of ONNX nodes reads and writes outside of itself."""

    def __init__(self, path, precision):
        model = onnx.shape_inference.infer_shapes(onnx.load(path))
        self.graph, self.precision = model.graph, precision
        self.constants = {t.name: int(np.prod(t.dims)) for t in model.graph.initializer}
        values = list(model.graph.value_info) + list(model.graph.input) + list(model.graph.output)
        self.sizes = {v.name: int(np.prod([d.dim_value or 1 for d in v.type.tensor_type.shape.dim])) for v in values}
        self.ends = {v.name for v in model.graph.output}
        self.pictures = {v.name for v in model.graph.input}
        self.shapes = {t.name: list(t.dims) for t in model.graph.initializer}

    def of(self, origins):
        nodes = [node for node in self.graph.node if node.name in origins]
        made = {name for node in nodes for name in node.output}
        read = {name for node in nodes for name in node.input} - made
        used = {name for node in self.graph.node if node.name not in origins for name in node.input} | self.ends
        element = BYTES[self.precision]
        moved = sum(self.sizes.get(name, 0) * (4 if name in self.pictures else element)
                    for name in read if name not in self.constants)
        moved += sum(self.sizes.get(name, 0) * (4 if name in self.ends else element) for name in made & used)
        moved += sum(self.constants.get(name, 0) * element for name in read)
        products = 0
        for node in nodes:
            if node.op_type in ('Conv', 'Gemm') and node.input[1] in self.shapes:
                shape = self.shapes[node.input[1]]
                products += self.sizes.get(node.output[0], 0) * int(np.prod(shape)) // (
                    shape[0] if node.op_type == 'Conv' else min(shape[0], self.sizes.get(node.output[0], 1)))
        rate = CACHE if moved < CACHED else MEMORY
        return max(moved / rate, products / PRODUCTS[self.precision]) * 1e6


def slowest(path, precision, layers, count):
    floors = Floors(path, precision)
    lines = []
    for layer in sorted(layers, key=lambda one: -one['us'])[:count]:
        floor = floors.of(set(layer['origins']))
        lines.append('| %s | %s | %.1f | %.1f | %.1f |' % (layer['name'], layer['tactic'], layer['us'], floor,
                                                       layer['us'] / floor if floor else float('nan')))
    return lines


def milliseconds(work, seconds=1.0):
    for _ in range(5):
        work()
    torch.cuda.synchronize()
    times, total = [], 0.0
    while total < seconds * 1e3 and len(times) < 2000:
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
        total += times[-1]
    return statistics.median(times)


def pytorch(network, x, dtype, formats=(torch.channels_last,)):
    """Medians eagerly and as a graph, in the better of the memory formats."""
    network, x = network.cuda().to(dtype).eval(), x.cuda()
    if not x.is_floating_point():
        return pytorch_in(network, x)
    times = [pytorch_in(network.to(memory_format=order), x.to(dtype).contiguous(memory_format=order))
             for order in formats]
    return tuple(min(column) for column in zip(*times))


@torch.inference_mode()
def pytorch_in(network, x):
    eager = milliseconds(lambda: network(x))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            network(x)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        network(x)
    return eager, milliseconds(graph.replay)


def pictures(path, folder):
    """Random patches with noise, as an array that fits the model's input."""
    graph = onnx.load(path, load_external_data=False).graph
    known = {tensor.name for tensor in graph.initializer}
    shape = [d.dim_value for v in graph.input if v.name not in known for d in v.type.tensor_type.shape.dim]
    random = np.random.default_rng(1)
    patches = random.random((4, shape[1], shape[2] // 16, shape[3] // 16), dtype=np.float32)
    array = np.kron(patches, np.ones((1, 1, 16, 16), np.float32)) * 0.8
    array += 0.2 * random.random(array.shape, dtype=np.float32)
    out = str(pathlib.Path(folder) / 'pictures.npy')
    np.save(out, array.astype(np.float32))
    return out


def tenon(command, path, precision, folder, more):
    words = ['--device', 'cuda', '--precision', precision] + more
    if precision == 'int8':
        engine = str(pathlib.Path(folder) / 'int8.tenon')
        data = ['--data', pictures(path, folder), '--calibrator', 'minmax', '--max-error', '1e9', '-q']
        subprocess.run([command, 'build', path, '-o', engine] + words + data, check=True, stdout=subprocess.DEVNULL)
        path, words = engine, more
    with tempfile.NamedTemporaryFile('r', suffix='.json') as out:
        words = [command, 'bench', path] + words + ['--iterations', '50', '-q', '--json', out.name]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        result = json.load(open(out.name))
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('tenon')
    parser.add_argument('models', nargs='+', help='MODEL.onnx:BATCH,BATCH[:PRECISION,PRECISION]')
    parser.add_argument('--no-torch', action='store_true', help='Tenon alone')
    parser.add_argument('--no-vendor', action='store_true', help='own kernels only')
    parser.add_argument('--slowest', type=int, default=0, metavar='N', help='layers of each largest batch')
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    print('%s, PyTorch %s, CUDA %s, cuDNN %s\n' % (torch.cuda.get_device_name(), torch.__version__, torch.version.cuda,
                                                   torch.backends.cudnn.version()))
    print('| model | batch | precision | Tenon, on the GPU | with copies | arena MiB | PyTorch eager | PyTorch graph | '
          'graph / Tenon |')
    print('| --- | --- | --- | --- | --- | --- | --- | --- | --- |')
    with tempfile.TemporaryDirectory() as folder:
        tables = []
        for word in options.models:
            path, batches, chosen = (word.split(':') + ['tf32,fp16,int8'])[:3]
            stem, batches = pathlib.Path(path).stem, [int(batch) for batch in batches.split(',')]
            for batch in batches:
                named = not path.endswith('.onnx')
                network, fixed = networks.exported(path, batch, folder) if named else (
                    None, with_batch(path, batch, folder))
                eager, graph = float('nan'), float('nan')
                for precision, dtype in (('tf32', torch.float32), ('fp16', torch.float16), ('bf16', torch.bfloat16),
                                         ('int8', None)):
                    if precision not in chosen.split(','):
                        continue
                    result = tenon(options.tenon, fixed, precision, folder,
                                   ['--no-vendor'] if options.no_vendor else [])
                    device, wall = result['device_latency_ms']['median'], result['latency_ms']['median']
                    if dtype and not options.no_torch:
                        if not named:
                            network = Network(fixed)
                        x = networks.example(path, batch) if named else torch.rand(network.shape)
                        both = (torch.contiguous_format, torch.channels_last)
                        eager, graph = pytorch(network, x, dtype, both if named else both[1:])
                    print('| %s | %d | %s | %.4g | %.4g | %.1f | %.4g | %.4g | %.2f |' % (
                        stem, batch, precision, device, wall, result['memory']['arena_bytes'] / 2**20, eager, graph,
                        graph / device), flush=True)
                    torch.cuda.empty_cache()
                    if options.slowest and batch == max(batches):
                        tables.append(('%s, batch %d, %s' % (stem, batch, precision),
                                       slowest(fixed, precision, result['layers'], options.slowest)))
        for title, lines in tables:
            print('\n%s\n\n| layer | kernel | us | floor | us / floor |\n| --- | --- | --- | --- | --- |' % title)
            print('\n'.join(lines), flush=True)


if __name__ == '__main__':
    sys.exit(main())
