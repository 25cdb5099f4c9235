#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks for the licence's name in the first line of every source file, behind #! where there is one. Prints the files
that lack it; exit status 1.   usage: check_licences.py [ROOT]"""
import os
import sys

LINE = 'SPDX-License-Identifier: Apache-2.0'
FOLDERS = ['.ci', '.github', 'bench', 'cmake', 'include', 'python', 'samples', 'script', 'src', 'tests', 'tools']
SLASHES, HASHES = ('.h', '.hpp', '.c', '.cpp', '.cc', '.cu', '.cuh'), ('.py', '.cmake', '.sh', '.yml', 'CMakeLists.txt')


def mark_of(path, first_line):
    """How comments begin in a file; None for what is no source."""
    if path.endswith(SLASHES):
        return '//'
    if path.endswith(HASHES) or first_line.startswith('#!'):
        return '#'
    return None


def sources(root):
    """Yields (path, text, the line that is asked for, its index)."""
    paths = ['CMakeLists.txt']
    for folder in FOLDERS:
        for path, folders, files in os.walk(os.path.join(root, folder)):
            folders[:] = sorted(name for name in folders if name not in ('__pycache__', 'build'))
            paths += [os.path.relpath(os.path.join(path, name), root) for name in sorted(files)]
    for path in paths:
        with open(os.path.join(root, path), 'rb') as file:
            if b'\0' in file.read(1024):
                continue
            file.seek(0)
            text = file.read().decode('utf-8', 'replace')
        mark = mark_of(path, text[:2])
        if mark:
            yield path, text, '%s %s' % (mark, LINE), int(text.startswith('#!'))


def lacking(root):
    for path, text, line, index in sources(root):
        if text.split('\n', 2)[index:index + 1] != [line]:
            yield path, text, line, index


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
    paths = [path for path, *_ in lacking(root)]
    for path in paths:
        print('%s:1: lacks "%s"' % (path, LINE))
    print('%d files lack it' % len(paths))
    return 1 if paths else 0


if __name__ == '__main__':
    sys.exit(main())
