#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Races loops on this machine's CPU: an LSTM written as a loop over time, and a decoder that attends to all rounds
before, against ONNX Runtime and, where given, another build of Tenon.

Each is timed in turn, several rounds, by `tenon bench` and by ONNX Runtime's own sessions; prints a Markdown table of
least times in ms, as what other processes take of the cores is of no interest, and the others' over Tenon's.

  bench/control_flow.py build/release/bin/tenon [--other OLD_TENON] [--threads N]
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tests', 'control_flow'))
import cases  # noqa: E402

TRUE = np.array(True)


def lstm(steps, size, hidden):
    """One layer, batch 1."""
    cases.lstm('bench', steps, 1, size, hidden, [])
    model, runs = cases.CASES['bench']
    return model, runs[0]


def decoder(steps, width, tokens):
    """One layer of attention over a cache that grows by a row a round, a feed-forward, and the choice of a token."""
    node, value, constant, floats = cases.node, cases.value, cases.constant, cases.floats
    body = cases.graph('step', [
        node('Gather', 'table token', 'x'), node('MatMul', 'x wq', 'q'), node('MatMul', 'x wk', 'k'),
        node('MatMul', 'x wv', 'v'), node('Concat', 'ks k', 'ks1', axis=0), node('Concat', 'vs v', 'vs1', axis=0),
        node('Transpose', 'ks1', 'kt'), node('MatMul', 'q kt', 'scores'), node('Softmax', 'scores', 'p'),
        node('MatMul', 'p vs1', 'a'), node('Add', 'a x', 'r'), node('MatMul', 'r w1', 'f1'), node('Relu', 'f1', 'f2'),
        node('MatMul', 'f2 w2', 'f3'), node('Add', 'f3 r', 'o'), node('MatMul', 'o head', 'logits'),
        node('ArgMax', 'logits', 'token1', axis=1, keepdims=0), node('Identity', 'c', 'on1')],
        cases.loop_inputs(value('token', [1], onnx.TensorProto.INT64), value('ks', ['t', width]),
                          value('vs', ['t', width])),
        [value('on1', [], onnx.TensorProto.BOOL), value('token1', [1], onnx.TensorProto.INT64),
         value('ks1', ['t1', width]), value('vs1', ['t1', width])])
    cases.add('bench', [node('Loop', 'n on start none none', 'token9 ks9 vs9', body=body)],
              [value('start', [1], onnx.TensorProto.INT64)], [value('token9', kind=onnx.TensorProto.INT64)],
              [{'start': np.array([1])}],
              [constant('table', floats(tokens, width)), constant('wq', floats(width, width, scale=0.05)),
               constant('wk', floats(width, width, scale=0.05)), constant('wv', floats(width, width, scale=0.05)),
               constant('w1', floats(width, 4 * width, scale=0.05)),
               constant('w2', floats(4 * width, width, scale=0.05)), constant('head', floats(width, tokens)),
               constant('n', np.array(steps)), constant('on', TRUE),
               constant('none', np.zeros((0, width), np.float32))])
    model, runs = cases.CASES['bench']
    return model, runs[0]


MODELS = {
    'LSTM as Loop, 64 steps, 128 to 256': lambda: lstm(64, 128, 256),
    'LSTM as Loop, 64 steps, 32 to 64': lambda: lstm(64, 32, 64),
    'decoder, 32 tokens, width 256': lambda: decoder(32, 256, 1000),
    'decoder, 128 tokens, width 64': lambda: decoder(128, 64, 200),
}


def tenon(command, path, threads):
    words = [command, 'bench', path, '--threads', str(threads), '--json', '-', '-q', '--timing-cache', '-']
    report = json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
    return (report[0] if isinstance(report, list) else report.get('results', [report])[0])['latency_ms']['min']


def onnx_runtime(session, inputs, seconds=1.0):
    session.run(None, inputs)
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        session.run(None, inputs)
        times.append((time.perf_counter() - begin) * 1e3)
    return min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('tenon')
    parser.add_argument('--other')
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--rounds', type=int, default=3)
    options = parser.parse_args()
    names = ['Tenon', 'ONNX Runtime'] + (['other'] if options.other else [])
    print('| model | ' + ' | '.join(names) + ' | ' + ' | '.join(name + ' / Tenon' for name in names[1:]) + ' |')
    print('|---' * (2 * len(names)) + '|')
    with tempfile.TemporaryDirectory() as folder:
        for name, make in MODELS.items():
            model, inputs = make()
            path = os.path.join(folder, 'm.onnx')
            onnx.save(model, path)
            how = onnxruntime.SessionOptions()
            how.intra_op_num_threads, how.log_severity_level = options.threads, 3
            session = onnxruntime.InferenceSession(path, how, providers=['CPUExecutionProvider'])
            times = {each: [] for each in names}
            for _ in range(options.rounds):
                times['Tenon'].append(tenon(options.tenon, path, options.threads))
                times['ONNX Runtime'].append(onnx_runtime(session, inputs))
                if options.other:
                    times['other'].append(tenon(options.other, path, options.threads))
            best = [min(times[each]) for each in names]
            print('| ' + name + ' | ' + ' | '.join('%.3f' % one for one in best) + ' | ' +
                  ' | '.join('%.2f' % (one / best[0]) for one in best[1:]) + ' |', flush=True)


main()
