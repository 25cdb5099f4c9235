# SPDX-License-Identifier: Apache-2.0
"""Memory that scripts call the device's: a GPU's, or the host's where there is no GPU."""

from __future__ import annotations

import ctypes
from typing import Any, Dict, Optional, Sequence

NAMES = {"bool": "bool", "bfloat16": "uint16", "float8_e4m3fn": "uint8"}


def host_array(address: int, sizes: Sequence[int], dtype: str) -> Any:
    """An array on memory of the process."""
    import numpy

    kind = numpy.dtype(NAMES.get(dtype, dtype))
    count = 1
    for size in sizes:
        count *= size
    if count == 0:
        return numpy.zeros(sizes, kind)
    raw: Any = (ctypes.c_char * (count * kind.itemsize)).from_address(address)
    return numpy.frombuffer(raw, kind).reshape(sizes)


class HostMemory:
    """The host's memory in the device's place: addresses are those of the process."""

    name = "host memory (no GPU)"
    on_gpu = False

    def __init__(self) -> None:
        self._held: Dict[int, Any] = {}

    def allocate(self, size: int) -> int:
        import numpy

        # 64-byte aligned, as devices do it.
        block = numpy.zeros(max(size, 1) + 64, numpy.uint8)
        address = int((block.ctypes.data + 63) // 64 * 64)
        self._held[address] = block
        return address

    def free(self, address: int) -> None:
        self._held.pop(address, None)

    def to_device(self, to: int, source: int, size: int, stream: int = 0) -> None:
        ctypes.memmove(to, source, size)

    to_host = to_device
    between = to_device

    def fill(self, to: int, value: int, size: int) -> None:
        ctypes.memset(to, value, size)

    def array(self, address: int, sizes: Sequence[int], dtype: str) -> Any:
        """The elements at an address."""
        return host_array(address, sizes, dtype)

    def synchronize(self, stream: int = 0) -> None:
        return None

    def new_stream(self) -> int:
        return 0

    def end_stream(self, stream: int) -> None:
        return None

    def free_and_total(self) -> "tuple[int, int]":
        facts = {}
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                facts[line.split(":")[0]] = int(line.split()[1]) * 1024
        return facts["MemAvailable"], facts["MemTotal"]


_memory: Optional[Any] = None


def memory() -> Any:
    """Of the first GPU where its driver is there, else the host's. Chosen once."""
    global _memory
    if _memory is None:
        from ._driver import GpuMemory, driver

        _memory = GpuMemory() if driver() is not None else HostMemory()
    return _memory
