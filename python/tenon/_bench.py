# SPDX-License-Identifier: Apache-2.0
"""Frameworks beside each other: PyTorch, ONNX Runtime and Tenon's engines on the same inputs, in turn."""

from __future__ import annotations

import glob
import os
import platform
import statistics
import tempfile
import time
from typing import Any, Callable, Dict, List, Optional, Sequence

from . import _core
from ._bench_contenders import Contender, engine_contender, onnxruntime_contenders, torch_contenders
from ._bench_memory import peaks, saved
from ._errors import Code, Error
from ._export import difference, export, flat
from ._sources import find

ROUNDS = 10
WAIT = 20.0  # seconds that are worth a line


def percentile(sorted_values: Sequence[float], share: float) -> float:
    """By the nearest rank."""
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))]


def summary(times: Sequence[float], batch: int) -> Dict[str, float]:
    """Of milliseconds."""
    values = sorted(times)
    mean = statistics.fmean(values)
    return {
        "mean": mean,
        "p50": percentile(values, 0.5),
        "p90": percentile(values, 0.9),
        "p99": percentile(values, 0.99),
        "least": values[0],
        "throughput": 1000 * batch / mean,
    }


def _outputs(values: Any) -> List[Any]:
    """Arrays of whatever a run gives."""
    import numpy

    if isinstance(values, numpy.ndarray):
        return [values]
    if isinstance(values, (list, tuple)) and all(isinstance(one, numpy.ndarray) for one in values):
        return list(values)
    return [one.detach().cpu().numpy() for one in flat(values)]


def fidelity(found: Any, expected: Any) -> Dict[str, float]:
    """To PyTorch's outputs: the worst of them; of class scores also the share of images with the same best class."""
    import numpy

    found, expected = _outputs(found), _outputs(expected)
    errors = [difference(one, other) for one, other in zip(found, expected)]
    result = {
        "relative_error": max(error["relative"] for error in errors),
        "cosine": min(error["cosine"] for error in errors),
    }
    if expected[0].ndim == 2 and expected[0].shape[1] > 1:
        result["same_top1"] = float(numpy.mean(found[0].argmax(1) == expected[0].argmax(1)))
    return result


def environment(device: str) -> Dict[str, Any]:
    import numpy

    facts: Dict[str, Any] = {"python": platform.python_version(), "tenon": _core.version, "numpy": numpy.__version__}
    for name in ("torch", "torchvision", "onnxruntime"):
        try:
            facts[name] = __import__(name).__version__
        except ImportError:
            pass
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    facts.update(cpu=models[0] if models else platform.machine(), cores=len(os.sched_getaffinity(0)))
    facts.update(system=platform.platform(), device=device, time=time.strftime("%Y-%m-%dT%H:%M:%S%z"))
    if device != "cpu":
        import torch

        facts["gpu"] = torch.cuda.get_device_name(0)
    return facts


def _made(contenders: Sequence[Contender], batch: Any, warmup: int, rows: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Runs of those that can, warmed up; what they are goes into `rows`."""
    runs: Dict[str, Any] = {}
    for one in contenders:
        row = {"name": one.name, "kind": one.kind, "batch": len(batch), "model_bytes": one.size, **one.facts}
        rows.append(row)
        try:
            run = one.make(batch)
            row["outputs"] = run()
            for _ in range(max(0, warmup - 1)):
                run()
        except Exception as error:  # whatever a framework says is told, and the others go on
            row["error"] = (str(error).strip() or repr(error)).splitlines()[0]
            continue
        runs[one.name] = run
    return runs


def _timed(runs: Dict[str, Any], iterations: int, tell_left: Callable[[float], Any]) -> Dict[str, List[float]]:
    """In rounds, each contender in turn, so that what disturbs the machine disturbs all; after the first it tells the
    seconds that are left."""
    times: Dict[str, List[float]] = {name: [] for name in runs}
    rounds = min(ROUNDS, iterations)
    begin = time.perf_counter()
    for at in range(rounds):
        count = iterations * (at + 1) // rounds - iterations * at // rounds
        for name, run in runs.items():
            run()
            for _ in range(count):
                start = time.perf_counter()
                run()
                times[name].append(1000 * (time.perf_counter() - start))
        if at == 0:
            tell_left((rounds - 1) * (time.perf_counter() - begin))
    return times


def _add_memory(rows: List[Dict[str, Any]], contenders: Sequence[Contender], common: Dict[str, Any]) -> None:
    for one in contenders:
        if one.kind == "pytorch" and common["model"] is None and common["module"] is None:
            continue
        found = peaks({**common, "kind": one.kind, "name": one.name, "engine": one.facts.get("engine")})
        for size, peak in zip(common["batches"], found):
            for row in rows:
                if (row["name"], row["batch"]) == (one.name, size) and "error" not in row:
                    row["memory_bytes"], row["gpu_memory_bytes"] = peak["host"], peak["gpu"]


def bench(
    model: Any,
    engines: Optional[str] = None,
    *,
    batch_sizes: Sequence[int] = (1,),
    iterations: int = 100,
    warmup: int = 10,
    input_shape: Optional[Sequence[int]] = None,
    weights: str = "auto",
    checkpoint: Optional[str] = None,
    trust: bool = False,
    device: str = "cpu",
    threads: int = 0,
    compiled: bool = True,
    say: Callable[[str], Any] = lambda _: None,
) -> Dict[str, Any]:
    """Latency, throughput, size, memory and fidelity of every way to run a PyTorch model, as a dict for JSON.

    engines: a folder of .tenon files, or one. Times are milliseconds of wall clock, with the copy of outputs.
    """
    import numpy

    source = find(model, weights=weights, trust=trust)
    if checkpoint is not None:
        source.load_weights(checkpoint)
    shape = list(input_shape or source.input_shapes[0])
    files = sorted(glob.glob(os.path.join(engines, "*.tenon"))) if engines and os.path.isdir(engines) else [engines]
    files = [one for one in files if one]
    if engines and not files:
        raise Error(Code.io, "the folder has no engines", where=engines, hint="tenon build MODEL -o FOLDER/NAME.tenon")
    rows: List[Dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        onnx_model = os.path.join(folder, "model.onnx")
        notes = list(source.notes)
        contenders = torch_contenders(source, device, threads, compiled)
        try:
            export(source.module, onnx_model, input_shapes=[shape], dynamic_batch=True, max_error=1e9)
            contenders += onnxruntime_contenders(onnx_model, device, threads)
        except Exception as error:
            notes.append("no ONNX Runtime: PyTorch cannot export the model: %s" % str(error).splitlines()[0])
        contenders += [engine_contender(path) for path in files]
        for size in batch_sizes:
            say("batch %d" % size)
            batch = numpy.random.default_rng(0).standard_normal([size, *shape]).astype("float32")
            mine: List[Dict[str, Any]] = []
            runs = _made(contenders, batch, warmup, mine)
            times = _timed(runs, iterations, lambda left: left < WAIT or say("  about %.0f s to go" % left))
            expected = mine[0].get("outputs")
            for row in mine:
                outputs = row.pop("outputs", None)
                if "error" in row:
                    continue
                row["latency_ms"] = summary(times[row["name"]], size)
                row["throughput"] = row["latency_ms"].pop("throughput")
                if outputs is not None and expected is not None:
                    row["fidelity"] = fidelity(outputs, expected)
            rows += mine
        say("memory")
        module = None if isinstance(model, str) else saved(source.module, folder)
        random = any(note.startswith("random weights") for note in source.notes)
        common: Dict[str, Any] = {"model": model if isinstance(model, str) else None, "module": module}
        common.update(onnx=onnx_model, weights="none" if random else weights, checkpoint=checkpoint, trust=trust)
        common.update(device=device, threads=threads, shape=shape, batches=list(batch_sizes))
        _add_memory(rows, contenders, common)
    name = model if isinstance(model, str) else type(model).__name__
    facts = {"model": name, "input_shape": shape, "iterations": iterations, "warmup": warmup, "notes": notes}
    return {"format": "tenon benchmark 1", **facts, "environment": environment(device), "results": rows}
