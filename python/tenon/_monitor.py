# SPDX-License-Identifier: Apache-2.0
"""Memory over time, of this process or another, and of the GPU."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Dict, List, Optional

from ._errors import Code, Error

_PAGE = os.sysconf("SC_PAGESIZE")


def resident_bytes(process: int) -> int:
    """Of a process and those that it has started; 0 once it has ended."""
    total = 0
    for one in [process, *_children(process)]:
        try:
            with open("/proc/%d/statm" % one, encoding="ascii") as file:
                total += int(file.read().split()[1]) * _PAGE
        except (OSError, IndexError):
            pass
    return total


def _children(process: int) -> List[int]:
    found: List[int] = []
    try:
        for task in os.listdir("/proc/%d/task" % process):
            with open("/proc/%d/task/%s/children" % (process, task), encoding="ascii") as file:
                for child in map(int, file.read().split()):
                    found += [child, *_children(child)]
    except OSError:
        pass
    return found


class _Gpu:
    """Used memory of a GPU by NVML; None where that is not there."""

    def __init__(self, index: int) -> None:
        self._nvml: Any = None
        self._handle: Any = None
        try:
            import pynvml

            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            self._nvml = pynvml
        except Exception:  # no package, no driver, or no such GPU
            self._nvml = None

    def used(self) -> Optional[int]:
        return int(self._nvml.nvmlDeviceGetMemoryInfo(self._handle).used) if self._nvml else None


class Monitor:
    """Samples while it is entered.

    seconds, host, gpu: the curves; bytes of the process with its children, and of the GPU as a whole (None without one)
    """

    def __init__(self, interval: float = 0.02, process: Optional[int] = None, gpu: int = 0) -> None:
        if not interval > 0:
            raise Error(Code.usage, "the interval must be above 0 seconds")
        self.interval = interval
        self.process = os.getpid() if process is None else process
        self.seconds: List[float] = []
        self.host: List[int] = []
        self.gpu: List[Optional[int]] = []
        self._gpu = _Gpu(gpu)
        self._end = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._start = 0.0

    def sample(self) -> None:
        """Takes one more now."""
        self.seconds.append(time.perf_counter() - self._start)
        self.host.append(resident_bytes(self.process))
        self.gpu.append(self._gpu.used())

    def _work(self) -> None:
        while not self._end.wait(self.interval):
            self.sample()

    def __enter__(self) -> "Monitor":
        self._start = time.perf_counter()
        self.sample()
        self._thread = threading.Thread(target=self._work, daemon=True, name="tenon monitor")
        self._thread.start()
        return self

    def __exit__(self, *what: object) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()
        self.sample()

    @property
    def host_peak(self) -> int:
        """Most bytes that the process has held."""
        return max(self.host, default=0)

    @property
    def gpu_peak(self) -> Optional[int]:
        """Most bytes that were used of the GPU."""
        return max((one for one in self.gpu if one is not None), default=None)

    def as_dict(self) -> Dict[str, Any]:
        return {
            "host_peak_bytes": self.host_peak,
            "host_growth_bytes": self.host_peak - (self.host[0] if self.host else 0),
            "gpu_peak_bytes": self.gpu_peak,
            "seconds": [round(one, 4) for one in self.seconds],
            "host_bytes": self.host,
            "gpu_bytes": self.gpu,
        }

    def __repr__(self) -> str:
        text = "host peak %.1f MB, grown by %.1f MB" % (
            self.host_peak / 1e6,
            (self.host_peak - (self.host[0] if self.host else 0)) / 1e6,
        )
        return text if self.gpu_peak is None else text + "; GPU peak %.1f MB" % (self.gpu_peak / 1e6)


def monitor(interval: float = 0.02, process: Optional[int] = None, gpu: int = 0) -> Monitor:
    """with tenon.monitor() as m: …   samples memory every `interval` seconds; then m.host_peak, m.as_dict()."""
    return Monitor(interval, process, gpu)
