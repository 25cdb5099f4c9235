#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times one call of a tiny model (y = relu(a * x), four numbers) through Tenon's Python package and ONNX Runtime's, in
turn, in one process: the time is that of the call and not of the arithmetic. Then the time of an import, in processes
of their own.   usage: call_overhead.py [CALLS]"""
import statistics
import subprocess
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


def import_time(name):
    """Milliseconds of wall clock and of the processor; None where it is not installed."""
    code = ('import time; start = time.perf_counter(), time.process_time(); import %s; '
            'print(time.perf_counter() - start[0], time.process_time() - start[1])' % name)
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    return [1000 * float(one) for one in done.stdout.split()] if done.returncode == 0 else None


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
    for name in ('tenon', 'numpy', 'onnxruntime'):
        took = [import_time(name) for _ in range(9)]
        if None not in took:
            wall, processor = zip(*took)
            print('import %-23s %7.1f ms  (least %.1f), of the processor %.1f' % (
                name, statistics.median(wall), min(wall), statistics.median(processor)))


main()
