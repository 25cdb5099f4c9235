#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a file of tests; exit status 77 where all of it skips.   usage: run_pytest.py FILE [options…]"""
import importlib.util
import sys


class Counts:
    """How many tests ran, and why others did not."""

    def __init__(self):
        self.ran, self.reasons = 0, []

    def pytest_runtest_logreport(self, report):
        self.ran += report.when == 'call' and not report.skipped
        if report.skipped:
            self.reasons.append(str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr))

    def pytest_collectreport(self, report):
        if report.skipped:
            self.reasons.append(str(report.longrepr[2]))


def main():
    if importlib.util.find_spec('pytest') is None:
        print('skipped: no pytest (script/setup installs it)')
        return 77
    import pytest

    counts = Counts()
    status = int(pytest.main(['-q', '-rs', '-p', 'no:cacheprovider', *sys.argv[1:]], plugins=[counts]))
    if status in (0, 5) and counts.ran == 0 and counts.reasons:
        return 77
    return status


if __name__ == '__main__':
    sys.exit(main())
