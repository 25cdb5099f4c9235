# SPDX-License-Identifier: Apache-2.0
"""Small values: sizes, weights, memory, the logger."""

from __future__ import annotations

import datetime
import warnings
from typing import Any, Iterable, List, Optional, Sequence, Tuple, Union

from ._absent import CLASSES
from ._enums import DataType, Severity

NUMPY_NAMES = {
    DataType.FLOAT: "float32",
    DataType.HALF: "float16",
    DataType.INT8: "int8",
    DataType.INT32: "int32",
    DataType.BOOL: "bool",
    DataType.UINT8: "uint8",
    DataType.INT64: "int64",
}
TENON_NAMES = {**NUMPY_NAMES, DataType.BF16: "bfloat16", DataType.FP8: "float8_e4m3fn", DataType.INT4: "int4"}


class NotOffered(AttributeError, NotImplementedError):
    """Something of TensorRT that Tenon does not have. hasattr() says no; a use says what to take instead."""


def lacking(where: str, instead: dict[str, str], name: str) -> AttributeError:
    """What to raise for an attribute that is not there."""
    if name in instead:
        return NotOffered("%s.%s is not offered: %s" % (where, name, instead[name]))
    return AttributeError("%s has no attribute %r" % (where, name))


def data_type(name: str) -> DataType:
    """Of Tenon's name for a type."""
    for kind, own in TENON_NAMES.items():
        if own == name:
            return kind
    return {"float64": DataType.FLOAT}.get(name, DataType.INT32)


def nptype(dtype: DataType) -> Any:
    """The NumPy type; TypeError where NumPy has none."""
    import numpy

    if dtype not in NUMPY_NAMES:
        raise TypeError("Could not resolve TensorRT datatype to an equivalent numpy datatype.")
    return getattr(numpy, "bool_" if dtype == DataType.BOOL else NUMPY_NAMES[dtype])


def volume(sizes: Iterable[int]) -> int:
    """The product; 1 for none."""
    product = 1
    for size in sizes:
        product *= size
    return product


class Dims(List[int]):
    """Sizes: a list that prints as a tuple, and whose slices are tuples."""

    MAX_DIMS = 8
    _length: Optional[int] = None

    def __init__(self, *sizes: Any) -> None:
        values = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
        super().__init__(int(size) for size in values)
        if len(self) > self.MAX_DIMS or (self._length is not None and len(self) != self._length):
            raise ValueError("Input length %d not equal to expected Dims length" % len(self))

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        return tuple(found) if isinstance(at, slice) else found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (list, tuple)) and list(self) == list(other)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    __str__ = __repr__


class Dims2(Dims):
    _length = 2


class DimsHW(Dims):
    _length = 2

    @property
    def h(self) -> int:
        return int(self[0])

    @property
    def w(self) -> int:
        return int(self[1])


class Dims3(Dims):
    _length = 3


class Dims4(Dims):
    _length = 4


class Weights:
    """Values of an array, or none of a type."""

    def __init__(self, values: Any = None) -> None:
        import numpy

        self._array = numpy.zeros(0, nptype(values)) if isinstance(values, DataType) else numpy.asarray(values)
        self.dtype = data_type(str(self._array.dtype))
        self.size = int(self._array.size)
        self.nbytes = int(self._array.nbytes)

    def numpy(self) -> Any:
        return self._array

    def __len__(self) -> int:
        return self.size


class Managed:
    """TensorRT's objects are context managers that do nothing at the end."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *what: object) -> None:
        return None


class Sealed(Managed):
    """Objects that Tenon makes: attributes that they have not are refused, read or set."""

    def _lacking(self, name: str) -> AttributeError:
        kind = type(self)
        for base in kind.__mro__:
            if base.__name__ in CLASSES and base.__module__.startswith(__package__):
                return lacking(base.__name__, CLASSES[base.__name__], name)
        return lacking(kind.__name__, {}, name)

    def __getattr__(self, name: str) -> Any:
        raise self._lacking(name)

    def __setattr__(self, name: str, value: Any) -> None:
        own = name.startswith("_") or name in self.__dict__ or hasattr(type(self), name)
        # A script's own class may have what it likes.
        if not own and self.__dict__.get("_sealed") and type(self).__module__.startswith(__package__):
            raise self._lacking(name)
        super().__setattr__(name, value)


class HostMemory(bytes, Managed):
    """Bytes of an engine or a cache."""

    @property
    def nbytes(self) -> int:
        return len(self)

    @property
    def dtype(self) -> DataType:
        return DataType.INT8


class ILogger(Managed):
    """Subclass it and override log(severity, msg)."""

    INTERNAL_ERROR = Severity.INTERNAL_ERROR
    ERROR = Severity.ERROR
    WARNING = Severity.WARNING
    INFO = Severity.INFO
    VERBOSE = Severity.VERBOSE
    Severity = Severity

    def __init__(self) -> None:
        pass

    def log(self, severity: Any, msg: str) -> None:
        raise NotImplementedError("a logger overrides log(severity, msg)")


class Logger(ILogger):
    """Writes lines as TensorRT does to the standard output."""

    def __init__(self, min_severity: Any = Severity.WARNING) -> None:
        super().__init__()
        self.min_severity = min_severity

    def log(self, severity: Any, msg: str) -> None:
        if severity <= self.min_severity:
            time = datetime.datetime.now().strftime("%m/%d/%Y-%H:%M:%S")
            print("[%s] [TRT] [%s] %s" % (time, "FEWIV"[int(severity)], msg), flush=True)


def tell(logger: Any, severity: Severity, text: str) -> None:
    """A line to a logger of the caller, whose exceptions are dropped, as TensorRT's are."""
    try:
        if logger is not None:
            logger.log(severity, text)
    except Exception as error:
        warnings.warn("the logger failed: %s" % error, stacklevel=2)


def pointer(value: Any) -> int:
    """An address: of a number, or of whatever stands for one."""
    if isinstance(value, int):
        return value
    if hasattr(value, "__index__"):
        return int(value.__index__())
    if hasattr(value, "data_ptr"):
        return int(value.data_ptr())
    return int(value)


Shape = Union[Dims, Sequence[int], Tuple[int, ...]]
