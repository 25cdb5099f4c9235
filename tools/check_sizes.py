#!/usr/bin/env python3
"""Keeps files small: 400 lines, kernels 600, and 120 columns. Names are lower_snake. Prints what is wrong as FILE:LINE;
exit status 1.   usage: check_sizes.py [ROOT]"""
import os
import re
import sys

LINES, KERNEL_LINES, COLUMNS = 400, 600, 120
FOLDERS = ['bench', 'include', 'samples', 'script', 'src', 'tests', 'tools', '.ci']
ENDINGS = ('.h', '.cpp', '.cc', '.py', '.cmake', '.sh', 'CMakeLists.txt')
LOWER_SNAKE = re.compile(r'^[a-z0-9_]+(\.[a-z0-9]+)?$')
# Data in the form of source: its numbers are what they are.
DATA = {'tests/vision/golden.inc', 'tests/vision/data/pictures.inc'}


def is_source(path):
    if path in DATA:
        return False
    return path.endswith(ENDINGS) or path.startswith(('script/', '.ci/'))


def sources(root):
    for folder in FOLDERS:
        for path, folders, files in os.walk(os.path.join(root, folder)):
            folders[:] = sorted(name for name in folders if name != '__pycache__')
            for name in sorted(files):
                relative = os.path.relpath(os.path.join(path, name), root)
                if is_source(relative):
                    yield relative


def faults(root, path):
    name = os.path.basename(path)
    if name != 'CMakeLists.txt' and not LOWER_SNAKE.match(name):
        yield 1, 'the name is not lower_snake'
    with open(os.path.join(root, path), encoding='utf-8') as file:
        lines = file.read().splitlines()
    limit = KERNEL_LINES if '/kernels/' in path else LINES
    if len(lines) > limit:
        yield limit + 1, '%d lines; at most %d' % (len(lines), limit)
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS:
            yield number, '%d columns; at most %d' % (len(line), COLUMNS)
        elif line != line.rstrip() or '\t' in line:
            yield number, 'a tab, or a blank at the end'


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
    paths = list(sources(root))
    count = 0
    for path in paths:
        for number, fault in faults(root, path):
            count += 1
            print('%s:%d: %s' % (path, number, fault))
    print('%d files, %d faults' % (len(paths), count))
    return 1 if count or not paths else 0


sys.exit(main())
