# SPDX-License-Identifier: Apache-2.0
"""The calibrators that scripts derive from, and how a build calls them."""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .. import _core
from .._calibration import Calibrator
from ..cuda._memory import memory
from ._enums import CalibrationAlgoType, Severity
from ._types import HostMemory, Managed, pointer, tell


class IInt8Calibrator(Managed):
    """Override get_batch_size, get_batch, read_calibration_cache, write_calibration_cache and get_algorithm."""

    # Scripts call the base's constructor late, or not at all.
    def __init__(self) -> None:
        pass

    def get_batch_size(self) -> int:
        return 1

    def get_algorithm(self) -> Any:
        raise NotImplementedError("an IInt8Calibrator overrides get_algorithm")

    def get_batch(self, names: List[str]) -> Optional[Sequence[Any]]:
        raise NotImplementedError("a calibrator overrides get_batch")

    def read_calibration_cache(self) -> Any:
        return None

    def write_calibration_cache(self, cache: Any) -> None:
        return None


class IInt8LegacyCalibrator(IInt8Calibrator):
    def get_algorithm(self) -> Any:
        return CalibrationAlgoType.LEGACY_CALIBRATION

    def get_quantile(self) -> float:
        return 0.9999

    def get_regression_cutoff(self) -> float:
        return 1.0


class IInt8EntropyCalibrator(IInt8Calibrator):
    def get_algorithm(self) -> Any:
        return CalibrationAlgoType.ENTROPY_CALIBRATION


class IInt8EntropyCalibrator2(IInt8Calibrator):
    def get_algorithm(self) -> Any:
        return CalibrationAlgoType.ENTROPY_CALIBRATION_2


class IInt8MinMaxCalibrator(IInt8Calibrator):
    def get_algorithm(self) -> Any:
        return CalibrationAlgoType.MINMAX_CALIBRATION


METHODS = {
    CalibrationAlgoType.LEGACY_CALIBRATION: "percentile",
    CalibrationAlgoType.ENTROPY_CALIBRATION: "entropy-legacy",
    CalibrationAlgoType.ENTROPY_CALIBRATION_2: "entropy",
    CalibrationAlgoType.MINMAX_CALIBRATION: "minmax",
}


class Adapter(Calibrator):
    """A script's calibrator as Tenon's: batches lie at the addresses that it gives, at the network's input sizes."""

    def __init__(
        self, script: Any, inputs: Sequence[_core.TensorInfo], shapes: Mapping[str, Sequence[int]], logger: Any
    ) -> None:
        self._script, self._inputs, self._shapes, self._logger = script, inputs, shapes, logger
        self.input_names = [info.name for info in inputs]
        self._read: Optional[bytes] = None

    def next_batch(self) -> Optional[Mapping[str, Any]]:
        try:
            addresses = self._script.get_batch(list(self.input_names))
        except Exception as error:
            print("[ERROR] Exception caught in get_batch(): %s" % error, file=sys.stderr)
            return None
        if addresses is None or len(addresses) == 0:
            return None
        batch: Dict[str, Any] = {}
        for info, address in zip(self._inputs, addresses):
            sizes = [int(size) for size in self._shapes.get(info.name, info.shape)]
            # Read at once: the script fills the same memory for the next batch.
            batch[info.name] = memory().array(pointer(address), sizes, info.dtype).copy()
        return batch

    def read_calibration_cache(self) -> Optional[bytes]:
        cache = self._script.read_calibration_cache()
        self._read = bytes(cache) if cache is not None else None
        return self._read

    def write_calibration_cache(self, cache: bytes) -> None:
        tell(self._logger, Severity.INFO, "Calibration cache of %d bytes." % len(cache))
        self._script.write_calibration_cache(memoryview(HostMemory(cache)))
