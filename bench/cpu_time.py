#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Races one thread of Tenon, ONNX Runtime and OpenVINO by CPU time, which hardly changes on a busy machine.

What several threads gain or lose by waiting for each other is not seen, nor is what the clock of the wall says; for
that there is zoo.py on an idle machine. Prints for each model the best peer's least CPU time of a run over Tenon's, and
all of them in ms. MODEL.npz beside MODEL.onnx has the inputs, by name.

With --precision int8 every layer may be in INT8, of all runtimes (int8_runs.py), calibrated on the samples in
MODEL.data/, and the lines are those of a table: times, and how many decibels results lie from those of Tenon's FP32.

  PYTHONPATH=build/release/python bench/cpu_time.py zoo/*.onnx [--rounds 3] [--seconds 0.2]
  PYTHONPATH=build/release/python bench/cpu_time.py nets/*.onnx --precision int8 --tenon build/release/bin/tenon
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


def timed(runs, options):
    """The least CPU time of a run of each, in ms."""
    counts = {name: max(1, int(options.seconds * 1e3 / max(milliseconds(run, 2), 1e-3))) for name, run in runs.items()}
    times = dict.fromkeys(runs, float('inf'))
    for _ in range(options.rounds):
        for name, run in runs.items():
            times[name] = min(times[name], milliseconds(run, counts[name]))
    return times


def started(makers, path, arrays, why):
    runs = {}
    for name, make in makers.items():
        try:
            run = make(path, arrays)
            run()
            runs[name] = run
        except Exception as error:  # a runtime that is not there, or does not take a model
            why.append(f' {name}: {(str(error).splitlines() or [type(error).__name__])[0][:120]}')
    return runs


def race(path, options):
    arrays, why = dict(np.load(path.with_suffix('.npz'))), []
    runs = started(RUNTIMES, path, arrays, why)
    times = timed(runs, options)
    peers = [value for name, value in times.items() if name != 'Tenon']
    ratio = f"{min(peers) / times['Tenon']:.2f}" if peers and 'Tenon' in times else '-'
    shown = ' '.join(f'{name} {value:.3g}' for name, value in times.items())
    print(f"{ratio} {path.stem} {shown}{''.join(why)}", flush=True)


def race_int8(path, options):
    """A line of a table: least times, the best peer's over Tenon's, and how far results lie from FP32's."""
    import int8_runs
    arrays, why = dict(np.load(path.with_suffix('.npz'))), []
    makers = {name: lambda path, arrays, make=make: make(path, arrays, options.tenon)
              for name, make in int8_runs.RUNTIMES.items()}
    runs = started({'Tenon FP32': tenon_run, **makers}, path, arrays, why)
    results = {name: int8_runs.decibels(run(), runs['Tenon FP32']()) for name, run in runs.items()}
    times = timed(runs, options)
    peers = [times[name] for name in ('ONNX Runtime', 'OpenVINO') if name in times]
    ratio = min(peers) / times['Tenon'] if peers and 'Tenon' in times else float('nan')
    columns = ['Tenon FP32', 'Tenon', 'OpenVINO', 'ONNX Runtime']
    cells = [f'{times[name]:.3g}' if name in times else '-' for name in columns]
    cells += [f'{ratio:.2f}', ' / '.join(f'{results[name]:.1f}' if name in results else '-' for name in columns[1:])]
    print(f"| {path.stem} | {' | '.join(cells)} |{''.join(why)}", flush=True)
    return ratio


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('models', type=pathlib.Path, nargs='+')
    parser.add_argument('--precision', choices=['fp32', 'int8'], default='fp32')
    parser.add_argument('--tenon', default='tenon', help='the command that builds, for int8')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--seconds', type=float, default=0.2, help='of each runtime in each round')
    options = parser.parse_args()
    if options.precision == 'fp32':
        for path in options.models:
            race(path, options)
        return
    print('| model | Tenon FP32 | Tenon | OpenVINO | ONNX Runtime | best peer / Tenon | dB: Tenon / OpenVINO / '
          'ONNX Runtime |\n|' + ' --- |' * 7, flush=True)
    ratios = [one for path in options.models if (one := race_int8(path, options)) == one]
    if ratios:
        print(f'\nGeometric mean of {len(ratios)}: {np.exp(np.mean(np.log(ratios))):.2f}; below 1.00: '
              f'{sum(one < 1 for one in ratios)}, the least {min(ratios):.2f}.')


if __name__ == '__main__':
    main()
