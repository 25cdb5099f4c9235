# SPDX-License-Identifier: Apache-2.0
"""An ONNX file as a PyTorch module: its nodes by PyTorch's functions, one by one."""

import numpy as np
import onnx
import onnx.numpy_helper
import torch
import torch.nn.functional as F


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
        if array.dtype == np.float32 and name not in self.plain:
            self.arrays[name] = 't%d' % len(self.arrays)
            self.register_buffer(self.arrays[name], torch.from_numpy(array.copy()))
        else:  # sizes and the like, as numbers that torch.compile takes for constants
            self.arrays[name] = array.reshape(-1).tolist()

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
    return [int(v) for v in value]


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
        low, high = (x[1][0], x[2][0]) if len(x) > 2 else (words['min'], words['max'])
        return torch.clamp(x[0], low, high)
    if op == 'Resize':
        factors = x[2][2:] if x[2] else None
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
