# SPDX-License-Identifier: Apache-2.0
"""Compares models with bodies with ONNX Runtime, on one thread and on two.
usage: TENON=path agreement.py [--device NAME] [--rtol R] [--atol A] [--tactic NAME] [--keep FOLDER] [CASE...]"""
import argparse
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'models'))
from reference import imported, session  # noqa: E402

onnx, onnxruntime = imported('onnx', 'onnxruntime')


def write(folder, model, runs):
    """A case as `tenon verify` reads it."""
    os.makedirs(folder)
    path = os.path.join(folder, 'model.onnx')
    onnx.save(model, path)
    oracle = session(onnxruntime, path)
    for number, run in enumerate(runs):
        data = os.path.join(folder, 'test_data_set_%d' % number)
        os.makedirs(data)
        inputs = [run[value.name] for value in model.graph.input]
        for kind, tensors in (('input', inputs), ('output', oracle.run(None, run))):
            for at, tensor in enumerate(tensors):
                with open(os.path.join(data, '%s_%d.pb' % (kind, at)), 'wb') as file:
                    file.write(onnx.numpy_helper.from_array(tensor).SerializeToString())


def runs_by(folder, device, tactic):
    """Whether a step of the case's plan is run by the tactic."""
    tenon, engine = os.environ['TENON'], os.path.join(folder, 'model.tenon')
    words = ['-q', os.path.join(folder, 'model.onnx'), '-o', engine, '--device', device]
    subprocess.run([tenon, 'build', *words], check=True)
    shown = subprocess.run([tenon, 'inspect', engine, '--stage', 'plan'], check=True, capture_output=True, text=True)
    if any(tactic in line for line in shown.stdout.splitlines()):
        return True
    print('%s: no step runs by "%s":\n%s' % (folder, tactic, shown.stdout))
    return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--device', default='cpu')
    parser.add_argument('--rtol', default='1e-4')
    parser.add_argument('--atol', default='1e-5')
    parser.add_argument('--tactic', help='that must run a step of each case')
    parser.add_argument('--keep')
    parser.add_argument('cases', nargs='*')
    options = parser.parse_args()
    from cases import CASES
    bad = 0
    with tempfile.TemporaryDirectory() as temporary:
        root = options.keep or temporary
        for name in options.cases or CASES:
            write(os.path.join(root, name), *CASES[name])
        folders = [os.path.join(root, name) for name in options.cases or CASES]
        for threads in ('1', '2'):
            words = [os.environ['TENON'], 'verify', '-q', '--device', options.device, '--threads', threads,
                     '--rtol', options.rtol, '--atol', options.atol, '--strict-ops']
            bad |= subprocess.run(words + folders, check=False).returncode
        if options.tactic:
            bad |= not all([runs_by(folder, options.device, options.tactic) for folder in folders])
    return 1 if bad else 0


sys.exit(main())
