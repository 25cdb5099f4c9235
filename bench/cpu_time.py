#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Races one thread of Tenon, ONNX Runtime and OpenVINO by CPU time, which hardly changes on a busy machine.

What several threads gain or lose by waiting for each other is not seen, nor is what the clock of the wall says; for
that there is zoo.py on an idle machine. Prints for each model the best peer's least CPU time of a run over Tenon's, and
all of them in ms. MODEL.npz beside MODEL.onnx has the inputs, by name.

  PYTHONPATH=build/release/python bench/cpu_time.py zoo/*.onnx [--rounds 3] [--seconds 0.2]
"""

import argparse
import pathlib
import time

import numpy as np


def tenon_run(path, arrays):
    import tenon
    shapes = {name: list(array.shape) for name, array in arrays.items() if array.ndim}
    session = tenon.build(str(path), threads=1, shapes=shapes or None).session(threads=1)
    return lambda: session.run(arrays)


def onnxruntime_run(path, arrays):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=['CPUExecutionProvider'])
    return lambda: session.run(None, arrays)


def openvino_run(path, arrays):
    import openvino
    core = openvino.Core()
    model = core.read_model(str(path))
    model.reshape({one.any_name: list(arrays[one.any_name].shape) for one in model.inputs})
    request = core.compile_model(model, 'CPU', {'INFERENCE_NUM_THREADS': 1, 'PERFORMANCE_HINT': 'LATENCY',
                                                'INFERENCE_PRECISION_HINT': 'f32'}).create_infer_request()
    return lambda: request.infer(arrays)


RUNTIMES = {'Tenon': tenon_run, 'ONNX Runtime': onnxruntime_run, 'OpenVINO': openvino_run}


def milliseconds(run, count):
    begin = time.process_time()
    for _ in range(count):
        run()
    return (time.process_time() - begin) / count * 1e3


def race(path, options):
    arrays, runs, why = dict(np.load(path.with_suffix('.npz'))), {}, ''
    for name, make in RUNTIMES.items():
        try:
            run = make(path, arrays)
            run()
            runs[name] = run
        except Exception as error:  # a runtime that is not there, or does not take a model
            why += f' {name}: {str(error).splitlines()[0][:80]}'
    counts = {name: max(1, int(options.seconds * 1e3 / max(milliseconds(run, 2), 1e-3))) for name, run in runs.items()}
    times = dict.fromkeys(runs, float('inf'))
    for _ in range(options.rounds):
        for name, run in runs.items():
            times[name] = min(times[name], milliseconds(run, counts[name]))
    peers = [value for name, value in times.items() if name != 'Tenon']
    ratio = f"{min(peers) / times['Tenon']:.2f}" if peers and 'Tenon' in times else '-'
    print(f"{ratio} {path.stem} {' '.join(f'{name} {value:.3g}' for name, value in times.items())}{why}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('models', type=pathlib.Path, nargs='+')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--seconds', type=float, default=0.2, help='of each runtime in each round')
    options = parser.parse_args()
    for path in options.models:
        race(path, options)


if __name__ == '__main__':
    main()
