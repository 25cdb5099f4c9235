# SPDX-License-Identifier: Apache-2.0
"""tenon monitor: the memory that a command takes."""

from __future__ import annotations

import subprocess
import sys
from typing import List

from .._kinds import require_kind
from . import Parser, write_json

EXAMPLES = """  tenon monitor -- tenon bench model.tenon --batch 8
  tenon monitor --json memory.json -- python3 train.py"""


def main(arguments: List[str]) -> int:
    parser = Parser("monitor", "Shows the memory of the machine, and of the GPU, while a command runs.", EXAMPLES)
    parser.add_argument(
        "--interval", type=float, default=0.02, metavar="SECONDS", help="between samples (default 0.02)"
    )
    parser.add_argument("--gpu", type=int, default=0, metavar="N", help="which GPU (default 0)")
    parser.add_argument("--json", metavar="FILE", help="peaks and curves as JSON; - is stdout")
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="behind --: what to run")
    options = parser.parse_args(arguments)

    if options.json and options.json != "-":
        require_kind(options.json, "json")
    from .._monitor import Monitor

    child = subprocess.Popen(options.command)
    with Monitor(options.interval, child.pid, options.gpu) as samples:
        status = child.wait()
    # The first sample may be of this program's own copy, and the last of none.
    print(samples, file=sys.stderr)
    if options.json:
        write_json(options.json, samples.as_dict())
    return status if status >= 0 else 128 - status
