#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times one call of a tiny model (y = relu(a * x), four numbers) through Tenon's Python package and ONNX Runtime's, in
turn, in one process: the time is that of the call and not of the arithmetic.   usage: call_overhead.py [CALLS]"""
import statistics
import sys
import time

import numpy
import onnx
from onnx import helper, numpy_helper

import tenon


def model():
    scale = numpy_helper.from_array(numpy.arange(4, dtype='float32'), 'a')
    nodes = [helper.make_node('Mul', ['x', 'a'], ['m']), helper.make_node('Relu', ['m'], ['y'])]
    end = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 4]) for name in 'xy']
    graph = helper.make_graph(nodes, 'tiny', end[:1], end[1:], [scale])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=8)
    return made.SerializeToString()


def time_of(call, count):
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count * 1e6


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20000
    value = numpy.ones((1, 4), 'float32')
    engine = tenon.build(model(), budget=0, threads=1)
    session = engine.session()
    bound = engine.session()
    bound.bind_input('x', value)
    bound.bind_output('y', numpy.zeros((1, 4), 'float32'))
    calls = {
        'tenon session(x)': lambda: session(value),
        'tenon session.run({...})': lambda: session.run({'x': value}),
        'tenon engine(x)': lambda: engine(value),
        'tenon session.run_bound()': bound.run_bound,
    }
    try:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        other = onnxruntime.InferenceSession(model(), options, providers=['CPUExecutionProvider'])
        calls['onnxruntime run(None, {...})'] = lambda: other.run(None, {'x': value})
    except ImportError:
        pass
    times = {name: [] for name in calls}
    for _ in range(9):
        for name, call in calls.items():
            times[name].append(time_of(call, count // 9))
    for name, list_ in times.items():
        print('%-30s %7.2f us  (least %.2f)' % (name, statistics.median(list_), min(list_)))


main()
