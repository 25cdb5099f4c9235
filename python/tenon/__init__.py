# SPDX-License-Identifier: Apache-2.0
"""Tenon: an ONNX model in, an engine tuned for this machine out.

    import tenon
    engine = tenon.build("model.onnx")
    outputs = engine(images)                      # NumPy arrays, or anything with __dlpack__
    engine.save("model.tenon")
    engine = tenon.load("model.tenon")

Functions raise tenon.Error. Messages go to the logger "tenon" of Python's `logging`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List

from ._build import build, is_engine_file, load, open, retune, run, session
from ._core import (
    Engine,
    LayerTime,
    Limits,
    Preprocess,
    Profile,
    Session,
    State,
    Tensor,
    TensorInfo,
    devices,
    limits,
    load_plugin,
    set_limits,
    version as __version__,
)
from ._errors import Code, Error
from ._logging import Severity

if TYPE_CHECKING:
    from ._calibration import Calibrator
    from ._custom import TensorType, custom_op
    from ._export import export
    from ._monitor import monitor
    from ._segment import Segments, segment
    from .vision import Detections, classify, detect

# What takes a while to import, or needs NumPy, comes when it is first asked for.
_LATER = {
    "Calibrator": "_calibration",
    "Detections": "vision",
    "Segments": "_segment",
    "TensorType": "_custom",
    "classify": "vision",
    "custom_op": "_custom",
    "detect": "vision",
    "export": "_export",
    "monitor": "_monitor",
    "segment": "_segment",
}
_MODULES = ("cuda", "ray", "tensorrt", "torch", "vision")

__all__ = [
    "Calibrator",
    "Code",
    "Detections",
    "Engine",
    "Error",
    "LayerTime",
    "Limits",
    "Preprocess",
    "Profile",
    "Segments",
    "Session",
    "Severity",
    "State",
    "Tensor",
    "TensorInfo",
    "TensorType",
    "__version__",
    "build",
    "classify",
    "custom_op",
    "detect",
    "devices",
    "export",
    "is_engine_file",
    "limits",
    "load",
    "load_plugin",
    "monitor",
    "open",
    "retune",
    "run",
    "segment",
    "session",
    "set_limits",
]


def __getattr__(name: str) -> Any:
    import importlib

    if name in _LATER:
        value = getattr(importlib.import_module("." + _LATER[name], __name__), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module("." + name, __name__)
    raise AttributeError("module %r has no attribute %r" % (__name__, name))


def __dir__() -> List[str]:
    return sorted([*__all__, *_MODULES])
