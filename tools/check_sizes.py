#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps files small: 400 lines, kernels 600, and 120 columns. Names are lower_snake. Prints what is wrong as FILE:LINE;
exit status 1. With --known prints what is wrong and not yet forbidden, as counts.py holds its number: functions of more
than 80 lines, those of kernels 150, and wide lines of CUDA.   usage: check_sizes.py [--known] [ROOT]"""
import argparse
import os
import re
import sys

from functions import functions

LINES, KERNEL_LINES, COLUMNS = 400, 600, 120
FUNCTION_LINES, KERNEL_FUNCTION_LINES = 80, 150
FOLDERS = ['bench', 'include', 'python', 'samples', 'script', 'src', 'tests', 'tools', '.ci']
ENDINGS = ('.h', '.cpp', '.cc', '.cu', '.cuh', '.py', '.cmake', '.sh', 'CMakeLists.txt')
LOWER_SNAKE = re.compile(r'^[a-z0-9_]+(\.[a-z0-9]+)?$')
# Data in the form of source: its numbers are what they are.
DATA = {'tests/vision/golden.inc', 'tests/vision/data/images.inc'}


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


def read(root, path):
    with open(os.path.join(root, path), encoding='utf-8') as file:
        return file.read()


def is_cuda(path):
    return path.endswith(('.cu', '.cuh'))


def is_kernel(path):
    return '/kernels/' in path or is_cuda(path)


def faults(root, path):
    name = os.path.basename(path)
    if name != 'CMakeLists.txt' and not LOWER_SNAKE.match(name):
        yield 1, 'the name is not lower_snake'
    lines = read(root, path).splitlines()
    limit = KERNEL_LINES if is_kernel(path) else LINES
    count = sum('SPDX-License-Identifier:' not in line for line in lines)
    if count > limit:
        yield limit + 1, '%d lines; at most %d' % (count, limit)
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS and not is_cuda(path):
            yield number, '%d columns; at most %d' % (len(line), COLUMNS)
        elif line != line.rstrip() or '\t' in line:
            yield number, 'a tab, or a blank at the end'


def long_functions(root, path):
    limit = KERNEL_FUNCTION_LINES if is_kernel(path) else FUNCTION_LINES
    for name, line, lines in functions(path, read(root, path)):
        if lines > limit:
            yield line, '%s has %d lines; at most %d' % (name, lines, limit)


def wide_lines(root, path):
    for number, line in enumerate(read(root, path).splitlines(), 1):
        if is_cuda(path) and len(line) > COLUMNS:
            yield number, '%d columns; at most %d' % (len(line), COLUMNS)


def known(root, path):
    yield from long_functions(root, path)
    yield from wide_lines(root, path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--known', action='store_true')
    parser.add_argument('root', nargs='?', default=os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
    options = parser.parse_args()
    paths = list(sources(options.root))
    count = 0
    for path in paths:
        for number, fault in (known if options.known else faults)(options.root, path):
            count += 1
            print('%s:%d: %s' % (path, number, fault))
    print('%d files, %d faults' % (len(paths), count))
    return 1 if not paths or (count and not options.known) else 0


if __name__ == '__main__':
    sys.exit(main())
