# SPDX-License-Identifier: Apache-2.0
"""Products whose weights alone are integers against ONNX Runtime: com.microsoft's MatMulNBits of 4 and 8 bits, blocks
of 16 to 128, with zero points and without, and DequantizeLinear in blocks, by output and of one scale before MatMul and
Gemm; for one row and for many.
usage: weight_only.py"""
import itertools
import os
import subprocess
import sys
import tempfile

import reference

np, onnx, onnxruntime = reference.imported('numpy', 'onnx', 'onnxruntime')
from onnx import TensorProto, helper, numpy_helper

TENON = os.environ['TENON']
MOST = 2e-5  # of the root mean square of the results


def model(rows, k, nodes, weights, opset=21):
    graph = helper.make_graph(nodes, 'net', [helper.make_tensor_value_info('x', TensorProto.FLOAT, [rows, k])],
                              [helper.make_tensor_value_info('y', TensorProto.FLOAT, None)], weights)
    opsets = [helper.make_opsetid('', opset), helper.make_opsetid('com.microsoft', 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def nbits(random, rows, bits, block, zeros, k=200, n=70):
    blocks = -(-k // block)
    weights = [numpy_helper.from_array(random.integers(0, 256, (n, blocks, block * bits // 8), np.uint8), 'w'),
               numpy_helper.from_array(random.random(n * blocks, np.float32) / 50 + 0.01, 's')]
    if zeros:
        points = random.integers(0, 256, n * -(-blocks * bits // 8)).astype(np.uint8)
        weights.append(numpy_helper.from_array(points, 'z'))
    node = helper.make_node('MatMulNBits', ['x', 'w', 's'] + ['z'] * zeros, ['p'], domain='com.microsoft', K=k, N=n,
                            bits=bits, block_size=block)
    weights.append(numpy_helper.from_array(random.random(n, np.float32), 'b'))
    return model(rows, k, [node, helper.make_node('Add', ['p', 'b'], ['q']), helper.make_node('Relu', ['q'], ['y'])],
                 weights), k


def blocks(random, rows, kind, block, zeros, gemm, k=128, n=70):
    low, high = {TensorProto.INT4: (-8, 8), TensorProto.UINT4: (0, 16), TensorProto.INT8: (-128, 128)}[kind]
    count = k // block if block else 1
    numbers = lambda *shape: random.integers(low, high, shape)
    shape = [n] if not block else [n, count] if gemm else [count, n]
    weights = [helper.make_tensor('w', kind, [n, k] if gemm else [k, n], numbers(n * k)),
               numpy_helper.from_array(random.random(shape, np.float32) / 50 + 0.01, 's')]
    if zeros:
        weights.append(helper.make_tensor('z', kind, shape, numbers(int(np.prod(shape)))))
    axis = int(gemm) if block else 1 - int(gemm)
    more = {'block_size': block} if block else {}
    op, how = ('Gemm', {'transB': 1}) if gemm else ('MatMul', {})
    product = helper.make_node(op, ['x', 'd'], ['y'], **how)
    nodes = [helper.make_node('DequantizeLinear', ['w', 's'] + ['z'] * zeros, ['d'], axis=axis, **more), product]
    return model(rows, k, nodes, weights), k


def difference(folder, net, rows, k, random):
    path, x = f'{folder}/net.onnx', random.standard_normal((rows, k), np.float32)
    onnx.save(net, path)
    np.save(f'{folder}/x.npy', x)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    expected = onnxruntime.InferenceSession(path, options, providers=['CPUExecutionProvider']).run(None, {'x': x})[0]
    quick = ['--budget', '0', '--timing-cache', '-']
    subprocess.run([TENON, 'build', path, '-o', f'{folder}/net.tenon', *quick], check=True, stdout=subprocess.DEVNULL)
    plan = subprocess.run([TENON, 'inspect', f'{folder}/net.tenon', '--stage', 'plan'], check=True,
                          capture_output=True, text=True).stdout
    subprocess.run([TENON, 'run', f'{folder}/net.tenon', '-i', f'x={folder}/x.npy', '-o', f'{folder}/out'], check=True,
                   stdout=subprocess.DEVNULL)
    error = np.abs(np.load(f'{folder}/out/y.npy') - expected).max() / np.sqrt(np.mean(expected**2))
    return error, 'WeightOnly' in plan


def main():
    random, failed = np.random.default_rng(0), 0
    cases = [('nbits', *case) for case in itertools.product((1, 5, 70), (4, 8), (16, 32, 128), (0, 1))]
    kinds = (TensorProto.INT4, TensorProto.UINT4, TensorProto.INT8)
    cases += [('blocks', *case) for case in itertools.product((1, 70), kinds, (32, 0), (0, 1), (0, 1))]
    with tempfile.TemporaryDirectory() as folder:
        for kind, rows, *case in cases:
            net, k = (nbits if kind == 'nbits' else blocks)(random, rows, *case)
            error, kept = difference(folder, net, rows, k, random)
            if not error < MOST or not kept:
                failed += 1
                print(kind, rows, case, f'{error:.1e}', 'weights are integers' if kept else 'weights are floats')
    print(len(cases), 'models,', failed, 'failed')
    return failed > 0


if __name__ == '__main__':
    sys.exit(main())
