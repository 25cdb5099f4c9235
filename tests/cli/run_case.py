# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of a .case file in a fresh folder and compares what they print, stdout and stderr together.

A line "$ WORDS" is a command for bash; the lines below it are what it prints, and "[N]" its exit status where that is
not 0. A line that ends in " (re)" is a regular expression. $SAMPLES is the folder of samples, $PYTHON the interpreter;
`json EXPRESSION` is Python on the JSON of its standard input, called j.   usage: run_case.py TENON SAMPLES FILE"""
import os
import re
import subprocess
import sys
import tempfile

SKIPPED = 77
JSON = 'json() { %s -c "import json,sys; j=json.load(sys.stdin); print($1)"; }\n' % sys.executable


def cases(path):
    """Commands with their expected lines; what stands before the first command is comment."""
    found = []
    with open(path, encoding='utf-8') as file:
        for number, line in enumerate(file.read().splitlines(), 1):
            if line.startswith('$ '):
                found.append((number, line[2:], []))
            elif found and line:
                found[-1][2].append(line)
    return found


def matches(expected, got):
    if expected.endswith(' (re)'):
        return re.fullmatch(expected[:-len(' (re)')], got) is not None
    return expected == got


def main():
    tenon, samples, path = (os.path.abspath(word) for word in sys.argv[1:])
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        environment = {'PATH': os.path.dirname(tenon) + ':/usr/bin:/bin', 'SAMPLES': samples, 'HOME': folder,
                       'PYTHON': sys.executable, 'TENON_CACHE_DIR': folder + '/cache'}
        for number, command, expected in cases(path):
            result = subprocess.run(['bash', '-c', JSON + command], cwd=folder, env=environment,
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    timeout=600)
            # What else the machine does meanwhile is not the command's.
            got = [line for line in result.stdout.decode('utf-8', 'replace').splitlines()
                   if line and not line.startswith('warning: the machine was busy while kernels were timed')]
            if result.returncode:
                got.append('[%d]' % result.returncode)
            if got == ['[%d]' % SKIPPED]:
                print('skipped at line %d: %s' % (number, command))
                return SKIPPED
            if len(got) != len(expected) or not all(map(matches, expected, got)):
                failed += 1
                print('%s:%d: $ %s' % (path, number, command))
                print('\n'.join('  expected  ' + line for line in expected))
                print('\n'.join('  got       ' + line for line in got))
    return 1 if failed else 0


sys.exit(main())
