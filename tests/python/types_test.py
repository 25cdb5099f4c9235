# SPDX-License-Identifier: Apache-2.0
"""The package's types: mypy --strict over it, with the generated stub of the compiled part."""

import importlib.util
import os
import subprocess
import sys

import pytest
from conftest import ROOT

import tenon

pytest.importorskip('mypy', reason='no mypy')


def run(folder, *words):
    command = [sys.executable, '-m', 'mypy', '--config-file', os.path.join(ROOT, 'pyproject.toml'), '--cache-dir',
               os.path.join(folder, '.mypy'), *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_the_package_is_clean(tmp_path):
    # In a folder of its own: beside it, where pip puts it, other packages would be taken for parts of the program.
    (tmp_path / 'tenon').symlink_to(os.path.dirname(tenon.__file__))
    done = run(tmp_path, '-p', 'tenon')
    faults = [line for line in done.stdout.splitlines() if ': error:' in line]
    if importlib.util.find_spec('torch') is None:
        # What is derived from torch's classes has no types where these are not there.
        faults = [line for line in faults if not line.startswith(os.path.join('tenon', 'torch'))]
    assert not faults, done.stdout
    assert done.returncode in (0, 1), done.stdout + done.stderr


def test_wrong_uses_are_told(tmp_path):
    (tmp_path / 'uses.py').write_text(
        'import tenon\n'
        'engine: tenon.Engine = tenon.load("m.tenon")\n'
        'names: list[str] = [info.name for info in engine.inputs]\n'
        'engine.sesion()\n'
        'tenon.build("m.onnx", precission="int8")\n')
    (tmp_path / 'tenon').symlink_to(os.path.dirname(tenon.__file__))
    done = run(str(tmp_path), '--follow-imports=silent', 'uses.py')
    lines = [line for line in done.stdout.splitlines() if line.startswith('uses.py') and ': error:' in line]
    assert len(lines) == 2 and 'uses.py:4' in lines[0] and 'uses.py:5' in lines[1], done.stdout
