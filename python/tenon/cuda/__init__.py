# SPDX-License-Identifier: Apache-2.0
"""What scripts take from pycuda.driver, without pycuda and without a compiler:

    import tenon.cuda as cuda
    import tenon.cuda.autoinit

With a GPU it is the driver's; without one "device" memory is the host's, and streams do their work at once.
"""

from __future__ import annotations

import ctypes
import time
from typing import Any, List, Optional, Sequence, Tuple, Union

from ._absent import INSTEAD as _INSTEAD
from ._absent import MEMBERS as _MEMBERS
from ._absent import Members as _Members
from ._driver import DriverError, call, driver
from ._memory import BadAddress as _BadAddress
from ._memory import memory


class Error(Exception):
    """A call that failed."""


class LogicError(Error):
    """A wrong argument."""


class LaunchError(Error):
    """A kernel that failed."""


class RuntimeError(Error):
    """Anything else."""


class MemoryError(Error):
    """No memory left on the device."""


def init(flags: int = 0) -> None:
    """May be called again."""
    memory()


def get_version() -> Tuple[int, int, int]:
    """Of the driver; (0, 0, 0) without one."""
    if driver() is None:
        return (0, 0, 0)
    version = ctypes.c_int()
    call("cuDriverGetVersion", ctypes.byref(version))
    return (version.value // 1000, version.value % 1000 // 10, 0)


class Context(_Members):
    """A stack of contexts that scripts push and pop; there is one, the device's primary one."""

    _stack: List["Context"] = []

    def __init__(self, device: "Device") -> None:
        self.device = device

    def push(self) -> None:
        Context._stack.append(self)

    @staticmethod
    def pop() -> None:
        if not Context._stack:
            raise LogicError("context::pop failed: cannot pop non-current context")
        Context._stack.pop()

    def detach(self) -> None:
        if self in Context._stack:
            Context._stack.remove(self)

    def attach(self, flags: int = 0) -> "Context":
        return self

    @staticmethod
    def synchronize() -> None:
        memory().synchronize()

    @staticmethod
    def get_device() -> "Device":
        return Context._stack[-1].device if Context._stack else Device(0)

    @staticmethod
    def get_current() -> Optional["Context"]:
        return Context._stack[-1] if Context._stack else None


class Device(_Members):
    """A GPU, or the host in its place."""

    def __init__(self, number: Union[int, str] = 0) -> None:
        self.number = int(number)
        if not 0 <= self.number < max(1, self.count()):
            raise LogicError("cuDeviceGet failed: invalid device ordinal")

    @staticmethod
    def count() -> int:
        """GPUs; 0 without one."""
        if driver() is None:
            return 0
        found = ctypes.c_int()
        call("cuDeviceGetCount", ctypes.byref(found))
        return found.value

    def name(self) -> str:
        return str(memory().name)

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        call("cuDeviceGetAttribute", ctypes.byref(value), number, ctypes.c_int(self.number))
        return value.value

    def compute_capability(self) -> Tuple[int, int]:
        return (0, 0) if driver() is None else (self._attribute(75), self._attribute(76))

    def total_memory(self) -> int:
        return int(memory().free_and_total()[1])

    def pci_bus_id(self) -> str:
        return ""

    def make_context(self, flags: int = 0) -> Context:
        """Made and current, until pop()."""
        memory()
        context = Context(self)
        context.push()
        return context

    def retain_primary_context(self) -> Context:
        return Context(self)


class DeviceAllocation(_Members):
    """Memory of the device; freed with the object."""

    def __init__(self, size: int) -> None:
        self.size = int(size)
        self._address = 0
        if self.size < 0:
            raise LogicError("mem_alloc: invalid size")
        try:
            self._address = memory().allocate(self.size)
        except (DriverError, builtin_memory_error) as error:
            raise MemoryError("cuMemAlloc failed: out of memory (%s)" % error) from None

    def __int__(self) -> int:
        return self._address

    __index__ = __int__

    def free(self) -> None:
        if not self._address:
            raise LogicError("mem_free failed: the memory is freed already")
        address, self._address = self._address, 0
        _call("mem_free", memory().free, address)

    def __del__(self) -> None:
        try:
            if self._address:
                self.free()
        except Exception:  # the driver may be gone at the end of the process
            pass


builtin_memory_error = __import__("builtins").MemoryError


def mem_alloc(nbytes: int) -> DeviceAllocation:
    return DeviceAllocation(int(nbytes))


def mem_alloc_like(array: Any) -> DeviceAllocation:
    return DeviceAllocation(array.nbytes)


def to_device(array: Any) -> DeviceAllocation:
    made = DeviceAllocation(array.nbytes)
    memcpy_htod(made, array)
    return made


def from_device(devptr: Any, shape: Sequence[int], dtype: Any, order: str = "C") -> Any:
    import numpy

    array = numpy.empty(shape, dtype, order)  # type: ignore[call-overload]
    memcpy_dtoh(array, devptr)
    return array


def from_device_like(devptr: Any, other: Any) -> Any:
    return from_device(devptr, other.shape, other.dtype)


def mem_get_info() -> Tuple[int, int]:
    """(free, total) bytes."""
    free, total = memory().free_and_total()
    return int(free), int(total)


def pagelocked_empty(shape: Any, dtype: Any, order: str = "C", mem_flags: int = 0) -> Any:
    """An array that copies read from and write to."""
    import numpy

    return numpy.zeros(shape, dtype, order)  # type: ignore[call-overload]


pagelocked_zeros = pagelocked_empty


def pagelocked_empty_like(array: Any, mem_flags: int = 0) -> Any:
    return pagelocked_empty(array.shape, array.dtype)


pagelocked_zeros_like = pagelocked_empty_like


def register_host_memory(ary: Any, flags: int = 0) -> Any:
    return ary


def _span(value: Any, writable: bool = False) -> Tuple[int, int, Any]:
    """(address, bytes, what holds them) of a contiguous buffer."""
    import numpy

    array = value if isinstance(value, numpy.ndarray) else numpy.frombuffer(value, numpy.uint8)
    if not array.flags.c_contiguous and not array.flags.f_contiguous:
        raise ValueError("ndarray is not contiguous")
    if writable and not array.flags.writeable:
        raise ValueError("the array is read-only")
    return int(array.ctypes.data), int(array.nbytes), array


def _call(name: str, work: Any, *arguments: Any) -> None:
    try:
        work(*arguments)
    except (_BadAddress, DriverError) as error:
        raise LogicError("%s failed: %s" % (name, error)) from None


def _at(name: str, device: Any, size: int) -> int:
    """The address of `size` bytes of the device. Raises LogicError where they are not there."""
    if device is None or isinstance(device, (float, str)) or not hasattr(device, "__int__"):
        raise LogicError("%s failed: %s is no memory of the device" % (name, type(device).__name__))
    if isinstance(device, DeviceAllocation) and not device._address:
        raise LogicError("%s failed: the memory is freed already" % name)
    if size < 0:
        raise LogicError("%s failed: %d is no size" % (name, size))
    _call(name, memory().require, int(device), size)
    return int(device)


def _stream(stream: Optional["Stream"]) -> int:
    return stream.handle if stream is not None else 0


def memcpy_htod(dest: Any, src: Any) -> None:
    address, size, _ = _span(src)
    _call("memcpy_htod", memory().to_device, _at("memcpy_htod", dest, size), address, size)


def memcpy_dtoh(dest: Any, src: Any) -> None:
    address, size, _ = _span(dest, True)
    _call("memcpy_dtoh", memory().to_host, address, _at("memcpy_dtoh", src, size), size)


def memcpy_htod_async(dest: Any, src: Any, stream: Optional["Stream"] = None) -> None:
    """The array may go at once: memory that is not page-locked is read before this returns."""
    address, size, _ = _span(src)
    name = "memcpy_htod_async"
    _call(name, memory().to_device, _at(name, dest, size), address, size, _stream(stream))


def memcpy_dtoh_async(dest: Any, src: Any, stream: Optional["Stream"] = None) -> None:
    address, size, _ = _span(dest, True)
    name = "memcpy_dtoh_async"
    _call(name, memory().to_host, address, _at(name, src, size), size, _stream(stream))


def memcpy_dtod(dest: Any, src: Any, size: int) -> None:
    name = "memcpy_dtod"
    _call(name, memory().between, _at(name, dest, int(size)), _at(name, src, int(size)), int(size))


def memcpy_dtod_async(dest: Any, src: Any, size: int, stream: Optional["Stream"] = None) -> None:
    name = "memcpy_dtod_async"
    _call(name, memory().between, _at(name, dest, int(size)), _at(name, src, int(size)), int(size), _stream(stream))


def memset_d8(dest: Any, data: int, count: int) -> None:
    _call("memset_d8", memory().fill, _at("memset_d8", dest, int(count)), int(data), int(count))


def _fill(dest: Any, data: int, count: int, width: int) -> None:
    import numpy

    memcpy_htod(dest, numpy.full(count, data, {2: numpy.uint16, 4: numpy.uint32}[width]))


def memset_d16(dest: Any, data: int, count: int) -> None:
    _fill(dest, data, count, 2)


def memset_d32(dest: Any, data: int, count: int) -> None:
    _fill(dest, data, count, 4)


class Stream(_Members):
    """An order of work. `handle` is the driver's; 0 is the default stream."""

    def __init__(self, flags: int = 0) -> None:
        self.handle = memory().new_stream()

    def synchronize(self) -> None:
        memory().synchronize(self.handle)

    def is_done(self) -> bool:
        self.synchronize()
        return True

    def wait_for_event(self, evt: "Event") -> None:
        evt.synchronize()

    def __int__(self) -> int:
        return int(self.handle)

    __index__ = __int__

    def __del__(self) -> None:
        try:
            if self.handle:
                memory().end_stream(self.handle)
        except Exception:  # the driver may be gone at the end of the process
            pass


class Event(_Members):
    """A moment: of the clock, when what was put on the stream before has ended."""

    def __init__(self, flags: int = 0) -> None:
        self._time = 0.0

    def record(self, stream: Optional[Stream] = None) -> "Event":
        memory().synchronize(stream.handle if stream is not None else 0)
        self._time = time.perf_counter()
        return self

    def synchronize(self) -> "Event":
        return self

    def query(self) -> bool:
        return True

    def time_since(self, event: "Event") -> float:
        """Milliseconds."""
        return 1000 * (self._time - event._time)

    def time_till(self, event: "Event") -> float:
        return event.time_since(self)


def __getattr__(name: str) -> Any:
    from ..tensorrt._types import lacking

    raise lacking("tenon.cuda", _INSTEAD, name)
