# SPDX-License-Identifier: Apache-2.0
"""What the tests of whole models share: where things are, and when to skip."""
import json
import os
import subprocess
import sys

SKIPPED = 77  # the exit status that ctest reads as "skipped"
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..', 'shared', 'data')


def skip(reason):
    print('skipped: ' + reason)
    sys.exit(SKIPPED)


def data(*parts):
    path = os.path.normpath(os.path.join(DATA, *parts))
    if not os.path.exists(path):
        skip('there is no ' + path)
    return path


def imported(*names):
    modules = []
    for name in names:
        try:
            modules.append(__import__(name))
        except ImportError:
            skip('Python has no module ' + name)
    return modules


def tenon(*words):
    """Runs the command and gives its JSON report."""
    result = subprocess.run([os.environ['TENON'], *words, '--json', '-', '-q', '--timing-cache', '-', '--budget', '0'],
                            stdout=subprocess.PIPE, check=True)
    return json.loads(result.stdout)


def session(onnxruntime, model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=['CPUExecutionProvider'])
