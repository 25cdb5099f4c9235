#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Races two builds of Tenon on an NVIDIA GPU: device time of one captured run, inputs and outputs on the device.

Each builds its own engine of every row with a cache of its own, then both are timed in turn. Prints a Markdown table:
medians of the rounds' medians in ms, the least and the most of them, and old / new (above 1: the new one is faster).

  bench/gpu/versions.py OLD NEW resnet50.onnx:1,8:fp16,int8 vit_b_16:1,8:fp16 [--rounds 3] [--rows rows.jsonl]

MODEL as race.py has it. Rows that stand in --rows are printed, not measured again.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import sys
import tempfile

import race


class Build:
    """One build of the command, with a cache and engines of its own."""

    def __init__(self, command, folder):
        self.command, self.folder = command, folder
        self.environment = {'XDG_CACHE_HOME': str(folder), 'XDG_CONFIG_HOME': str(folder)}
        folder.mkdir(mode=0o700)

    def build(self, model, batch, precision):
        """The words that time an engine made for this row."""
        os.environ.update(self.environment)
        words, shapes = race.build_words(self.command, model, batch, precision)
        engine = str(self.folder / 'row.tenon')
        cache = ['--calib-cache', str(self.folder / (model.name + '.ranges'))] if precision == 'int8' else []
        race.run(words + ['-o', engine] + cache, str(self.folder / 'report.json'))
        return [self.command, 'bench', engine, '--iterations', '50'] + shapes

    def time(self, words):
        os.environ.update(self.environment)
        return race.run(words, str(self.folder / 'report.json'))['device_latency_ms']['median']


def measured(builds, model, batch, precision, rounds):
    words = [build.build(model, batch, precision) for build in builds]
    times = [[], []]
    for turn in range(rounds):
        for at in (0, 1) if turn % 2 == 0 else (1, 0):
            times[at].append(builds[at].time(words[at]))
    return {'model': model.name, 'batch': batch, 'precision': precision, 'old': times[0], 'new': times[1]}


def printed(row):
    medians = [statistics.median(row[who]) for who in ('old', 'new')]
    cells = [f'{mid:.4g} ({min(row[who]):.4g} to {max(row[who]):.4g})' for mid, who in zip(medians, ('old', 'new'))]
    ratio = medians[0] / medians[1]
    cells = [row['model'], str(row['batch']), row['precision'], *cells, f'{ratio:.3f}']
    print('| ' + ' | '.join(cells) + ' |', flush=True)
    return ratio


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('old')
    parser.add_argument('new')
    parser.add_argument('models', nargs='+', metavar='MODEL[:BATCHES[:PRECISIONS]]')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--rows', help='a file that keeps rows, so that a run may be in parts')
    options = parser.parse_args()

    known = {}
    if options.rows and pathlib.Path(options.rows).exists():
        rows = map(json.loads, pathlib.Path(options.rows).read_text().splitlines())
        known = {(row['model'], row['batch'], row['precision']): row for row in rows}
    print('| model | batch | precision | old ms | new ms | old / new |\n| --- | --- | --- | --- | --- | --- |')
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        builds = [Build(getattr(options, who), pathlib.Path(folder, who)) for who in ('old', 'new')]
        for word in options.models:
            model = race.Model(word, folder)
            for precision in model.precisions:
                for batch in model.batches:
                    row = known.get((model.name, batch, precision))
                    if not row:
                        try:
                            row = measured(builds, model, batch, precision, options.rounds)
                        except Exception as error:  # a build that cannot run a model leaves no row
                            print(f'{word}, batch {batch}, {precision}: {error}', file=sys.stderr, flush=True)
                            continue
                        if options.rows:
                            with open(options.rows, 'a') as out:
                                out.write(json.dumps(row) + '\n')
                    ratios.append(printed(row))
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f'\nGeometric mean of old / new over {len(ratios)} rows: {mean:.3f}, the least {min(ratios):.3f}')


if __name__ == '__main__':
    main()
