# SPDX-License-Identifier: Apache-2.0
"""tenon batch: a folder of a million images."""

from __future__ import annotations

import sys
from typing import List

from . import Parser, write_json

EXAMPLES = """  tenon batch model.tenon --source images/ --output rows.parquet
  tenon batch model.tenon --source images.parquet --output rows.parquet --ray auto --workers 8"""


def main(arguments: List[str]) -> int:
    parser = Parser(
        "batch",
        'Runs an engine on every image of a folder, and those below it, or of a Parquet file with a column "path"\n'
        '(and "bytes"), and writes one row for each: path, error, width, height, result. Images that cannot be read\n'
        "become rows with an error. Started again, it goes on where it was.",
        EXAMPLES,
    )
    add = parser.add_argument
    add("engine", metavar="ENGINE", help="the engine, as every worker sees it")
    add("--source", required=True, metavar="PATH", help="a folder, an image, or a Parquet file")
    add("-o", "--output", required=True, metavar="FILE", help="the Parquet file to write")
    add("--ray", metavar="ADDRESS", help="work on a Ray cluster: its address, auto, or local")
    add("--workers", type=int, default=2, metavar="N", help="processes on the cluster (default 2)")
    add("--shard", type=int, default=256, metavar="N", help="images that are done or not done together (default 256)")
    add("--batch-size", type=int, default=8, metavar="N", help="images that run together (default 8)")
    add("--task", default="auto", choices=["auto", "detect", "classify", "outputs"], help="what the results are")
    add("--preprocess", metavar="SPEC", help="how images become the input; else as the engine was built with")
    add("--labels", metavar="FILE", help="class names, one a line; else those in the model")
    add("--conf", type=float, default=0.25, metavar="P", help="least score of a box (default 0.25)")
    add("--device", default="", metavar="NAME", help="where to run, else where the engine was built for")
    add("--json", metavar="FILE", help="rows and rate as JSON; - is stdout")
    options = parser.parse_args(arguments)
    if min(options.workers, options.shard, options.batch_size) < 1:
        parser.error("workers, shards and batches are at least 1")

    from .._batch import batch

    more = {"device": options.device} if options.device else {}
    report = batch(
        options.engine,
        options.source,
        options.output,
        ray=options.ray,
        workers=options.workers,
        shard=options.shard,
        say=lambda text: print(text, file=sys.stderr),
        batch=options.batch_size,
        task=options.task,
        preprocess=options.preprocess,
        labels=options.labels,
        confidence=options.conf,
        **more,
    )
    if options.json:
        write_json(options.json, report)
    if options.json != "-":
        print("%(output)s  %(rows)d rows, %(images_per_second).1f images a second" % report)
    return 0
