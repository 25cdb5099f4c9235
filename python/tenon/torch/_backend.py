# SPDX-License-Identifier: Apache-2.0
"""torch.compile(module, backend="tenon")."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence

import torch

from .. import _build
from .._errors import Error
from .._logging import logger
from ._compile import Runner, to_bytes


class Decision:
    """What became of a graph: `taken`, or `why` not; `nodes` is how many operations it has, `ops` which."""

    def __init__(self, graph: torch.fx.GraphModule) -> None:
        calls = [node for node in graph.graph.nodes if node.op.startswith("call")]
        self.nodes = len(calls)
        self.ops = sorted({str(getattr(node.target, "__name__", node.target)) for node in calls})
        self.taken = False
        self.why = ""

    def __repr__(self) -> str:
        return "graph of %d operations: %s" % (self.nodes, "Tenon" if self.taken else "PyTorch, as " + self.why)


_decisions: List[Decision] = []


def explain() -> List[Decision]:
    """What became of each graph since the start, or reset()."""
    return list(_decisions)


def reset() -> None:
    """Forgets what explain() tells."""
    _decisions.clear()


class _Frozen(torch.nn.Module):
    """A graph with the inputs that do not change, its weights, in their places."""

    def __init__(self, graph: Any, values: Sequence[Any], free: Sequence[int]) -> None:
        super().__init__()
        self.graph_module, self._free, self._count = graph, list(free), len(values)
        for at, value in enumerate(values):
            if at not in free:
                self.register_buffer("fixed_%d" % at, value.detach())

    def forward(self, *args: Any) -> Any:
        given = iter(args)
        values = [next(given) if at in self._free else getattr(self, "fixed_%d" % at) for at in range(self._count)]
        return self.graph_module(*values)


def _is_weight(value: Any) -> bool:
    return isinstance(value, torch.nn.Parameter) or hasattr(value, "_dynamo_static_input_type")


def _refusal(values: Sequence[Any], free: Sequence[int]) -> str:
    for at, value in enumerate(values):
        if not isinstance(value, torch.Tensor):
            return "input %d is %s, no tensor: sizes are dynamic" % (at, type(value).__name__)
        if at in free and any(not isinstance(size, int) for size in value.shape):
            return "the sizes of input %d are dynamic" % at
    if torch.is_grad_enabled() and any(value.requires_grad for value in values):
        return "gradients are wanted: call it under torch.no_grad()"
    if not free:
        return "it has no inputs"
    return ""


def backend(graph: torch.fx.GraphModule, example_inputs: List[Any], **more: Any) -> Callable[..., Any]:
    """For torch.compile. Options are those of tenon.build: torch.compile(module, backend="tenon",
    options={"precision": "bf16"})."""
    options: Dict[str, Any] = dict(more.get("options") or {})
    options.setdefault("budget", 0)
    decision = Decision(graph)
    _decisions.append(decision)
    free = [at for at, value in enumerate(example_inputs) if not _is_weight(value)]
    decision.why = _refusal(example_inputs, free)
    taken: Optional[Callable[..., Any]] = None
    if not decision.why:
        try:
            taken = _taken(graph, example_inputs, free, options)
            decision.taken = True
        except Error as error:
            decision.why = str(error)
        except Exception as error:
            decision.why = "PyTorch cannot export it: %s" % (str(error).splitlines() or [repr(error)])[0]
    if taken is None:
        logger.info("torch.compile: %r", decision)
        return graph.forward
    return taken


def _taken(
    graph: torch.fx.GraphModule, values: Sequence[Any], free: Sequence[int], options: Dict[str, Any]
) -> Callable[..., Any]:
    # What dynamo gives as examples are real tensors; none is written.
    examples = tuple(
        torch.empty_strided(
            values[at].shape, values[at].stride(), dtype=values[at].dtype, device=values[at].device
        ).fill_(1)
        for at in free
    )
    model = to_bytes(_Frozen(graph, values, free).eval(), examples)
    options.setdefault("device", str(examples[0].device))
    engine = _build.build(model, **options)
    runner = Runner(engine)
    order = [at for at in free]
    used = _used(model, len(order))

    def call(*args: Any) -> Any:
        return runner([args[order[at]] for at in used])

    return call


def _used(model: bytes, count: int) -> List[int]:
    """Which of the inputs the exported model has kept."""
    from .. import _core

    names = [info.name for info in _core.stated_inputs(model)]
    return list(range(count)) if len(names) == count else [int(name.rpartition("_")[2] or 0) for name in names]
