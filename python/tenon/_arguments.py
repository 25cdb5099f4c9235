# SPDX-License-Identifier: Apache-2.0
"""What callers give: checked, and told by name where it cannot be used."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Mapping, NoReturn, Optional, Sequence, Set, Tuple

from ._errors import ArgumentError, Code, Error

_UNITS = "KMGT"
_SIZE = re.compile(r"([0-9]+)(?:([KMGT])(?:i?B|i)?|B)?")
_TIME = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ms|s|min|m|h|)")
DEVICES = '"cpu", "cuda" or "cuda:N"'
_SHAPES = 'a dict of sizes by input, as {"images": [1, 3, 224, 224]}'
_SECONDS = {"": 1.0, "s": 1.0, "ms": 1e-3, "m": 60.0, "min": 60.0, "h": 3600.0}


def shown(value: Any) -> str:
    """A value in a message."""
    text = repr(value)
    return "%s of type %s" % (text if len(text) <= 40 else text[:37] + "...", type(value).__name__)


def refuse(name: str, given: Any, expected: str) -> NoReturn:
    raise ArgumentError(Code.usage, "%s takes %s" % (name, expected), where=name, why="given is " + shown(given))


def refuse_value(name: str, given: Any, hint: str) -> NoReturn:
    raise Error(Code.usage, "%r is no value for %s" % (given, name), where=name, hint=hint)


def refuse_name(key: Any) -> NoReturn:
    refuse("inputs", key, "a dict of arrays by the inputs' names")


def whole(name: str, value: Any, least: int = 0) -> int:
    """A whole number from `least` on."""
    if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__index__"):
        refuse(name, value, "a whole number")
    number = int(value.__index__())
    if not least <= number < 2**31:
        refuse_value(name, value, "give a number from %d on" % least)
    return number


def number(name: str, value: Any, low: float = 0.0, high: float = float("inf")) -> float:
    if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__"):
        refuse(name, value, "a number")
    found = float(value)
    if not low <= found <= high:
        refuse_value(name, value, "give a number from %g%s" % (low, " on" if high == float("inf") else " to %g" % high))
    return found


def flag(name: str, value: Any) -> bool:
    if type(value).__name__ not in ("bool", "bool_"):
        refuse(name, value, "True or False")
    return bool(value)


def text(name: str, value: Any, expected: str) -> str:
    if not isinstance(value, str):
        refuse(name, value, expected)
    return value


def path(name: str, value: Any) -> str:
    if not isinstance(value, (str, os.PathLike)):
        refuse(name, value, "a path")
    return str(os.fspath(value))


def size(name: str, value: Any) -> int:
    """Bytes, as a number or as "512M"; 0 is no limit."""
    if isinstance(value, str):
        found = _SIZE.fullmatch(value)
        if found is None:
            refuse_value(name, value, "sizes look like 512M or 4G")
        value = int(found.group(1)) << (10 * (_UNITS.find(found.group(2)) + 1 if found.group(2) else 0))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, (bool, bytes)) or not hasattr(value, "__index__"):
        refuse(name, value, 'bytes, or text as "512M" or "4G"')
    if not 0 <= int(value) < 2**63:
        refuse_value(name, value, "sizes look like 512M or 4G")
    return int(value)


def seconds(name: str, value: Any) -> float:
    """Seconds, as a number or as "5s"."""
    if isinstance(value, str):
        found = _TIME.fullmatch(value)
        if found is None:
            refuse_value(name, value, "times look like 500ms, 5s or 1m")
        return float(found.group(1)) * _SECONDS[found.group(2)]
    if isinstance(value, (bool, bytes)) or not hasattr(value, "__float__"):
        refuse(name, value, 'seconds, or text as "500ms", "5s" or "1m"')
    return number(name, value, 0.0, 1e9)


def mapping(name: str, value: Any, expected: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        refuse(name, value, expected)
    return value


def texts(name: str, value: Optional[Mapping[str, str]]) -> Dict[str, str]:
    """A dict of text by text."""
    expected = "a dict of text by text"
    made = dict(mapping(name, {} if value is None else value, expected))
    for key, one in made.items():
        if not isinstance(key, str):
            refuse(name, key, expected)
        if not isinstance(one, str):
            refuse("%s[%r]" % (name, key), one, "text")
    return made


def sizes(name: str, value: Any, least: int = 0) -> List[int]:
    """The sizes of one input."""
    expected = "the sizes of the input, as [1, 3, 224, 224]"
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
        refuse(name, value, expected)
    made = []
    for one in value:
        if isinstance(one, (bool, str, bytes)) or not hasattr(one, "__index__"):
            refuse(name, value, expected)
        made.append(int(one.__index__()))
    return made


def shapes(name: str, value: Optional[Mapping[str, Sequence[int]]]) -> Dict[str, List[int]]:
    """Sizes by input."""
    given = mapping(name, {} if value is None else value, _SHAPES)
    return {str(key): sizes("%s[%r]" % (name, key), one) for key, one in given.items()}


def of_session(threads: Any, given: Any, device: Any, profile: Any) -> Tuple[int, Dict[str, List[int]], str, Any]:
    """The arguments of Engine.session."""
    if profile is not None:
        text("profile", profile, "the name of a profile")
    return whole("threads", threads), shapes("shapes", given), text("device", device, DEVICES), profile


def of_profile(opt: Any, least: Any, most: Any, name: Any) -> Tuple[Any, ...]:
    """The arguments of Profile."""
    if opt is None:
        refuse("opt", opt, _SHAPES)
    given = (("opt", opt), ("min", least), ("max", most))
    return (*(shapes(which, value) for which, value in given), text("name", name, "the name of the profile"))


def of_why(node: Any, measure: Any, threads: Any, iterations: Any) -> Tuple[str, bool, int, int]:
    """The arguments of Engine.why."""
    node = text("node", node, "the name of an ONNX node")
    return node, flag("measure", measure), whole("threads", threads), whole("iterations", iterations, 1)


def spec(value: Any) -> str:
    """The text of a preprocessing, of which Preprocess is made."""
    from . import _core

    if isinstance(value, _core.Preprocess):
        return str(value)
    return text("preprocess", value, 'text as "yolo", "imagenet" or "letterbox=640x640,scale=1/255"')


def device(value: Any) -> str:
    return text("device", value, DEVICES)


def several(name: str, value: Any, expected: str) -> List[Any]:
    """A list of what is to be several."""
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
        refuse(name, value, expected)
    return list(value)


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") or hasattr(value, "__dlpack__") or isinstance(value, (memoryview, bytearray))


def by_name(values: Any, names: Sequence[str]) -> Dict[str, Any]:
    """The inputs of a run that are no dict: another mapping, an array, or arrays in the inputs' order."""
    if isinstance(values, Mapping):
        return dict(values)
    if values is None or isinstance(values, (str, bytes)):
        refuse("inputs", values, "a dict of arrays by input name, an array, or a list of arrays")
    if isinstance(values, (list, tuple)) and values and all(_is_array(one) for one in values):
        ordered = list(values)
    elif _is_array(values) or isinstance(values, (list, tuple, int, float)):
        ordered = [values]
    else:
        refuse("inputs", values, "a dict of arrays by input name, an array, or a list of arrays")
    if len(ordered) > len(names):
        raise Error(Code.usage, "more values than inputs", why="%d for %d" % (len(ordered), len(names)))
    return dict(zip(names, ordered))


def in_order(names: Any, outputs: Dict[str, Any]) -> List[Any]:
    """The outputs named, in that order; all for None, as ONNX Runtime has it."""
    if names is None:
        return list(outputs.values())
    if isinstance(names, (str, bytes)) or not isinstance(names, Sequence):
        refuse("output_names", names, "a list of outputs' names, or None")
    for name in names:
        if name not in outputs:
            known = ", ".join(outputs)
            raise Error(
                Code.usage, 'the model has no output "%s"' % name, where=str(name), hint="its outputs: " + known
            )
    return [outputs[name] for name in names] or list(outputs.values())


_told: Set[str] = set()


def cast_to_input(value: Any, dtype: str, name: str) -> Any:
    """The array in the type that the input expects, which the log tells once for each input.

    Raises Error(usage) for integers that do not fit."""
    import numpy

    array = numpy.asarray(value.detach() if hasattr(value, "detach") else value)
    made = array.astype(dtype)
    if array.dtype.kind in "iu" and not (made == array).all():
        wrong = array[made != array].ravel()[0]
        raise Error(Code.usage, "%d does not fit into %s" % (wrong, dtype), where=name)
    if name not in _told:
        from ._logging import logger

        _told.add(name)
        logger.warning("%s: cast from %s to %s, which the input expects", name, array.dtype, dtype)
    return made
