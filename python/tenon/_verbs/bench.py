# SPDX-License-Identifier: Apache-2.0
"""tenon bench --pytorch-model: frameworks beside each other."""

from __future__ import annotations

import sys
from typing import Any, Dict, List

from .._kinds import require_kind
from . import Parser, write_json
from .export import parse_shape

EXAMPLES = """  tenon bench --pytorch-model resnet50 --engines engines/ --batch-sizes 1 4 8 16 --iterations 100 \\
    --warmup 10 --output results/benchmark.json
  tenon plot --results results/benchmark.json --output plots/"""


def main(arguments: List[str]) -> int:
    parser = Parser(
        "bench",
        "Measures PyTorch (eager, compiled, as a CUDA graph), ONNX Runtime where installed, and Tenon's engines,\n"
        "on the same inputs, in turn. Without --pytorch-model and --engines it measures one engine, in more detail.",
        EXAMPLES,
    )
    add = parser.add_argument
    add("--pytorch-model", required=True, metavar="NAME|FILE|MODULE:FACTORY", help="as for tenon export")
    add("--engines", metavar="DIR|FILE", help="a folder of engines, or one")
    add("--batch-sizes", type=int, nargs="+", default=[1], metavar="N", help="batches (default 1)")
    add("--iterations", type=int, default=100, metavar="N", help="timed runs of each (default 100)")
    add("--warmup", type=int, default=10, metavar="N", help="runs before (default 10)")
    add("--input-shape", metavar="3x224x224", help="sizes behind the batch")
    add("--weights", default="auto", choices=["auto", "default", "none"], help="as for tenon export")
    add("--checkpoint", metavar="FILE", help="as for tenon export")
    add("--trust", action="store_true", help="as for tenon export")
    add("--device", default="cpu", metavar="NAME", help="where PyTorch and ONNX Runtime run: cpu or cuda (default cpu)")
    add("--threads", type=int, default=0, metavar="N", help="of PyTorch and ONNX Runtime (default: their own choice)")
    add("--no-compile", action="store_true", help="leave torch.compile out, which needs a compiler and a while")
    add("--monitor", action="store_true", help="sample memory meanwhile, for the JSON")
    add("-o", "--output", "--json", dest="output", metavar="FILE", help="the results as JSON; - is stdout")
    options = parser.parse_args(arguments)
    if min(options.batch_sizes) < 1 or options.iterations < 1:
        parser.error("batches and iterations are at least 1")
    if options.output and options.output != "-":
        require_kind(options.output, "json")

    from .._bench import bench
    from .._monitor import Monitor

    def run() -> Dict[str, Any]:
        return bench(
            options.pytorch_model,
            options.engines,
            batch_sizes=options.batch_sizes,
            iterations=options.iterations,
            warmup=options.warmup,
            weights=options.weights,
            checkpoint=options.checkpoint,
            trust=options.trust,
            input_shape=parse_shape(options.input_shape, parser) if options.input_shape else None,
            device=options.device,
            threads=options.threads, compiled=not options.no_compile,
            say=lambda text: print(text, file=sys.stderr),
        )

    if options.monitor:
        with Monitor() as samples:
            report = run()
        report["memory"] = samples.as_dict()
    else:
        report = run()
    if options.output != "-":
        print(table(report))
    if options.output:
        write_json(options.output, report)
    return 0


def table(report: Dict[str, Any]) -> str:
    """For reading."""
    lines = [
        "%-24s %5s %9s %9s %9s %11s %9s %10s" % ("", "batch", "mean ms", "p50", "p99", "images/s", "MB", "rel. error")
    ]
    for row in report["results"]:
        if "error" in row:
            lines.append("%-24s %5d  %s" % (row["name"], row["batch"], row["error"]))
            continue
        latency = row["latency_ms"]
        lines.append(
            "%-24s %5d %9.3f %9.3f %9.3f %11.1f %9.1f %10.2g"
            % (
                row["name"],
                row["batch"],
                latency["mean"],
                latency["p50"],
                latency["p99"],
                row["throughput"],
                (row["model_bytes"] or 0) / 1e6,
                row["fidelity"]["relative_error"],
            )
        )
    return "\n".join(lines)
