#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves that data flows one way: no stage includes or calls a later one, the public headers include nothing of ours
but each other, and only base/knobs.cpp reads the environment. Prints what is wrong as FILE:LINE; exit status 1.
usage: check_layers.py [ROOT]"""
import os
import re
import sys

# The line that data follows. A folder may include itself, those before it, and include/tenon.
STAGES = ['base', 'ir', 'ops', 'onnx', 'passes', 'backends', 'plan', 'quant', 'engine', 'runtime', 'compile']
ALLOWED = {stage: set(STAGES[:at + 1]) for at, stage in enumerate(STAGES)}
ALLOWED['vision'] = {'base', 'vision'}
ALLOWED['metrics'] = {'base', 'metrics'}
ALLOWED['pipeline'] = ALLOWED['compile'] | {'vision', 'pipeline'}
ALLOWED['explain'] = ALLOWED['compile'] | {'explain'}
ALLOWED['api'] = {'base', 'api'}
ALLOWED['cli'] = ALLOWED['pipeline'] | {'explain', 'metrics', 'cli'}

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)')
# A call of a stage names its namespace.
NAMED = re.compile(r'(?<![\w:])(?:tenon::)?(\w+)::(?=\w)')
ENVIRONMENT = re.compile(r'\b(secure_)?getenv\s*\(|\benviron\b\s*[;\[=]')
KNOBS = 'src/base/knobs.cpp'


def sources(root, folder):
    for path, folders, files in os.walk(os.path.join(root, folder)):
        folders.sort()
        for name in sorted(files):
            if name.endswith(('.h', '.cpp', '.cc', '.inc')):
                yield os.path.relpath(os.path.join(path, name), root)


def folder_of(path):
    """The stage of src/STAGE/…; for a file right in src, its name."""
    return path.split('/')[1]


def faults(root, path):
    public, stage = path.startswith('include/'), folder_of(path)
    allowed = ALLOWED.get(stage)
    if not public and allowed is None:
        yield 1, 'src/%s is no stage that this check knows' % stage
        return
    with open(os.path.join(root, path), encoding='utf-8') as file:
        for number, line in enumerate(file, 1):
            if path != KNOBS and ENVIRONMENT.search(line):
                yield number, 'reads the environment; declare a knob in %s' % KNOBS
            for name in NAMED.findall(line.split('//')[0]) if not public else ():
                if name in ALLOWED and name not in allowed:
                    yield number, 'src/%s must not name %s::' % (stage, name)
            found = INCLUDE.match(line)
            if not found or found[2].startswith('tenon/'):
                continue
            first = found[2].split('/')[0]
            if public and found[1] == '"':
                yield number, 'a public header includes "%s"' % found[2]
            elif not public and found[1] == '"' and '/' in found[2] and first not in allowed:
                yield number, 'src/%s must not include "%s"' % (stage, found[2])


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
    paths = list(sources(root, 'src')) + list(sources(root, 'include'))
    count = 0
    for path in paths:
        for number, fault in faults(root, path):
            count += 1
            print('%s:%d: %s' % (path, number, fault))
    print('%d files, %d faults' % (len(paths), count))
    return 1 if count or not paths else 0


sys.exit(main())
