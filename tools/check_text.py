#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Text for machines (device source, keys, files, reports) must not depend on the locale, and a library must not change
what belongs to its whole process. Prints what is wrong as FILE:LINE; exit status 1.   usage: check_text.py [ROOT]"""
import os
import re
import sys

RULES = [
    (r'printf\s*\([^;]*%[-+ #0-9.*]*l?[aefgAEFG]', 'printf writes numbers by the locale; use fmt or std::to_chars'),
    (r'\b(ato[fdl]|strto(f|d|ld)|sto(f|d|ld))\s*\(', 'reads numbers by the locale; use std::from_chars'),
    (r'\bsetlocale\s*\(|locale::global\s*\(|\bimbue\s*\(', 'the locale belongs to the process'),
    (r'\bumask\s*\(', 'the mask belongs to the process; open() applies it'),
    (r'<(sstream|iomanip|iostream)>|\bo(f|string)?stream\b', 'streams write numbers by the locale; use fmt'),
    (r'\{:[^}\s]*L\}', 'fmt writes numbers by the locale with L'),
    (r'\bto_string\((static_cast<(float|double)>|[^()]*\b(real|scale|alpha|beta|epsilon|seconds|microseconds)\))',
     'std::to_string writes numbers by the locale; use fmt or std::to_chars'),
]
# Streams that read words.
ALLOWED = {'src/passes/fuse_attention.cpp': '<sstream>'}


def sources(root):
    for path, folders, files in os.walk(os.path.join(root, 'src')):
        folders.sort()
        for name in sorted(files):
            if name.endswith(('.h', '.cpp')):
                yield os.path.relpath(os.path.join(path, name), root)


def faults(root, path):
    with open(os.path.join(root, path), encoding='utf-8') as file:
        text = file.read()
    for pattern, fault in RULES:
        for found in re.finditer(pattern, text):
            if found.group(0) != ALLOWED.get(path):
                yield text.count('\n', 0, found.start()) + 1, fault


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
    paths = list(sources(root))
    count = 0
    for path in paths:
        for line, fault in faults(root, path):
            count += 1
            print('%s:%d: %s' % (path, line, fault))
    print('%d files, %d faults' % (len(paths), count))
    return 1 if count or not paths else 0


sys.exit(main())
