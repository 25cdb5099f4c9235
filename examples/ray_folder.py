#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs an engine on every image of a folder with Ray Data, and writes one row for each image as Parquet. With --compare
it also runs them in one process, and says how much faster the workers are.

usage: ray_folder.py ENGINE FOLDER OUTPUT [--workers N] [--address ADDRESS] [--gpus-per-worker N] [--compare]"""
import argparse
import os
import time

import ray

import tenon.ray
from tenon._batch import sources


def predict(options, paths):
    """The rows of all images; workers are there before the clock starts, as they would be in a long run."""
    data = ray.data.from_items([{'path': path} for path in paths], override_num_blocks=max(8, 4 * options.workers))
    more = {'num_gpus': options.gpus_per_worker} if options.gpus_per_worker else {'num_cpus': 1}
    return data.map_batches(
        tenon.ray.Predictor,
        fn_constructor_kwargs={'engine': os.path.abspath(options.engine), 'column': 'path', 'threads': options.threads},
        batch_size=options.batch_size, concurrency=options.workers, **more)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n')[0])
    parser.add_argument('engine')
    parser.add_argument('folder')
    parser.add_argument('output')
    parser.add_argument('--workers', type=int, default=2)
    parser.add_argument('--address', help='of a cluster, or auto; else a Ray of its own on this machine')
    parser.add_argument('--batch-size', type=int, default=16, help='images that a worker is given together')
    parser.add_argument('--threads', type=int, default=1, help='of each worker')
    parser.add_argument('--gpus-per-worker', type=float, default=0)
    parser.add_argument('--compare', action='store_true')
    options = parser.parse_args()

    ray.init(address=options.address, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    paths = [os.path.abspath(path) for path, _ in sources(options.folder)]
    start = time.perf_counter()
    rows = predict(options, paths)
    rows.write_parquet(options.output)
    seconds = time.perf_counter() - start
    written = ray.data.read_parquet(options.output)
    bad = written.filter(lambda row: bool(row['error'])).count()
    print('%d rows, %d of them errors, %.2f s with the start of %d workers' % (
        written.count(), bad, seconds, options.workers))
    if options.compare:
        from tenon._rows import RowMaker

        make = RowMaker(options.engine, threads=options.threads)
        start = time.perf_counter()
        make.rows(paths, [None] * len(paths))
        print('one process: %.1f images a second' % (len(paths) / (time.perf_counter() - start)))


if __name__ == '__main__':
    main()
