# SPDX-License-Identifier: Apache-2.0
"""The part of TensorRT's Python interface that scripts use to calibrate, build and run, on Tenon:

    import tenon.tensorrt as trt

It presents version 8.6, with the calls that are older and those by tensor names that came later. With a GPU engines run
there, and memory is the GPU's (tenon.cuda); without one both are the host's. What is not offered is absent, and says
what to use instead. docs/from-tensorrt.md lists every name.
"""

from __future__ import annotations

from typing import Any

from ._absent import CLASSES as _MEMBERS
from ._absent import MODULE as _INSTEAD
from ._builder import Builder, IBuilderConfig, IOptimizationProfile, ITimingCache
from ._calibrator import (
    IInt8Calibrator,
    IInt8EntropyCalibrator,
    IInt8EntropyCalibrator2,
    IInt8LegacyCalibrator,
    IInt8MinMaxCalibrator,
)
from ._context import IExecutionContext
from ._enums import (
    BuilderFlag,
    CalibrationAlgoType,
    DataType,
    DeviceType,
    EngineCapability,
    ErrorCode,
    LayerInformationFormat,
    LayerType,
    MemoryPoolType,
    NetworkDefinitionCreationFlag,
    OnnxParserFlag,
    PreviewFeature,
    ProfilingVerbosity,
    Severity,
    TacticSource,
    TensorFormat,
    TensorIOMode,
    TensorLocation,
    WeightsRole,
)
from ._inspector import EngineInspector, IPluginRegistry, get_plugin_registry, init_libnvinfer_plugins
from ._network import ILayer, INetworkDefinition, ITensor
from ._parser import OnnxParser, ParserError
from ._refitter import OnnxParserRefitter, Refitter
from ._runtime import ICudaEngine, IProfiler, Profiler, Runtime
from ._types import Dims, Dims2, Dims3, Dims4, DimsHW, ILogger, Logger, NotOffered, Weights, lacking, nptype, volume
from ._types import HostMemory as IHostMemory

__version__ = "8.6.1"
ErrorCodeTRT = ErrorCode

float32, float16, int8, int32 = DataType.FLOAT, DataType.HALF, DataType.INT8, DataType.INT32
bool = DataType.BOOL
uint8, fp8, bfloat16, int64, int4 = DataType.UINT8, DataType.FP8, DataType.BF16, DataType.INT64, DataType.INT4


class IOutputAllocator:
    """Subclass it and override reallocate_output and notify_shape."""

    def __init__(self) -> None:
        pass

    def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
        raise NotImplementedError("an output allocator overrides reallocate_output")

    def notify_shape(self, tensor_name: str, shape: Dims) -> None:
        raise NotImplementedError("an output allocator overrides notify_shape")


class IProgressMonitor:
    """Subclass it and override phase_start, step_complete and phase_finish."""

    def __init__(self) -> None:
        pass


class IErrorRecorder:
    """Subclass it; errors go to the logger."""

    def __init__(self) -> None:
        pass


def get_nv_onnx_parser_version() -> int:
    return 80601


def __getattr__(name: str) -> Any:
    raise lacking("tenon.tensorrt", _INSTEAD, name)
