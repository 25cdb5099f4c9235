#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts what the house wants less of and holds it to counts.txt, whose numbers may only fall: a change that raises one
fails. With --write puts today's numbers there where they are lower.   usage: counts.py [--write] [ROOT]"""
import argparse
import os
import re
import sys

import check_sizes

CODE = ('.h', '.cpp')


def matches(root, pattern, outside=()):
    """Lines of our code that hold the pattern, but for those of some folders."""
    found = 0
    for path in check_sizes.sources(root):
        if path.startswith(('src/', 'python/src/')) and path.endswith(CODE) and not path.startswith(tuple(outside)):
            found += sum(bool(re.search(pattern, line)) for line in check_sizes.read(root, path).splitlines())
    return found


# Compared, searched, or looked up in a table.
NAME = r'\bop(\.str\(\)|\.name\(\))?'
OP_BY_NAME = (NAME + r' [=!]= |' + NAME + r'\.(r?find|starts_with|ends_with|contains|compare)\('
              r'|(\.|->)(at|find|count|contains)\([^()]*(\.|->)op\b')
# "ref" is no device: verify's word for the reference kernels.
DEVICE_BY_NAME = r'(device|backend)(\(\))?(\.(backend|name\(\)))? [=!]= "(?!ref")'


def each(root, check):
    return sum(1 for path in check_sizes.sources(root) for _ in check(root, path))


COUNTS = {
    'lines that name cuda:: outside backends/cuda': lambda root: matches(root, r'\bcuda::', ['src/backends/cuda/']),
    'lines that ask for an op by its name outside ops, onnx, passes': lambda root: matches(
        root, OP_BY_NAME, ['src/ops/', 'src/onnx/', 'src/passes/']),
    'lines that ask for a device by its name': lambda root: matches(root, DEVICE_BY_NAME),
    'lines that ask for a precision by its name': lambda root: matches(root, r'precision [=!]= "'),
    'functions that are too long': lambda root: each(root, check_sizes.long_functions),
    'wide lines of CUDA': lambda root: each(root, check_sizes.wide_lines),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--write', action='store_true')
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument('root', nargs='?', default=os.path.join(here, '..'))
    options = parser.parse_args()
    path = os.path.join(options.root, 'tools', 'counts.txt')
    with open(path, encoding='utf-8') as file:
        bounds = {name: int(number) for number, name in (line.strip().split(' ', 1) for line in file)}
    counts = {name: count(options.root) for name, count in COUNTS.items()}
    bad = set(counts) != set(bounds)
    for name, count in counts.items():
        bound = bounds.get(name, 0)
        bad |= count > bound
        note = '' if count == bound else '; the bound is %d%s' % (
            bound, ': counts.py --write lowers it' if count < bound else ' and only falls')
        print('%4d %s%s' % (count, name, note))
    if options.write and not bad:
        with open(path, 'w', encoding='utf-8') as file:
            file.writelines('%d %s\n' % (counts[name], name) for name in COUNTS)
    return 1 if bad else 0


sys.exit(main())
