# SPDX-License-Identifier: Apache-2.0
"""What a contender of a benchmark takes at most, in a process that does nothing else."""

from __future__ import annotations

import gc
import importlib
import json
import os
import subprocess
import sys
from typing import Any, Dict, List, Optional, Sequence

from ._bench_contenders import engine_contender, onnxruntime_contenders, torch_contenders
from ._sources import Source, find

MARK = "tenon memory: "
# What is there before a model is: it does not count.
PACKAGES = {"pytorch": ("numpy", "torch", "torchvision"), "onnxruntime": ("numpy", "onnxruntime"), "tenon": ("numpy",)}

Peak = Dict[str, Optional[int]]


def peaks(request: Dict[str, Any]) -> List[Peak]:
    """For each of the batches the bytes of host and GPU that the contender adds at most to its process while it is made
    and runs; [] where the process fails."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([package, *sys.path])}
    command = [sys.executable, "-m", "tenon._bench_memory"]
    done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, env=environment)
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            found: List[Peak] = json.loads(line[len(MARK) :])
            return found
    return []


def saved(module: Any, folder: str) -> Optional[str]:
    """A module in a file for other processes; None where it cannot be pickled."""
    import torch

    path = os.path.join(folder, "module.pt")
    try:
        torch.save(module, path)
    except Exception:  # whatever a class of the caller's raises
        return None
    return path


def _contender(request: Dict[str, Any]) -> Any:
    kind, device, threads = request["kind"], request["device"], request["threads"]
    if kind == "tenon":
        return engine_contender(request["engine"])
    if kind == "onnxruntime":
        return onnxruntime_contenders(request["onnx"], device, threads)[0]
    if request["module"] is not None:
        import torch

        source = Source(torch.load(request["module"], weights_only=False))
    else:
        source = find(request["model"], weights=request["weights"], trust=request["trust"])
    if request["checkpoint"] is not None:
        source.load_weights(request["checkpoint"])
    compiled = request["name"] == "pytorch compiled"
    return [one for one in torch_contenders(source, device, threads, compiled) if one.name == request["name"]][0]


def _most_held() -> int:
    """The most bytes that this process has held so far."""
    with open("/proc/self/status", encoding="ascii") as file:
        words = [line.split() for line in file if line.startswith("VmHWM:")]
    return int(words[0][1]) * 1024


def measured(request: Dict[str, Any]) -> List[Peak]:
    """The peaks, in this process."""
    from ._monitor import Monitor

    for package in PACKAGES[request["kind"]]:
        importlib.import_module(package)
    import numpy

    batches: Sequence[int] = request["batches"]
    found: Dict[int, Peak] = {}
    with Monitor() as samples:
        before = _most_held()
        contender = _contender(request)
        for size in sorted(batches):
            batch = numpy.zeros([size, *request["shape"]], numpy.float32)
            peak: Peak = {"host": None, "gpu": None}
            run: Any = None  # what the last batch took is free again
            gc.collect()
            try:
                run = contender.make(batch)
                run(), run()
                samples.sample()
                peak["host"] = _most_held() - before
                if samples.gpu_peak is not None and samples.gpu[0] is not None and request["device"] != "cpu":
                    peak["gpu"] = samples.gpu_peak - samples.gpu[0]
            except Exception:  # the benchmark tells why it does not run
                pass
            found[size] = peak
    return [found[size] for size in batches]


if __name__ == "__main__":
    print(MARK + json.dumps(measured(json.load(sys.stdin))))
