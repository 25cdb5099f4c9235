# SPDX-License-Identifier: Apache-2.0
"""The ways to run a model that a benchmark compares: PyTorch, ONNX Runtime, engines."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional

from . import _build
from ._errors import Code, Error, counted
from ._sources import Source


class Contender:
    """One way to run the model. make(batch of arrays) gives a function that runs it; why it cannot is an Error."""

    def __init__(self, name: str, kind: str, size: Optional[int], make: Callable[[Any], Callable[[], Any]]) -> None:
        self.name, self.kind, self.size, self.make = name, kind, size, make
        self.facts: Dict[str, Any] = {}


def torch_contenders(source: Source, device: str, threads: int, compiled: bool) -> List[Contender]:
    import torch

    if threads:
        torch.set_num_threads(threads)
    module = source.module.to(device)
    size = sum(one.numel() * one.element_size() for one in [*module.parameters(), *module.buffers()])

    def runner(call: Any) -> Callable[[Any], Callable[[], Any]]:
        def make(batch: Any) -> Callable[[], Any]:
            tensor = torch.from_numpy(batch).to(device)

            def run() -> Any:
                with torch.inference_mode():
                    outputs = call(tensor)
                if device != "cpu":
                    torch.cuda.synchronize()
                return outputs

            return run

        return make

    def graph(batch: Any) -> Callable[[], Any]:
        tensor = torch.from_numpy(batch).to(device)
        with torch.inference_mode():
            for _ in range(3):
                module(tensor)
            torch.cuda.synchronize()
            recorded = torch.cuda.CUDAGraph()
            with torch.cuda.graph(recorded):
                outputs = module(tensor)

        def run(inputs: Any = tensor) -> Any:  # held here: the recording reads its memory
            recorded.replay()
            torch.cuda.synchronize()
            return outputs

        return run

    contenders = [Contender("pytorch", "pytorch", size, runner(module))]
    if device != "cpu":
        contenders.append(Contender("pytorch cuda graph", "pytorch", size, graph))
    if compiled:
        contenders.append(Contender("pytorch compiled", "pytorch", size, runner(torch.compile(module))))
    return contenders


def onnxruntime_contenders(model: str, device: str, threads: int) -> List[Contender]:
    try:
        import onnxruntime
    except ImportError:
        return []
    provider = "CPUExecutionProvider" if device == "cpu" else "CUDAExecutionProvider"
    if provider not in onnxruntime.get_available_providers():
        return []
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if threads:
        options.intra_op_num_threads = threads

    def make(batch: Any) -> Callable[[], Any]:
        session = onnxruntime.InferenceSession(model, options, providers=[provider])
        name = session.get_inputs()[0].name
        return lambda: session.run(None, {name: batch})

    return [Contender("onnxruntime", "onnxruntime", os.path.getsize(model), make)]


def engine_contender(path: str) -> Contender:
    engine = _build.load(path)
    info = engine.inputs[0]

    def make(batch: Any) -> Callable[[], Any]:
        if len(engine.inputs) != 1:
            raise Error(Code.unsupported, "it has " + counted(len(engine.inputs), "input"))
        if any(own >= 0 and own != size for own, size in zip(info.shape, batch.shape)):
            sizes = "x".join("?" if one < 0 else str(one) for one in info.shape)
            raise Error(Code.unsupported, "it takes %s alone" % sizes)
        session = engine.session(shapes={info.name: list(batch.shape)})
        return lambda: session(batch)

    name = os.path.splitext(os.path.basename(path))[0]
    contender = Contender(name, "tenon", os.path.getsize(path), make)
    contender.facts = {"precision": engine.precision, "device": engine.device, "engine": path}
    return contender
