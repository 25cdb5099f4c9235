# SPDX-License-Identifier: Apache-2.0
"""How far an engine is from the module that it was made of."""

from __future__ import annotations

import tempfile
from typing import Any, Dict, Iterable, List, Optional, Tuple

import torch

from .. import _build, _core
from .._errors import Code, Error, counted
from .._export import difference, flat, to_program


class Comparison:
    """outputs: the worst `relative` error, `largest` difference and least `cosine` by output, over the data
    layers:  the same of values inside, in the order they are computed; only where compare() was asked for them
    first:   the first layer whose relative error is above the limit, or None
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.samples = 0
        self.outputs: Dict[str, Dict[str, float]] = {}
        self.layers: Dict[str, Dict[str, float]] = {}

    @property
    def first(self) -> Optional[str]:
        for name, error in self.layers.items():
            if not error["relative"] <= self.limit:
                return name
        return None

    @property
    def agrees(self) -> bool:
        return all(error["relative"] <= self.limit for error in self.outputs.values())

    def __repr__(self) -> str:
        lines = ["%s; relative error %g is allowed" % (counted(self.samples, "batch"), self.limit)]
        for name, error in self.outputs.items():
            lines.append(
                "  %-24s relative %.3g, largest %.3g, cosine %.6f"
                % (name, error["relative"], error["largest"], error["cosine"])
            )
        if self.layers:
            lines.append("  first layer beyond: %s" % (self.first or "none, of %d" % len(self.layers)))
        return "\n".join(lines)


def _worst(into: Dict[str, Dict[str, float]], name: str, error: Dict[str, float]) -> None:
    known = into.setdefault(name, dict(error))
    known["relative"] = max(known["relative"], error["relative"])
    known["largest"] = max(known["largest"], error["largest"])
    known["cosine"] = min(known["cosine"], error["cosine"])


def _batches(data: Any) -> Iterable[Tuple[torch.Tensor, ...]]:
    if isinstance(data, torch.Tensor):
        data = [data]
    for item in data:
        yield (item,) if isinstance(item, torch.Tensor) else tuple(item)


def compare(
    module: Any, engine: Any, data: Any, *, limit: float = 1e-3, layers: bool = True, max_batches: int = 8
) -> Comparison:
    """Runs both on the same data: tensors, tuples of them, or a DataLoader, of which the first inputs are taken.

    engine: an Engine, its file, or what tenon.torch.compile gives
    layers: also find the first layer that differs, where an output does: the module is exported once more with all its
            values as outputs, and built in the engine's precision
    """
    engine = getattr(engine, "engine", engine)
    if not isinstance(engine, _core.Engine):
        engine = _build.open(engine)
    result = Comparison(limit)
    kept: List[Tuple[torch.Tensor, ...]] = []
    training = module.training
    module.eval()
    try:
        for batch in _batches(data):
            if result.samples == max_batches:
                break
            result.samples += 1
            inputs = batch[: len(engine.inputs)]
            with torch.no_grad():
                expected = flat(module(*inputs))
            found = engine.run({info.name: one.cpu() for info, one in zip(engine.inputs, inputs)})
            for (name, value), tensor in zip(found.items(), expected):
                _worst(result.outputs, name, difference(value, tensor.detach().cpu().numpy()))
            kept.append(inputs)
        if not kept:
            raise Error(Code.usage, "there is no data to compare on")
        if layers and not result.agrees:
            _compare_layers(result, module, engine, kept[0])
    finally:
        module.train(training)
    return result


class _Watcher(torch.fx.Interpreter):
    """Keeps the value of every node."""

    def __init__(self, graph: Any) -> None:
        super().__init__(graph, garbage_collect_values=False)
        self.values: Dict[str, Any] = {}

    def run_node(self, node: torch.fx.Node) -> Any:
        value = super().run_node(node)
        if isinstance(value, torch.Tensor) and node.op != "placeholder":
            self.values[node.name] = value
        return value


def _compare_layers(result: Comparison, module: Any, engine: _core.Engine, inputs: Tuple[torch.Tensor, ...]) -> None:
    import onnx

    with torch.no_grad():
        program = to_program(module, inputs)
        watcher = _Watcher(program.exported_program.module())
        watcher.run(*inputs)
    proto = program.model_proto
    named = {info.name: info for info in proto.graph.value_info}
    ends = {info.name for info in proto.graph.output}
    order = [name for node in proto.graph.node for name in node.output if name in watcher.values]
    for name in order:
        if name in named and name not in ends:
            proto.graph.output.append(onnx.ValueInfoProto.FromString(named[name].SerializeToString()))
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        file.write(proto.SerializeToString())
        file.flush()
        precision = engine.precision if engine.precision not in ("int8", "fp8") else "fp32"
        observed = _build.build(file.name, precision=precision, device=engine.device, budget=0, timing_cache="-")
        found = observed.run({info.name: one.cpu() for info, one in zip(observed.inputs, inputs)})
    for name in order:
        if name in found:
            _worst(result.layers, name, difference(found[name], watcher.values[name].detach().cpu().numpy()))
