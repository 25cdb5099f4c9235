# SPDX-License-Identifier: Apache-2.0
"""From PyTorch to ONNX, checked at once."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _core
from ._errors import Code, Error
from ._kinds import require_kind
from ._sources import Source, find


class ExportReport:
    """What an export gave: `path`, `inputs`, `outputs`, the `errors` to PyTorch by output, and `notes`."""

    def __init__(self, path: str, inputs: Dict[str, List[Any]], outputs: List[str], opset: int) -> None:
        self.path, self.inputs, self.outputs, self.opset = path, inputs, outputs, opset
        self.errors: Dict[str, Dict[str, float]] = {}
        self.notes: List[str] = []

    def as_dict(self) -> Dict[str, Any]:
        return {
            "model": self.path,
            "bytes": os.path.getsize(self.path),
            "opset": self.opset,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "errors": self.errors,
            "notes": self.notes,
        }

    def __str__(self) -> str:
        lines = ["%s  %.1f MB, opset %d" % (self.path, os.path.getsize(self.path) / 1e6, self.opset)]
        for name, sizes in self.inputs.items():
            lines.append("input    %s  %s" % (name, "x".join(str(size) for size in sizes)))
        for name, error in self.errors.items():
            lines.append(
                "output   %s  against PyTorch: relative error %.2g, largest difference %.2g"
                % (name, error["relative"], error["largest"])
            )
        return "\n".join(lines + ["note     " + note for note in self.notes])


def difference(found: Any, expected: Any) -> Dict[str, float]:
    """How far an output is from what it should be: `relative` is the RMS of the difference over that of `expected`."""
    import numpy

    found, expected = numpy.asarray(found, numpy.float64), numpy.asarray(expected, numpy.float64)
    if found.shape != expected.shape:
        raise Error(
            Code.gate_failed,
            "an output has other sizes than PyTorch's",
            why="%s, not %s" % (found.shape, expected.shape),
        )
    if found.size == 0:
        return {"relative": 0.0, "largest": 0.0, "cosine": 1.0}
    gap = found - expected
    size = float(numpy.sqrt(numpy.mean(expected**2)))
    lengths = float(numpy.linalg.norm(found) * numpy.linalg.norm(expected))
    return {
        "relative": float(numpy.sqrt(numpy.mean(gap**2))) / (size or 1.0),
        "largest": float(numpy.max(numpy.abs(gap))),
        "cosine": float(numpy.vdot(found, expected) / lengths) if lengths else 1.0,
    }


def to_program(
    module: Any,
    examples: Tuple[Any, ...],
    *,
    dynamic_batch: bool = False,
    opset: Optional[int] = None,
    input_names: Optional[Sequence[str]] = None,
    output_names: Optional[Sequence[str]] = None,
) -> Any:
    """torch.onnx.ONNXProgram of a module."""
    import logging
    import warnings

    import torch

    shapes: Any = None
    if dynamic_batch:
        batch = torch.export.Dim("batch", min=1, max=1 << 16)
        shapes = tuple({0: batch} if isinstance(one, torch.Tensor) and one.dim() else None for one in examples)
        # One is a size that exporters take for a constant.
        examples = tuple(
            one.repeat(2, *[1] * (one.dim() - 1))
            if isinstance(one, torch.Tensor) and one.dim() and one.shape[0] == 1
            else one
            for one in examples
        )
    for name in ("torch.onnx", "onnxscript", "onnx_ir"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.onnx.export(
            module,
            examples,
            dynamo=True,
            dynamic_shapes=shapes,
            opset_version=opset,
            verbose=False,
            input_names=list(input_names) if input_names else None,
            output_names=list(output_names) if output_names else None,
        )


def input_names_of(examples: Sequence[Any]) -> Optional[List[str]]:
    """ "images" for a network of one image; else PyTorch's own names."""
    if len(examples) == 1 and getattr(examples[0], "dim", lambda: 0)() == 4 and examples[0].shape[1] == 3:
        return ["images"]
    return None


def export(
    model: Any,
    output: Union[str, "os.PathLike[str]"],
    *,
    example_inputs: Optional[Tuple[Any, ...]] = None,
    input_shapes: Optional[Sequence[Sequence[int]]] = None,
    batch_size: int = 1,
    dynamic_batch: bool = False,
    opset: Optional[int] = None,
    checkpoint: Optional[str] = None,
    weights: str = "auto",
    trust: bool = False,
    max_error: float = 1e-3,
    metadata: Optional[Mapping[str, str]] = None,
) -> ExportReport:
    """Writes an ONNX model of a PyTorch model, and compares what Tenon computes of it with PyTorch's outputs.

    model:   a torch.nn.Module; a name of torchvision or timm; a file: TorchScript, torch.export, or pickled, which may
             run code and is refused without `trust`; or "package.module:factory"
    example_inputs: tensors to export with; else random ones of `input_shapes`, sizes behind the batch, which default to
             the model's own
    checkpoint: a state dict (.pt, .pth, .safetensors)
    weights: trained weights of torchvision and timm: "auto", "default" or "none"

    Raises Error: usage, unsupported, io; gate_failed where an output's relative error is above `max_error`.
    """
    import torch

    path = os.fspath(output)
    require_kind(path, "model")
    source: Source = find(model, weights=weights, trust=trust)
    if checkpoint is not None:
        source.load_weights(checkpoint)
    module = source.module
    if example_inputs is None:
        generator = torch.Generator().manual_seed(0)
        sizes = [list(shape) for shape in input_shapes or source.input_shapes]
        example_inputs = tuple(torch.randn([batch_size, *shape], generator=generator) for shape in sizes)
    names = input_names_of(example_inputs)
    with torch.no_grad():
        expected = module(*example_inputs)
        ends = ["output"] if len(flat(expected)) == 1 else None
        program = to_program(
            module, example_inputs, dynamic_batch=dynamic_batch, opset=opset, input_names=names, output_names=ends
        )
    entries = {**source.metadata, **(metadata or {})}
    program.model.metadata_props.update(entries)
    if os.path.dirname(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    program.save(path)
    graph = _core.model_graph(path)
    inputs: Dict[str, List[Any]] = {
        info.name: ["batch" if size < 0 else size for size in info.shape] for info in graph["inputs"]
    }
    version = int(program.model.graph.opset_imports.get("", 0))
    report = ExportReport(path, inputs, [info.name for info in graph["outputs"]], version)
    report.notes += source.notes
    _check(report, example_inputs, expected, max_error)
    return report


def flat(outputs: Any) -> List[Any]:
    """The tensors of a module's outputs, in order."""
    import torch.utils._pytree as pytree

    return [leaf for leaf in pytree.tree_leaves(outputs) if hasattr(leaf, "detach")]


def _check(report: ExportReport, examples: Tuple[Any, ...], expected: Any, max_error: float) -> None:
    from . import _build

    values = {name: one.numpy() for name, one in zip(report.inputs, examples)}
    found = _build.run(report.path, values, timing_cache="-")
    worst = ""
    for (name, value), tensor in zip(found.items(), flat(expected)):
        error = report.errors[name] = difference(value, tensor.detach().numpy())
        if not error["relative"] <= max_error:
            worst = worst or name
    if worst:
        raise Error(
            Code.gate_failed,
            "the exported model differs from PyTorch's",
            where="%s, output %s" % (report.path, worst),
            why="relative error %.3g, above %g" % (report.errors[worst]["relative"], max_error),
            hint="tenon.torch.compare names the first layer that differs",
        )
