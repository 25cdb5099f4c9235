# SPDX-License-Identifier: Apache-2.0
"""A module as an engine, called as the module is."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
import torch.utils._pytree as pytree
import torch.utils.dlpack

from .. import _build, _core
from .._errors import Code, Error
from .._export import to_program


def to_bytes(module: Any, examples: Tuple[Any, ...], dynamic_batch: bool = False) -> bytes:
    """The ONNX model of a module."""
    with torch.no_grad():
        program = to_program(module, examples, dynamic_batch=dynamic_batch)
    return bytes(program.model_proto.SerializeToString())


class Runner:
    """Runs an engine on tensors: on a GPU on the caller's current stream, without copies; on the CPU from and into
    PyTorch's memory."""

    def __init__(self, engine: _core.Engine, session: Optional[_core.Session] = None) -> None:
        self.engine = engine
        self.on_gpu = engine.device != "cpu"
        self._session = session
        self._shapes: Optional[List[Tuple[int, ...]]] = None
        self._static = all(size >= 0 for info in [*engine.inputs, *engine.outputs] for size in info.shape)

    def _gpu_outputs(self, tensors: Sequence[torch.Tensor]) -> List[torch.Tensor]:
        assert self._session is not None
        shapes = [tuple(one.shape) for one in tensors]
        if shapes != self._shapes:
            # The first run of these sizes plans and records; later ones are put on the stream as they are.
            self._session.run({info.name: one for info, one in zip(self.engine.inputs, tensors)})
            self._shapes = shapes
        device = tensors[0].device
        outputs = []
        for at, info in enumerate(self.engine.outputs):
            own = self._session.device_output(at)
            outputs.append(torch.empty(own.shape, dtype=getattr(torch, info.dtype), device=device))
        return outputs

    def __call__(self, tensors: Sequence[torch.Tensor]) -> List[torch.Tensor]:
        tensors = [one.detach().contiguous() for one in tensors]
        if self.on_gpu and all(one.is_cuda for one in tensors):
            if self._session is None:
                self._session = self.engine.session()
            outputs = self._gpu_outputs(tensors)
            stream = torch.cuda.current_stream(tensors[0].device)
            self._session.enqueue(tensors, outputs, stream.cuda_stream)
            return outputs
        run = self._session.run if self._session is not None else self.engine.run
        values = run({info.name: one for info, one in zip(self.engine.inputs, tensors)})
        return [
            torch.utils.dlpack.from_dlpack(value) if hasattr(value, "__dlpack__") else value
            for value in values.values()
        ]


class Compiled(torch.nn.Module):
    """What tenon.torch.compile gives: `engine` is the engine, `onnx` the model that it was built from."""

    def __init__(self, engine: _core.Engine, model: bytes, inputs: Any, outputs: Any) -> None:
        super().__init__()
        self.engine = engine
        self.onnx = model
        self._inputs, self._outputs = inputs, outputs
        self._run = Runner(engine)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        if spec != self._inputs:
            raise Error(
                Code.usage,
                "the arguments have another structure than the example's",
                why="%s, not %s" % (spec, self._inputs),
            )
        tensors = [one for one in leaves if isinstance(one, torch.Tensor)]
        outputs: List[Any] = list(self._run(tensors))
        return pytree.tree_unflatten(outputs, self._outputs)

    def extra_repr(self) -> str:
        return repr(self.engine)


def compile(
    module: Any,
    example_inputs: Tuple[Any, ...],
    *,
    precision: str = "fp32",
    device: Optional[str] = None,
    dynamic_batch: bool = False,
    **options: Any,
) -> Compiled:
    """Builds an engine of a module, and gives a callable with the module's signature.

    example_inputs: a tuple of tensors to trace with
    device:  else where the example lies
    dynamic_batch: leave the first size of every tensor free
    options: those of tenon.build
    """
    if isinstance(example_inputs, torch.Tensor):
        example_inputs = (example_inputs,)
    training = module.training if isinstance(module, torch.nn.Module) else False
    if training:
        module.eval()
    try:
        with torch.no_grad():
            expected = module(*example_inputs)
        model = to_bytes(module, example_inputs, dynamic_batch)
    finally:
        if training:
            module.train()
    leaves, _ = pytree.tree_flatten((example_inputs, {}))
    lies = next((str(one.device) for one in leaves if isinstance(one, torch.Tensor)), "cpu")
    if dynamic_batch:
        options.setdefault("shapes", example_shapes(model, [one for one in leaves if isinstance(one, torch.Tensor)]))
    engine = _build.build(model, precision=precision, device=device or lies, **options)
    _, structure = pytree.tree_flatten((tuple(example_inputs), {}))
    _, outputs = pytree.tree_flatten(expected)
    return Compiled(engine, model, structure, outputs)


def example_shapes(model: bytes, tensors: Sequence[torch.Tensor]) -> Dict[str, List[int]]:
    return {info.name: list(one.shape) for info, one in zip(_core.stated_inputs(model), tensors)}
