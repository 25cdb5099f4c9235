# SPDX-License-Identifier: Apache-2.0
"""The part of NVIDIA's driver that scripts take from pycuda, called directly: no package and no compiler is needed."""

from __future__ import annotations

import ctypes
from typing import Any, Optional, Sequence

# NumPy's names of types by Tenon's, where they differ.
NAMES = {"bool": "bool", "bfloat16": "uint16", "float8_e4m3fn": "uint8"}

_driver: Any = False


def driver() -> Optional[Any]:
    """libcuda, initialised, where it finds a GPU; else None."""
    global _driver
    if _driver is False:
        _driver = None
        try:
            library = ctypes.CDLL("libcuda.so.1")
        except OSError:
            return None
        count = ctypes.c_int(0)
        if library.cuInit(0) == 0 and library.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0:
            _driver = library
    return _driver


class DriverError(Exception):
    """What the driver answered."""

    def __init__(self, call: str, status: int) -> None:
        text = ctypes.c_char_p()
        library = driver()
        if library is not None:
            library.cuGetErrorString(status, ctypes.byref(text))
        super().__init__("%s failed: %s" % (call, (text.value or b"status %d" % status).decode()))
        self.status = status


def call(name: str, *arguments: Any) -> None:
    library = driver()
    assert library is not None
    status = getattr(library, name)(*arguments)
    if status != 0:
        raise DriverError(name, status)


def address(value: int) -> Any:
    return ctypes.c_uint64(value)


class GpuMemory:
    """A GPU's memory, in its primary context, which PyTorch and Tenon use too."""

    on_gpu = True

    def __init__(self, index: int = 0) -> None:
        self.index = index
        self._context = ctypes.c_void_p()
        device = ctypes.c_int()
        call("cuDeviceGet", ctypes.byref(device), index)
        call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        self.device = device.value
        name = ctypes.create_string_buffer(128)
        call("cuDeviceGetName", name, 128, device)
        self.name = name.value.decode()

    def _here(self) -> None:
        call("cuCtxSetCurrent", self._context)

    def allocate(self, size: int) -> int:
        self._here()
        made = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(made), ctypes.c_size_t(max(size, 1)))
        return made.value

    def free(self, at: int) -> None:
        self._here()
        call("cuMemFree_v2", address(at))

    def require(self, at: int, size: int, foreign: bool = False) -> None:
        """The driver checks addresses by itself."""

    def to_device(self, to: int, source: int, size: int, stream: Optional[int] = None) -> None:
        self._here()
        if stream is None:
            call("cuMemcpyHtoD_v2", address(to), ctypes.c_void_p(source), ctypes.c_size_t(size))
        else:
            call(
                "cuMemcpyHtoDAsync_v2",
                address(to),
                ctypes.c_void_p(source),
                ctypes.c_size_t(size),
                ctypes.c_void_p(stream),
            )

    def to_host(self, to: int, source: int, size: int, stream: Optional[int] = None) -> None:
        self._here()
        if stream is None:
            call("cuMemcpyDtoH_v2", ctypes.c_void_p(to), address(source), ctypes.c_size_t(size))
        else:
            call(
                "cuMemcpyDtoHAsync_v2",
                ctypes.c_void_p(to),
                address(source),
                ctypes.c_size_t(size),
                ctypes.c_void_p(stream),
            )

    def between(self, to: int, source: int, size: int, stream: Optional[int] = None) -> None:
        self._here()
        call("cuMemcpyDtoDAsync_v2", address(to), address(source), ctypes.c_size_t(size), ctypes.c_void_p(stream or 0))
        if stream is None:
            self.synchronize()

    def fill(self, to: int, value: int, size: int) -> None:
        self._here()
        call("cuMemsetD8_v2", address(to), ctypes.c_ubyte(value), ctypes.c_size_t(size))

    def array(self, at: int, sizes: Sequence[int], dtype: str) -> Any:
        """The elements at an address, copied to the host; what earlier work does there is waited for."""
        import numpy

        self._here()
        call("cuCtxSynchronize")
        values = numpy.empty(sizes, numpy.dtype(NAMES.get(dtype, dtype)))
        self.to_host(values.ctypes.data, at, values.nbytes)
        return values

    def synchronize(self, stream: Optional[int] = None) -> None:
        self._here()
        if stream:
            call("cuStreamSynchronize", ctypes.c_void_p(stream))
        else:
            call("cuCtxSynchronize")

    def new_stream(self) -> int:
        self._here()
        made = ctypes.c_void_p()
        call("cuStreamCreate", ctypes.byref(made), 0)
        return int(made.value or 0)

    def end_stream(self, stream: int) -> None:
        self._here()
        call("cuStreamDestroy_v2", ctypes.c_void_p(stream))

    def free_and_total(self) -> "tuple[int, int]":
        self._here()
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value
