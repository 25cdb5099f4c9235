# SPDX-License-Identifier: Apache-2.0
"""The calibrators that scripts derive from, and how a build calls them."""

from __future__ import annotations

import sys
import traceback
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .. import _core
from .._calibration import Calibrator
from .._errors import Code, Error, counted
from ..cuda._memory import BadAddress, memory
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


def _told(error: Exception) -> str:
    """An exception, and where it was raised."""
    places = traceback.extract_tb(error.__traceback__)
    where = " (%s, line %s)" % (places[-1].filename, places[-1].lineno) if places else ""
    return "%s: %s%s" % (type(error).__name__, error, where)


class Adapter(Calibrator):
    """A script's calibrator as Tenon's: batches lie at the addresses that it gives, at the network's input sizes."""

    def __init__(
        self, script: Any, inputs: Sequence[_core.TensorInfo], shapes: Mapping[str, Sequence[int]], logger: Any
    ) -> None:
        self._script, self._inputs, self._shapes, self._logger = script, inputs, shapes, logger
        self.input_names = [info.name for info in inputs]
        self._read: Optional[bytes] = None
        self._batches = 0

    def next_batch(self) -> Optional[Mapping[str, Any]]:
        try:
            addresses = self._script.get_batch(list(self.input_names))
        except Exception as error:
            self._end(error)
            return None
        if addresses is None or len(addresses) == 0:
            return None
        if len(addresses) != len(self._inputs):
            raise Error(
                Code.usage,
                "the calibrator gives %s for %s"
                % (counted(len(addresses), "address"), counted(len(self._inputs), "input")),
                hint="get_batch gives one for each of its names",
            )
        batch: Dict[str, Any] = {}
        for info, address in zip(self._inputs, addresses):
            sizes = [int(size) for size in self._shapes.get(info.name, info.shape)]
            # Read at once: the script fills the same memory for the next batch.
            try:
                batch[info.name] = memory().array(pointer(address), sizes, info.dtype).copy()
            except (BadAddress, TypeError) as error:
                raise Error(Code.usage, "get_batch gives no batch of %s" % info.name, why=str(error)) from None
        self._batches += 1
        return batch

    def _end(self, error: Exception) -> None:
        """An exception ends the data, as in TensorRT; before any batch the build fails of it."""
        print("[ERROR] Exception caught in get_batch(): %s" % error, file=sys.stderr)
        if self._batches == 0:
            hint = "give None at the end of the data"
            raise Error(Code.usage, "the calibrator's get_batch failed", why=_told(error), hint=hint) from error
        text = "The data ends after %s, as get_batch failed: %s" % (counted(self._batches, "batch"), _told(error))
        tell(self._logger, Severity.ERROR, text)

    def read_calibration_cache(self) -> Optional[bytes]:
        cache = self._script.read_calibration_cache()
        self._read = bytes(cache) if cache is not None else None
        return self._read

    def write_calibration_cache(self, cache: bytes) -> None:
        tell(self._logger, Severity.INFO, "Calibration cache of %d bytes." % len(cache))
        self._script.write_calibration_cache(memoryview(HostMemory(cache)))
