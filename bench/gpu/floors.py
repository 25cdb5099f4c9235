# SPDX-License-Identifier: Apache-2.0
"""The least time that layers of a network could take on one H200."""

import numpy as np
import onnx

# What one H200 does: bytes a second from memory, and from its cache where a layer fits; products a second, of f32 by
# three of tf32.
MEMORY, CACHE, CACHED = 4.28e12, 9.0e12, 40e6
PRODUCTS = {'fp32': 63e12, 'tf32': 190e12, 'fp16': 379e12, 'bf16': 379e12, 'int8': 795e12}
BYTES = {'fp32': 4, 'tf32': 4, 'fp16': 2, 'bf16': 2, 'int8': 1}


class Floors:
    """The least microseconds of layers: of what a group of ONNX nodes reads and writes outside of itself."""

    def __init__(self, path, precision):
        model = onnx.shape_inference.infer_shapes(onnx.load(path))
        self.graph, self.precision = model.graph, precision
        self.constants = {t.name: int(np.prod(t.dims)) for t in model.graph.initializer}
        values = list(model.graph.value_info) + list(model.graph.input) + list(model.graph.output)
        self.sizes = {v.name: int(np.prod([d.dim_value or 1 for d in v.type.tensor_type.shape.dim])) for v in values}
        self.ends = {v.name for v in model.graph.output}
        self.images = {v.name for v in model.graph.input}
        self.shapes = {t.name: list(t.dims) for t in model.graph.initializer}
        self.depths = {v.name: v.type.tensor_type.shape.dim[-1].dim_value for v in values
                       if v.type.tensor_type.shape.dim}

    def of(self, origins):
        nodes = [node for node in self.graph.node if node.name in origins]
        made = {name for node in nodes for name in node.output}
        read = {name for node in nodes for name in node.input} - made
        used = {name for node in self.graph.node if node.name not in origins for name in node.input} | self.ends
        element = BYTES[self.precision]
        moved = sum(self.sizes.get(name, 0) * (4 if name in self.images else element)
                    for name in read if name not in self.constants)
        moved += sum(self.sizes.get(name, 0) * (4 if name in self.ends else element) for name in made & used)
        moved += sum(self.constants.get(name, 0) * element for name in read)
        products = 0
        for node in nodes:
            if node.op_type == 'MatMul':
                products += self.sizes.get(node.output[0], 0) * self.depths.get(node.input[0], 0)
            if node.op_type in ('Conv', 'Gemm') and node.input[1] in self.shapes:
                shape = self.shapes[node.input[1]]
                products += self.sizes.get(node.output[0], 0) * int(np.prod(shape)) // (
                    shape[0] if node.op_type == 'Conv' else min(shape[0], self.sizes.get(node.output[0], 1)))
        rate = CACHE if moved < CACHED else MEMORY
        return max(moved / rate, products / PRODUCTS[self.precision]) * 1e6


def slowest(path, precision, layers, count):
    """Lines of a table: name, kernel, microseconds, floor, their ratio."""
    floors = Floors(path, precision)
    lines = []
    for layer in sorted(layers, key=lambda one: -one['us'])[:count]:
        floor = floors.of(set(layer['origins']))
        lines.append([layer['name'], layer['tactic'], '%.1f' % layer['us'], '%.1f' % floor,
                      '%.1f' % (layer['us'] / floor if floor else float('nan'))])
    return lines
