# SPDX-License-Identifier: Apache-2.0
"""The enumerations, with the numbers of TensorRT 8.6; names that later versions added follow."""

from __future__ import annotations

import enum
from typing import Any


class _Enum(enum.IntEnum):
    """Prints as DataType.FLOAT."""

    def __str__(self) -> str:
        return "%s.%s" % (type(self).__name__, self.name)

    def __repr__(self) -> str:
        return "<%s: %d>" % (self, self.value)

    def __format__(self, form: str) -> str:
        return format(str(self), form)


def _numbered(name: str, names: str, **values: int) -> Any:
    """An enumeration of names from 0 on, and of names with numbers."""
    members = {word: at for at, word in enumerate(names.split())}
    make: Any = _Enum
    return make(name, {**members, **values}, module=__name__)


class DataType(_Enum):
    FLOAT = 0
    HALF = 1
    INT8 = 2
    INT32 = 3
    BOOL = 4
    UINT8 = 5
    FP8 = 6
    BF16 = 7
    INT64 = 8
    INT4 = 9
    FP4 = 10

    @property
    def itemsize(self) -> float:
        """Bytes of an element."""
        return {"FLOAT": 4, "HALF": 2, "INT32": 4, "BF16": 2, "INT64": 8, "INT4": 0.5, "FP4": 0.5}.get(self.name, 1)


class Severity(_Enum):
    INTERNAL_ERROR = 0
    ERROR = 1
    WARNING = 2
    INFO = 3
    VERBOSE = 4


BuilderFlag = _numbered(
    "BuilderFlag",
    "FP16 INT8 DEBUG GPU_FALLBACK STRICT_TYPES REFIT DISABLE_TIMING_CACHE TF32 SPARSE_WEIGHTS SAFETY_SCOPE "
    "OBEY_PRECISION_CONSTRAINTS PREFER_PRECISION_CONSTRAINTS DIRECT_IO REJECT_EMPTY_ALGORITHMS "
    "ENABLE_TACTIC_HEURISTIC VERSION_COMPATIBLE EXCLUDE_LEAN_RUNTIME FP8 ERROR_ON_TIMING_CACHE_MISS BF16 "
    "DISABLE_COMPILATION_CACHE STRIP_PLAN REFIT_IDENTICAL WEIGHT_STREAMING INT4 REFIT_INDIVIDUAL "
    "STRICT_NANS MONITOR_MEMORY FP4 EDITABLE_TIMING_CACHE DISTRIBUTIVE_INDEPENDENCE",
    WEIGHTLESS=21,
)
NetworkDefinitionCreationFlag = _numbered(
    "NetworkDefinitionCreationFlag", "EXPLICIT_BATCH EXPLICIT_PRECISION", STRONGLY_TYPED=2
)
MemoryPoolType = _numbered(
    "MemoryPoolType", "WORKSPACE DLA_MANAGED_SRAM DLA_LOCAL_DRAM DLA_GLOBAL_DRAM TACTIC_DRAM TACTIC_SHARED_MEMORY"
)
CalibrationAlgoType = _numbered(
    "CalibrationAlgoType", "LEGACY_CALIBRATION ENTROPY_CALIBRATION ENTROPY_CALIBRATION_2 MINMAX_CALIBRATION"
)
ProfilingVerbosity = _numbered("ProfilingVerbosity", "LAYER_NAMES_ONLY NONE DETAILED", DEFAULT=0, VERBOSE=2)
WeightsRole = _numbered("WeightsRole", "KERNEL BIAS SHIFT SCALE CONSTANT ANY")
TensorIOMode = _numbered("TensorIOMode", "NONE INPUT OUTPUT")
TensorLocation = _numbered("TensorLocation", "DEVICE HOST")
DeviceType = _numbered("DeviceType", "GPU DLA")
LayerInformationFormat = _numbered("LayerInformationFormat", "ONELINE JSON")
TensorFormat = _numbered(
    "TensorFormat", "LINEAR CHW2 HWC8 CHW4 CHW16 CHW32 DHWC8 CDHW32 HWC DLA_LINEAR DLA_HWC4 HWC16 DHWC"
)
TacticSource = _numbered("TacticSource", "CUBLAS CUBLAS_LT CUDNN EDGE_MASK_CONVOLUTIONS JIT_CONVOLUTIONS")
EngineCapability = _numbered("EngineCapability", "STANDARD SAFETY DLA_STANDALONE", DEFAULT=0)
PreviewFeature = _numbered(
    "PreviewFeature",
    "FASTER_DYNAMIC_SHAPES_0805 DISABLE_EXTERNAL_TACTIC_SOURCES_FOR_CORE_0805 PROFILE_SHARING_0806 "
    "ALIASED_PLUGIN_IO_10_03 RUNTIME_ACTIVATION_RESIZE_10_10",
)
OnnxParserFlag = _numbered(
    "OnnxParserFlag", "NATIVE_INSTANCENORM ENABLE_UINT8_AND_ASYMMETRIC_QUANTIZATION_DLA REPORT_CAPABILITY_DLA"
)
ErrorCode = _numbered(
    "ErrorCode",
    "SUCCESS INTERNAL_ERROR MEM_ALLOC_FAILED MODEL_DESERIALIZE_FAILED INVALID_VALUE INVALID_GRAPH INVALID_NODE "
    "UNSUPPORTED_GRAPH UNSUPPORTED_NODE",
)
LayerType = _numbered(
    "LayerType",
    "CONVOLUTION FULLY_CONNECTED ACTIVATION POOLING LRN SCALE SOFTMAX DECONVOLUTION CONCATENATION ELEMENTWISE PLUGIN "
    "UNARY PADDING SHUFFLE REDUCE TOPK GATHER MATRIX_MULTIPLY RAGGED_SOFTMAX CONSTANT RNN_V2 IDENTITY PLUGIN_V2 SLICE "
    "SHAPE PARAMETRIC_RELU RESIZE TRIP_LIMIT RECURRENCE ITERATOR LOOP_OUTPUT SELECT FILL QUANTIZE DEQUANTIZE CONDITION "
    "CONDITIONAL_INPUT CONDITIONAL_OUTPUT SCATTER EINSUM ASSERTION ONE_HOT NON_ZERO GRID_SAMPLE NMS REVERSE_SEQUENCE "
    "NORMALIZATION CAST PLUGIN_V3",
)

_LAYER_OF_OP = {
    "Conv": "CONVOLUTION",
    "ConvTranspose": "DECONVOLUTION",
    "Gemm": "MATRIX_MULTIPLY",
    "MatMul": "MATRIX_MULTIPLY",
    "MaxPool": "POOLING",
    "AveragePool": "POOLING",
    "GlobalAveragePool": "REDUCE",
    "Softmax": "SOFTMAX",
    "Concat": "CONCATENATION",
    "Reshape": "SHUFFLE",
    "Transpose": "SHUFFLE",
    "Flatten": "SHUFFLE",
    "Squeeze": "SHUFFLE",
    "Unsqueeze": "SHUFFLE",
    "Slice": "SLICE",
    "Split": "SLICE",
    "Resize": "RESIZE",
    "Upsample": "RESIZE",
    "TopK": "TOPK",
    "Gather": "GATHER",
    "Constant": "CONSTANT",
    "Shape": "SHAPE",
    "QuantizeLinear": "QUANTIZE",
    "DequantizeLinear": "DEQUANTIZE",
    "NonMaxSuppression": "NMS",
    "Cast": "CAST",
    "Identity": "IDENTITY",
    "Where": "SELECT",
    "Einsum": "EINSUM",
    "BatchNormalization": "SCALE",
    "Pad": "PADDING",
    "PRelu": "PARAMETRIC_RELU",
    "LRN": "LRN",
    "InstanceNormalization": "NORMALIZATION",
    "LayerNormalization": "NORMALIZATION",
    "GridSample": "GRID_SAMPLE",
    "OneHot": "ONE_HOT",
    "NonZero": "NON_ZERO",
}
_ELEMENTWISE = {"Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "And", "Or", "Xor", "Equal", "Greater", "Less"}
_ACTIVATIONS = {"Relu", "LeakyRelu", "Sigmoid", "Tanh", "Elu", "Selu", "HardSigmoid", "Clip", "Softplus", "Gelu"}


def layer_type(op: str) -> Any:
    """The type that TensorRT's ONNX parser gives an operator, as far as one stands for it."""
    if op in _ELEMENTWISE:
        return LayerType.ELEMENTWISE
    if op in _ACTIVATIONS:
        return LayerType.ACTIVATION
    if op.startswith("Reduce"):
        return LayerType.REDUCE
    return LayerType[_LAYER_OF_OP.get(op, "UNARY")]
