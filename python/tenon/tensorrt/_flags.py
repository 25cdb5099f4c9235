# SPDX-License-Identifier: Apache-2.0
"""What the flags of a configuration mean here."""

from __future__ import annotations

from typing import Any, Dict, List

from ._absent import IDLE_FLAGS, REFUSED_FLAGS
from ._enums import BuilderFlag, DataType, Severity
from ._types import NotOffered, tell


def require_offered(flags: int) -> None:
    """Raises NotOffered for a flag that asks for what Tenon does not have."""
    for name, advice in REFUSED_FLAGS.items():
        if flags >> int(BuilderFlag[name]) & 1:
            raise NotOffered("BuilderFlag.%s is not offered: %s" % (name, advice))


def idle(flags: int) -> List[str]:
    """What to tell of flags that change nothing."""
    return ["BuilderFlag.%s: %s." % (name, IDLE_FLAGS[name]) for name in IDLE_FLAGS if flags >> BuilderFlag[name] & 1]


def precision_of(config: Any, device: str, logger: Any) -> str:
    """The flags as one precision; what stays out of INT8 takes what the device has beside it."""
    on_gpu = device != "cpu"
    if config.get_flag(BuilderFlag.INT8):
        return "int8"
    if config.get_flag(BuilderFlag.FP8):
        return "fp8"
    if config.get_flag(BuilderFlag.BF16):
        return "bf16"
    if config.get_flag(BuilderFlag.FP16):
        if on_gpu:
            return "fp16"
        tell(logger, Severity.WARNING, "CPUs compute FP16 no faster: the engine is FP32.")
    return "tf32" if on_gpu and config.get_flag(BuilderFlag.TF32) else "fp32"


def held_layers(network: Any, config: Any) -> Dict[str, str]:
    """Layers that the script holds in floating point, of those that have a form in INT8 of their own; others are
    computed as what lies around them."""
    flags = (BuilderFlag.STRICT_TYPES, BuilderFlag.OBEY_PRECISION_CONSTRAINTS, BuilderFlag.PREFER_PRECISION_CONSTRAINTS)
    if not any(config.get_flag(flag) for flag in flags):
        return {}
    floats = (DataType.FLOAT, DataType.HALF, DataType.BF16)
    return {
        layer._origin: "fp32"
        for layer in network._layers
        if layer._op in ("Conv", "ConvTranspose", "Gemm", "MatMul")
        and (layer._precision in floats or any(kind in floats for kind in layer._output_types.values()))
    }
