# SPDX-License-Identifier: Apache-2.0
"""Compares the reader with Python's onnx. usage: compare.py ONNX_DUMP MODEL..."""
import os
import subprocess
import sys
import zlib

import numpy as np
import onnx
from onnx import numpy_helper


def number(value):
    return '%.9g' % value


def tensor_line(kind, name, tensor, folder):
    if tensor.data_type == onnx.TensorProto.STRING:
        crc = 0
        for text in tensor.string_data:
            crc = zlib.crc32(text, crc)
    else:
        array = numpy_helper.to_array(tensor, folder)
        if tensor.data_type in (onnx.TensorProto.INT4, onnx.TensorProto.UINT4):
            array = array.astype(np.int8 if tensor.data_type == onnx.TensorProto.INT4 else np.uint8)
        crc = zlib.crc32(np.ascontiguousarray(array).tobytes())
    return '%s %s %d %s %08x' % (kind, name, tensor.data_type, 'x'.join(map(str, tensor.dims)) or 'scalar', crc)


def dump(graph, folder, lines):
    for tensor in graph.initializer:
        lines.append(tensor_line('initializer', tensor.name, tensor, folder))
    for node in graph.node:
        inputs, outputs = [' <' + n for n in node.input], [' >' + n for n in node.output]
        lines.append(''.join(['node %s %s' % (node.name, node.op_type)] + inputs + outputs))
        for a in node.attribute:
            words = [number(v) for v in a.floats] + [str(v) for v in a.ints] + [v.decode('latin1') for v in a.strings]
            scalars = 'attribute %s %d %s %d %s' % (a.name, a.type, number(a.f), a.i, a.s.decode('latin1'))
            lines.append(' '.join([scalars] + words))
            if a.HasField('t'):
                lines.append(tensor_line('tensor', a.name, a.t, folder))
            if a.HasField('g'):
                dump(a.g, folder, lines)


def main():
    different = 0
    for path in sys.argv[2:]:
        lines = ['file ' + path]
        dump(onnx.load(path, load_external_data=False).graph, os.path.dirname(path), lines)
        result = subprocess.run([sys.argv[1], path], capture_output=True)
        got = result.stdout.decode('latin1').split('\n')
        expected = '\n'.join(lines).encode().decode('latin1').split('\n')
        if got[:len(expected)] != expected:
            different += 1
            shorter = min(len(expected), len(got))
            at = next((i for i in range(shorter) if expected[i] != got[i]), shorter)
            print('%s line %d\n  expected %s\n  got      %s' % (path, at, expected[at:at + 1], got[at:at + 1]))
    print('%d models, %d differ' % (len(sys.argv) - 2, different))
    return different > 0


sys.exit(main())
