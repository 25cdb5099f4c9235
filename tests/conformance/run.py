# SPDX-License-Identifier: Apache-2.0
"""Runs `tenon verify` over the ONNX backend suite and compares what does not pass with exceptions.txt, both ways.
usage: run.py TENON FOLDER cpu|ref"""
import collections
import glob
import os
import re
import subprocess
import sys

KINDS = ['light', 'simple', 'pytorch-converted', 'pytorch-operator', 'node']
LINE = re.compile(r'^(failed|skipped) +([^ :]+): (.*)$')


class Exceptions:
    """What exceptions.txt says of one backend."""

    def __init__(self, path, backend):
        self.cases, self.tolerances, self.refusals = set(), {}, []
        with open(path, encoding='utf-8') as file:
            for line in file:
                words = line.split()
                if not words or words[0].startswith('#'):
                    continue
                if words[0] == 'refused':
                    self.refusals.append(line.split('"')[1])
                elif words[1] in (backend, 'both'):
                    if words[2].startswith('atol='):
                        self.tolerances[words[0]] = words[2][len('atol='):]
                    else:
                        self.cases.add(words[0])


class Suite:
    def __init__(self, tenon, folder, backend):
        self.command, self.folder = [tenon, 'verify', '--quiet', '--backend', backend], folder

    def verify(self, paths, *options):
        """The exit status, the lines that say what did not pass, and the summary."""
        done = subprocess.run([*self.command, *options, *paths], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode not in (0, 6):
            raise SystemExit('tenon verify ended with %d' % done.returncode)
        lines = done.stdout.splitlines()
        return done.returncode == 0, [LINE.match(line).groups() for line in lines if LINE.match(line)], lines[-1]

    def passes(self, case, atol):
        return self.verify(glob.glob(os.path.join(self.folder, '*', case)), '--atol', atol)[0]


def faults(suite, exceptions, found):
    """Yields what is not as exceptions.txt says."""
    refused = collections.Counter()
    differing = set()
    for kind, case, message in found:
        differing.add(case)
        reason = next((text for text in exceptions.refusals if text in message), None) if kind == 'skipped' else None
        if reason:
            refused[reason] += 1
        elif case in exceptions.tolerances:
            if not suite.passes(case, exceptions.tolerances[case]):
                yield 'fails even with a tolerance of %s: %s' % (exceptions.tolerances[case], case)
        elif case not in exceptions.cases:
            yield '%s %s: %s' % (kind, case, message)
    for text in exceptions.refusals:
        print('%4d refused: %s' % (refused[text], text))
        if not refused[text]:
            yield 'no case is refused with "%s", but exceptions.txt says so' % text
    for case in sorted((exceptions.cases | set(exceptions.tolerances)) - differing):
        yield 'passes, but exceptions.txt says it does not: %s' % case


def main():
    tenon, folder, backend = sys.argv[1:]
    if not os.path.exists(os.path.join(folder, 'version')):
        print('skipped: the ONNX suite is not in %s' % folder)
        return 77
    exceptions = Exceptions(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'exceptions.txt'), backend)
    suite = Suite(tenon, folder, backend)
    _, found, summary = suite.verify([os.path.join(folder, kind) for kind in KINDS])
    bad = list(faults(suite, exceptions, found))
    print(summary)
    print('\n'.join(bad))
    return 1 if bad else 0


sys.exit(main())
