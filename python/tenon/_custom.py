# SPDX-License-Identifier: Apache-2.0
"""Ops of one's own, written in Python: for trying out. For production write a plugin (include/tenon/custom_op.h)."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union

from . import _core
from ._errors import Code, Error

F = TypeVar("F", bound=Callable[..., Any])
Count = Union[int, Tuple[int, Optional[int]]]


class TensorType(NamedTuple):
    """What is known of an operand: its element type, as "float32", and its sizes: None where not even their number is
    known, -1 for one that is not."""

    dtype: str
    shape: Optional[Tuple[int, ...]]


def _counts(count: Count) -> Tuple[int, int]:
    least, most = (count, count) if isinstance(count, int) else count
    return least, -1 if most is None else most


def _inputs_of(function: Callable[..., Any]) -> Tuple[int, int]:
    """How many inputs a function takes: its positional parameters, those with a default optional."""
    least = most = 0
    for one in inspect.signature(function).parameters.values():
        if one.kind == one.VAR_POSITIONAL:
            return least, -1
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD):
            most += 1
            least += one.default is one.empty
    return least, most


def _like_first(*types: Optional[TensorType], **attributes: Any) -> Optional[TensorType]:
    return types[0] if types else None


def _several(answer: Any, count: int, what: str) -> List[Any]:
    """The values of all outputs: a function may give that of an only one by itself."""
    values = list(answer) if isinstance(answer, (list, tuple)) and not isinstance(answer, TensorType) else [answer]
    if len(values) < count:
        raise ValueError("%s gives %d of %d outputs" % (what, len(values), count))
    return values


def custom_op(
    name: str,
    *,
    infer: Optional[Callable[..., Any]] = None,
    inputs: Optional[Count] = None,
    outputs: Count = 1,
) -> Callable[[F], F]:
    """Makes a Python function the op `name`, "domain::Op", which models may use from then on, for the process:

        @tenon.custom_op("acme::Swirl")
        def swirl(x, *, turns=1.0):
            return numpy.sin(x * turns)

    The function gets the inputs as arrays of its own (None for an optional one that is absent), the node's attributes
    by name, and gives the output as an array, or a list of them.

    infer:   a function of the inputs' TensorTypes and the attributes that gives the output's TensorType, or a list of
             them; without one outputs are of the first input's type and sizes
    inputs:  how many: a number, or (least, most), where None is any number; else as the function's parameters say
    outputs: the same of the outputs

    It runs on the CPU, one call at a time, as it holds the GIL; on an engine for a GPU it is copied to and fro. What it
    raises ends the build or run with an Error that names the node. Add it before models that use it are built and their
    engines loaded, in each process; an engine with it cannot run elsewhere.
    Raises Error(unsupported) for a name that exists already, or stands in a domain of ONNX or of Tenon.
    """
    domain, colons, op = name.rpartition("::")
    if not colons or not domain or not op:
        raise Error(Code.usage, "no op can be called %r" % name, hint='give its domain too: "acme::Swirl"')

    def add(function: F) -> F:
        types = infer or _like_first

        def typed(
            operands: Sequence[Optional[Tuple[str, Optional[Tuple[int, ...]]]]], attributes: Dict[str, Any], count: int
        ) -> List[Tuple[str, Optional[List[int]]]]:
            answer = types(*[None if one is None else TensorType(*one) for one in operands], **attributes)
            if infer is None:
                answer = [answer] * count
            return [
                (str(dtype), None if sizes is None else [int(size) for size in sizes])
                for dtype, sizes in _several(answer, count, "infer")
            ]

        def computed(values: List[Any], attributes: Dict[str, Any], count: int) -> List[Any]:
            answer = function(*values, **attributes)
            if count == 1 and not isinstance(answer, (list, tuple)):
                return [answer]
            return _several(answer, count, "it")

        _core.add_custom_op(
            domain, op, _inputs_of(function) if inputs is None else _counts(inputs), _counts(outputs), typed, computed
        )
        return function

    return add
