# SPDX-License-Identifier: Apache-2.0
"""tenon plot: plots of a benchmark."""

from __future__ import annotations

from typing import List

from . import Parser, write_json

EXAMPLES = """  tenon plot --results results/benchmark.json --output plots/"""


def main(arguments: List[str]) -> int:
    parser = Parser(
        "plot",
        "Draws the results of `tenon bench --pytorch-model`: latency, throughput, memory, size, speed-up, accuracy\n"
        "against time, as PNG and SVG, and index.html with all of them.",
        EXAMPLES,
    )
    parser.add_argument("--results", required=True, metavar="FILE", help="what bench has written")
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="folder for the plots")
    parser.add_argument("--json", metavar="FILE", help="the paths written, as JSON; - is stdout")
    options = parser.parse_args(arguments)

    from .._plot import plot

    paths = plot(options.results, options.output)
    if options.json:
        write_json(options.json, {"files": paths})
    if options.json != "-":
        print("\n".join(paths))
    return 0
