#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what the programs of a ctest run skipped within themselves, and why: ctest's own summary knows whole programs
alone.   usage: skipped_tests.py build/release/Testing/Temporary/LastTest.log"""
import collections
import re
import sys

PROGRAM = re.compile(r'^\d+/\d+ Test: (.+)$')
RAN = re.compile(r'^\[==========\] (\d+) tests? from .* ran\.')
PYTEST_SKIPPED = re.compile(r'^SKIPPED \[(\d+)\] (?:\S+:\d+: )?(.+)$')
SKIPPED = re.compile(r'^\S+:\d+: Skipped$')


def skips(lines):
    """Yields (program, tests that ran or were skipped, reasons by number) for each program that skipped some."""
    program, reasons, take = None, collections.Counter(), False
    for line in lines:
        line = line.rstrip('\n')
        if take:
            # Numbers and names of one reason differ from case to case.
            reasons[line.split(':')[0] or 'no reason given'] += 1
            take = False
        elif SKIPPED.match(line):
            take = True
        elif PROGRAM.match(line):
            program, reasons = PROGRAM.match(line)[1], collections.Counter()
        elif PYTEST_SKIPPED.match(line):
            count, reason = PYTEST_SKIPPED.match(line).groups()
            reasons[reason.split(':')[-1].strip()] += int(count)
        elif reasons and re.search(r'\d+ skipped.* in [\d.]+s', line):
            yield program, sum(map(int, re.findall(r'(\d+) (?:passed|failed|skipped)', line))), reasons
            reasons = collections.Counter()
        elif RAN.match(line) and reasons:
            yield program, int(RAN.match(line)[1]), reasons


def main():
    with open(sys.argv[1], encoding='utf-8', errors='replace') as file:
        found = list(skips(file))
    if found:
        print('Skipped within programs:')
    for program, ran, reasons in found:
        print('  %s: %d of %d tests' % (program, sum(reasons.values()), ran))
        for reason, count in reasons.most_common():
            print('    %5d  %s' % (count, reason))


main()
