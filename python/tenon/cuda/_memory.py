# SPDX-License-Identifier: Apache-2.0
"""Memory that scripts call the device's: a GPU's, or the host's where there is no GPU."""

from __future__ import annotations

import bisect
import ctypes
import errno
import mmap
import threading
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ._driver import NAMES, GpuMemory, driver


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


class BadAddress(Exception):
    """Memory that is not what a call takes it for."""


def is_mapped(address: int, size: int) -> bool:
    """Whether the process has memory there; large blocks that were freed are gone."""
    begin = address // mmap.PAGESIZE * mmap.PAGESIZE
    pages = -(-(address + size - begin) // mmap.PAGESIZE)
    library = ctypes.CDLL(None, use_errno=True)
    asked = (ctypes.c_void_p(begin), ctypes.c_size_t(pages * mmap.PAGESIZE), (ctypes.c_ubyte * pages)())
    return library.mincore(*asked) == 0 or ctypes.get_errno() != errno.ENOMEM


class HostMemory:
    """The host's memory in the device's place: addresses are those of the process. Blocks that live are known, so that
    a use of others is told and does not end the process."""

    name = "host memory (no GPU)"
    on_gpu = False

    def __init__(self) -> None:
        self._held: Dict[int, Tuple[int, Any]] = {}
        self._starts: List[int] = []
        self._lock = threading.Lock()

    def allocate(self, size: int) -> int:
        import numpy

        # 64-byte aligned, as devices do it.
        block = numpy.zeros(max(size, 1) + 64, numpy.uint8)
        address = int((block.ctypes.data + 63) // 64 * 64)
        with self._lock:
            self._held[address] = size, block
            bisect.insort(self._starts, address)
        return address

    def free(self, address: int) -> None:
        with self._lock:
            if address not in self._held:
                raise BadAddress("no memory begins at %#x: it was freed, or is another's" % address)
            del self._held[address]
            del self._starts[bisect.bisect_left(self._starts, address)]

    def require(self, address: int, size: int, foreign: bool = False) -> None:
        """Raises BadAddress where `size` bytes from there on do not lie in a block that lives. With `foreign` memory
        of others, as PyTorch's, is taken as it is."""
        with self._lock:
            at = bisect.bisect_right(self._starts, address) - 1
            start = self._starts[at] if at >= 0 else 0
            room = start + self._held[start][0] - address if at >= 0 else 0
        if at >= 0 and 0 < room < size:
            raise BadAddress("%d bytes do not fit into the %d that are there" % (size, room))
        if not foreign and size > 0 and room <= 0:
            raise BadAddress("no device memory lies at %#x: it was freed, or never allocated" % address)
        if foreign and size > 0 and room <= 0 and not is_mapped(address, size):
            raise BadAddress("no memory lies at %#x: it was freed; keep the tensor whose address it is" % address)

    def to_device(self, to: int, source: int, size: int, stream: int = 0) -> None:
        ctypes.memmove(to, source, size)

    to_host = to_device
    between = to_device

    def fill(self, to: int, value: int, size: int) -> None:
        ctypes.memset(to, value, size)

    def array(self, address: int, sizes: Sequence[int], dtype: str) -> Any:
        """The elements at an address."""
        found = host_array(address, sizes, dtype)
        self.require(address, int(found.nbytes), foreign=True)
        return found

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
        _memory = GpuMemory() if driver() is not None else HostMemory()
    return _memory
